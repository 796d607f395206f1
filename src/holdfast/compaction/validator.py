"""The one judge of plans, whoever wrote the strategy.

Fourteen things are true of every compaction. Those that a plan can break are checked here, before
anything is written; the others hold by how the compactor commits and the store keeps:

- I1 a tool result has its call before it, a call has its results or is pending at the end, and a
  call with its results is folded whole. I2 a call that was never answered blocks nothing.
- I3 system and pinned messages stay, byte for byte and in order. I4 so does the last user message.
- I5 originals are never changed: a plan can only name messages that are shown.
- I6 the view fits the budget. I7 it becomes smaller, by a share that is worth it.
- I8 one transaction, guarded by the revision; I9 nothing new, no second record; I10 no summary, no
  change; I11 what arrives meanwhile stays: `compactor`.
- I12 the same records give the same bytes: `view`. I13 expand and undo are exact, I14 the count is
  that of the records: the store.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence, Set
from operator import itemgetter

from holdfast.compaction.budget import Budget
from holdfast.compaction.errors import PlanRefused
from holdfast.compaction.plan import Plan
from holdfast.compaction.ranges import Ranges, covers, overlap, size, union, without
from holdfast.compaction.view import Atom, Item, Kind, View, answers
from holdfast.model.message import Message, Role

MIN_SAVING = 0.05
"""The share of a view's tokens that a compaction must save. A summary costs a call, and every change
of the view costs the provider's cache of it."""


def validate(strategy: str, view: View, plan: Plan, budget: Budget) -> View:
    """The view as the plan leaves it, or `PlanRefused`."""
    if broken := list(_ill_aimed(view, plan)):
        raise PlanRefused(strategy, broken)
    after = view.after(plan)
    broken = [*_lost(view, after), *malformed(after.messages), *_too_large(view, after, budget)]
    if broken:
        raise PlanRefused(strategy, broken)
    return after


def malformed(messages: Sequence[Message]) -> Iterator[str]:
    """What a model would refuse about calls and results (I1, I2)."""
    unanswered: Counter[str] = Counter()
    called: set[str] = set()
    calling = False
    for message in messages:
        if (call_id := answers(message)) is not None:
            if call_id not in called:
                yield f"I1: message {message.seq} is the result of {call_id!r}, which is not called before it"
            unanswered[call_id] = max(0, unanswered[call_id] - 1)
        elif message.role in (Role.USER, Role.AGENT) and not (calling and message.tool_calls):
            for call_id in +unanswered:
                yield f"I1: the call {call_id!r} is not answered before message {message.seq}"
            unanswered.clear()
        calling = bool(message.tool_calls)
        for call_id in {call.id for call in message.tool_calls}:
            called.add(call_id)
            unanswered[call_id] += 1


def _ill_aimed(view: View, plan: Plan) -> Iterator[str]:
    """What the plan says about messages that it may not touch (I1, I3, I4, I5)."""
    removals: list[Ranges] = [*(fold.ranges for fold in plan.folds), plan.dropped]
    replaced = union((each.seq, each.seq) for each in plan.replaced)
    touched = union(replaced, *removals)
    if not touched:
        yield "I7: it does nothing"
    if sum(map(size, removals)) + len(plan.replaced) > size(touched):
        yield "I5: it says two things about one message"
        return
    shown = union(view.layout.shown(view.last_seq), *(each.fold.ranges for each in view.layout.summaries))
    if unknown := without(touched, shown):
        yield f"I5: messages {_spelled(unknown)} are not in the view"
        return
    edits = sorted((*each, number) for number, ranges in enumerate(removals) for each in ranges)
    folded: list[list[Item]] = [[] for _ in removals]
    for atom in view.atoms:
        hit = {_edit_at(edits, first) for item in atom.items for first, _ in item.ranges}
        if hit != {None}:
            yield from _ill_treated(atom, hit, removals)
            for number in hit - {None}:
                folded[number or 0] += atom.items
        elif atom.fixed and replaced and overlap(seqs := _seqs(atom), replaced):
            yield f"I3: messages {_spelled(seqs)} must stay as they are, and would be shortened"
        elif atom.is_summary and replaced and overlap(_seqs(atom), replaced):
            yield "I5: a message that is not shown cannot be shortened"
    for items in folded[: len(plan.folds)]:
        if len(items) == 1 and items[0].kind is Kind.SUMMARY:
            yield "I9: a summary alone would be summarised again"


def _edit_at(edits: Sequence[tuple[int, int, int]], seq: int) -> int | None:
    """The number of the removal that takes a message away."""
    at = bisect_right(edits, seq, key=_first) - 1
    return edits[at][2] if at >= 0 and seq <= edits[at][1] else None


def _ill_treated(atom: Atom, hit: Set[int | None], removals: Sequence[Ranges]) -> Iterator[str]:
    seqs = _seqs(atom)
    if atom.fixed:
        yield f"I3: messages {_spelled(seqs)} must stay as they are, and would be removed"
    elif len(hit) > 1 or not covers(removals[next(iter(hit)) or 0], seqs):
        yield f"I1: messages {_spelled(seqs)} belong together, and would be parted"


def _seqs(atom: Atom) -> Ranges:
    return union(each for item in atom.items for each in item.ranges)


_first = itemgetter(0)


def _lost(before: View, after: View) -> Iterator[str]:
    """What must be in the view and is not, as it was and in order (I3, I4)."""
    kept = [item.message for item in _kept(before)]
    if kept != [item.message for item in _kept(after)]:
        yield "I3: the system and pinned messages, or the last user message, are not as they were"


def _kept(view: View) -> Iterator[Item]:
    return (item for item in view.items if item.fixed)


def _too_large(before: View, after: View, budget: Budget) -> Iterator[str]:
    if after.tokens > budget.room:
        yield f"I6: the view would take {after.tokens:,} tokens where {budget.room:,} are allowed"
    if after.tokens > before.tokens * (1 - MIN_SAVING):
        saved = before.tokens - after.tokens
        yield f"I7: it would save {saved:,} of {before.tokens:,} tokens, which is too few"


def _spelled(ranges: Ranges) -> str:
    return ", ".join(str(first) if first == last else f"{first}–{last}" for first, last in ranges)
