"""The one judge of plans, whoever wrote the strategy.

Fourteen things are true of every compaction. Those that a plan can break are checked here, before
anything is written; the others hold by how the compactor commits and the store keeps:

- I1 a tool result stands right after its call and is the only one, a call has its results or is
  pending at the end, and a call with its results is folded whole; where a person's words or a
  summary came first, they still do. I2 a call that was never answered blocks nothing.
- I3 system and pinned messages stay, byte for byte and in order. I4 so does the last user message.
- I5 originals are never changed: a plan can only name messages that are shown.
- I6 the view fits the budget. I7 it becomes smaller, by a share that is worth it.
- I8 one transaction, guarded by the compaction it was planned on; I9 nothing new, no second record;
  I10 no summary, no change; I11 what arrives meanwhile stays: `compactor`.
- I12 the same records give the same bytes: `view`. I13 expand and undo are exact, I14 the count is
  that of the records: the store.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence, Set

import msgspec

from holdfast.compaction.budget import Budget
from holdfast.compaction.errors import PlanRefused
from holdfast.compaction.items import Atom, Item, is_note
from holdfast.compaction.plan import Plan, Replacement
from holdfast.compaction.ranges import Ranges, overlap, ranges_of, size, union, without
from holdfast.compaction.view import View, answers
from holdfast.model.content import TextContent, ToolContent, decode_content
from holdfast.model.message import Message, Role
from holdfast.model.tokens import TokenCounter, message_tokens

MIN_SAVING = 0.05
"""The share of a view's tokens that a compaction must save. A summary costs a call, and every change
of the view costs the provider's cache of it."""


_USER, _AGENT = Role.USER, Role.AGENT  # named once each: see `items`


def validate(strategy: str, view: View, plan: Plan, budget: Budget) -> View:
    """The view as the plan leaves it, or `PlanRefused`."""
    if broken := list(_ill_aimed(view, plan)):
        raise PlanRefused(strategy, broken)
    after = view.after(plan)
    broken = [
        *_lost(view, after),
        *malformed(after.messages),
        *_headless(view, after),
        *_too_large(view, after, budget),
    ]
    if broken:
        raise PlanRefused(strategy, broken)
    return after


def recounted(view: View, plan: Plan) -> Plan:
    """The plan with its replacements counted here, whatever whoever made it says that they take."""
    shown = {result.item.message.seq: result.item.message for result in view.results}
    replaced = [
        msgspec.structs.replace(each, tokens=_tokens(shown[each.seq], each, view.counter))
        if each.seq in shown
        else each  # it will be refused
        for each in plan.replaced
    ]
    return msgspec.structs.replace(plan, replaced=tuple(replaced))


def _tokens(message: Message, replacement: Replacement, counter: TokenCounter) -> int:
    content = msgspec.Raw(msgspec.json.encode(replacement.content))
    return message_tokens(msgspec.structs.replace(message, content_json=content, token_count=None), counter)


def malformed(messages: Sequence[Message]) -> Iterator[str]:
    """What a model would refuse about calls and results (I1, I2)."""
    called: set[str] = set()
    beside: set[str] = set()
    """The calls of the message that this one stands right after, or beside the results of."""
    unanswered: set[str] = set()
    waiting: list[str] = []
    """Calls that were passed over: they may be pending, where nothing else is said."""
    for message in messages:
        if (call_id := answers(message)) is not None:
            if call_id not in called:
                yield f"I1: message {message.seq} is the result of {call_id!r}, which is not called before it"
            elif call_id not in beside:
                yield f"I1: message {message.seq} does not stand right after the call {call_id!r}"
            elif call_id not in unanswered:
                yield f"I1: message {message.seq} is a second result of the call {call_id!r}"
            unanswered.discard(call_id)
            continue
        waiting += sorted(unanswered)
        said = (message.role is _USER or message.role is _AGENT) and not is_note(message)
        if waiting and said and not message.tool_calls:
            for call_id in waiting:
                yield f"I1: the call {call_id!r} is not answered before message {message.seq}"
            waiting.clear()
        beside = {call.id for call in message.tool_calls}
        unanswered = beside.copy()
        called |= beside


def begins_with_an_answer(messages: Iterable[Message]) -> bool:
    """Whether the agent speaks first, which some models refuse."""
    for message in messages:
        if message.role is _AGENT:
            return True
        if message.role is _USER and not is_note(message):
            return False
    return False


def _ill_aimed(view: View, plan: Plan) -> Iterator[str]:
    """What the plan says about messages that it may not touch (I1, I3, I4, I5)."""
    removals: list[Ranges] = [*(fold.ranges for fold in plan.folds), plan.dropped]
    if any(first > last for ranges in removals for first, last in ranges) or any(
        union(ranges) != ranges for ranges in removals
    ):
        yield "I5: its ranges are not in order, or not the fewest that say the same"
        return
    replaced = ranges_of(each.seq for each in plan.replaced)
    touched = union(replaced, *removals)
    if not touched or not all(fold.ranges for fold in plan.folds):
        yield "I7: it does nothing, or a fold of it folds nothing"
        return
    if sum(map(size, removals)) + len(plan.replaced) > size(touched):
        yield "I5: it says two things about one message"
        return
    shown = union(view.layout.shown(view.last_seq), *(each.fold.ranges for each in view.layout.summaries))
    if unknown := without(touched, shown):
        yield f"I5: messages {_spelled(unknown)} are not in the view"
        return
    removed_by = _Removals(removals)
    folded: list[list[Atom]] = [[] for _ in removals]
    for atom in view.atoms:
        hit = {removed_by.number(*each) for item in atom.items for each in item.ranges}
        if hit != _UNTOUCHED:
            yield from _ill_treated(atom, hit)
            for number in hit - {None, PARTLY}:
                folded[number or 0].append(atom)
        elif replaced and (atom.fixed or atom.is_summary) and overlap(seqs := atom.ranges, replaced):
            if atom.fixed:
                yield f"I3: messages {_spelled(seqs)} must stay as they are, and would be shortened"
            else:
                yield "I5: a message that is not shown cannot be shortened"
    yield from _ill_shortened(view, plan.replaced)
    for atoms in folded[: len(plan.folds)]:
        if len(atoms) == 1 and atoms[0].is_summary:
            yield "I9: a summary alone would be summarised again"


def _ill_shortened(view: View, replaced: Sequence[Replacement]) -> Iterator[str]:
    """What people, the agent and the system said is shown as they said it, or not at all (I5)."""
    results = {result.item.message.seq: result.item for result in view.results} if replaced else {}
    if said := ranges_of(each.seq for each in replaced if each.seq not in results):
        yield f"I5: messages {_spelled(said)} are no results of tools, and would be shown with other words"
        return
    shortened = [(results[each.seq], each) for each in replaced]
    if odd := ranges_of(each.seq for item, each in shortened if not _is_result(item.message, each)):
        yield f"I5: what would be shown for messages {_spelled(odd)} is no result of a tool"
    if longer := ranges_of(each.seq for item, each in shortened if (each.tokens or 0) > item.tokens):
        yield f"I7: messages {_spelled(longer)} would become longer"


def _is_result(message: Message, replacement: Replacement) -> bool:
    content = decode_content(msgspec.json.encode(replacement.content))
    is_text = isinstance(content, TextContent) and message.tool_call_id is not None
    return (is_text or isinstance(content, ToolContent)) and not content.open


PARTLY = -1
"""In the place of a removal's number: it takes away some of the messages, and leaves others."""

_UNTOUCHED = frozenset({None})


class _Removals:
    """Which of a plan's removals takes a message away; no two speak of the same one."""

    def __init__(self, removals: Sequence[Ranges]) -> None:
        edits = sorted((*each, number) for number, ranges in enumerate(removals) for each in ranges)
        self._firsts = [first for first, _, _ in edits]
        self._edits = edits

    def number(self, first: int, last: int) -> int | None:
        """The one that takes all of a range away; None when none takes any."""
        at = bisect_right(self._firsts, last) - 1
        if at < 0:
            return None
        begin, end, number = self._edits[at]
        if first > end:
            return None
        return number if begin <= first and last <= end else PARTLY


def _ill_treated(atom: Atom, hit: Set[int | None]) -> Iterator[str]:
    if atom.fixed:
        yield f"I3: messages {_spelled(atom.ranges)} must stay as they are, and would be removed"
    elif len(hit) > 1 or PARTLY in hit:
        yield f"I1: messages {_spelled(atom.ranges)} belong together, and would be parted"


def _lost(before: View, after: View) -> Iterator[str]:
    """What must be in the view and is not, as it was and in order (I3, I4)."""
    kept = [item.message for item in _kept(before)]
    if kept != [item.message for item in _kept(after)]:
        yield "I3: the system and pinned messages, or the last user message, are not as they were"


def _headless(before: View, after: View) -> Iterator[str]:
    """An answer at the beginning, where there was a question or a summary (I1)."""
    if not begins_with_an_answer(before.messages) and begins_with_an_answer(after.messages):
        yield "I1: the view would begin with what the agent said, and not with a person's words or a summary"


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
