"""What a model is shown of a session.

A view is made from a layout and the stored messages that it shows, and is always well formed: a
call's results stand right after it, one for each call, however late they came and whatever else was
recorded in between, because models refuse them elsewhere; a call that was not answered when the
conversation went on gets a result that says so, and a result of a call that is not shown, or has
one already, becomes a note. Making it again gives the same bytes.

A call and its results are one atom: they are shown together or not at all. An item is fixed when no
plan may touch it: what the system said, pinned messages, what the person said last, and whatever is
not over.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence, Set
from functools import cached_property
from operator import attrgetter

import msgspec

from holdfast.compaction.items import NOTE_OF_CALL, SHORTENED, STORED, SUMMARY, SYNTHETIC, Atom, Item
from holdfast.compaction.layout import Layout, Standing
from holdfast.compaction.plan import Plan, Replacement
from holdfast.compaction.tool_results import ToolResult, results_of
from holdfast.model.content import CompactionContent, TextContent
from holdfast.model.ids import CompactionId
from holdfast.model.message import Message, Role
from holdfast.model.tokens import MESSAGE_OVERHEAD, TokenCounter, message_tokens, shown_text

INTERRUPTED = "[interrupted: this call was never answered]"
STILL_RUNNING = "[still running: the result of this call will come later]"

REPORTS = frozenset({"tool", "plan", "question"})
"""What an agent did, means to do or asked is recorded under the system's role, too, and binds nobody."""

_SYSTEM, _USER, _AGENT = Role.SYSTEM, Role.USER, Role.AGENT  # named once each: see `items`


class View:
    def __init__(
        self,
        layout: Layout,
        stored: Sequence[Message],
        counter: TokenCounter,
        *,
        last_seq: int,
        rev: int = 0,
        composed: Composition | None = None,
    ) -> None:
        """`stored` are the messages that the layout shows of the first `last_seq`, in order."""
        self.layout = layout
        self.counter = counter
        self.last_seq = last_seq
        self.rev = rev
        """The session's revision at which it was read."""
        self._stored = stored
        self._composed = composed or _composed(layout, stored, counter)

    @property
    def head(self) -> CompactionId | None:
        return self.layout.head.id if self.layout.head else None

    @property
    def items(self) -> list[Item]:
        return self._composed.items

    @cached_property
    def atoms(self) -> list[Atom]:
        """What a plan may remove or keep as a whole, by where it ends."""
        return _atoms(self._composed)

    @cached_property
    def results(self) -> list[ToolResult]:
        """What tools gave back, as far as a plan may shorten it, in order."""
        return results_of(self.atoms)

    @property
    def messages(self) -> list[Message]:
        """What the model is sent."""
        return [item.message for item in self.items]

    @cached_property
    def tokens(self) -> int:
        return sum([item.tokens for item in self.items])

    def copy(self) -> View:
        """The same view with collections of its own, for somebody who may change them."""
        layout = msgspec.structs.replace(self.layout, replaced=dict(self.layout.replaced))
        made = self._composed
        composed = Composition([*made.items], dict(made.calls), set(made.pending))
        return View(
            layout, [*self._stored], self.counter, last_seq=self.last_seq, rev=self.rev, composed=composed
        )

    def after(self, plan: Plan) -> View:
        """The view as the plan would leave it; a summary not yet made takes the room it was given."""
        layout = self.layout.after(plan)
        if not plan.removed:
            same = self._shortened(plan.replaced)
            return View(
                layout, self._stored, self.counter, last_seq=self.last_seq, rev=self.rev, composed=same
            )
        kept: list[Message] = []
        start = 0
        for first, last in plan.removed:
            kept += self._stored[start : bisect_left(self._stored, first, start, key=_seq)]
            start = bisect_right(self._stored, last, start, key=_seq)
        kept += self._stored[start:]
        return View(layout, kept, self.counter, last_seq=self.last_seq, rev=self.rev)

    def _shortened(self, replaced: Sequence[Replacement]) -> Composition:
        """The same composition with some messages shortened: nothing else moves."""
        items = list(self.items)
        wanted = {each.seq: each for each in replaced}
        for place, item in enumerate(items):
            message = item.message
            if message.seq not in wanted:
                continue
            if item.kind is STORED:
                items[place] = _shortened(message, wanted[message.seq], self.counter)
            elif item.kind is SHORTENED:
                original = self._stored[bisect_left(self._stored, message.seq, key=_seq)]
                shown = _shortened(original, wanted[message.seq], self.counter)
                is_note = original.tool_call_id is not None and message.tool_call_id is None
                items[place] = _note_of_result(shown, self.counter) if is_note else shown
        return msgspec.structs.replace(self._composed, items=items)


def answers(message: Message) -> str | None:
    """The id of the call that the message is a result of."""
    return None if message.tool_calls else message.tool_call_id


class _Call:
    """A message that calls tools, and what has come back so far."""

    __slots__ = ("results", "unanswered")

    def __init__(self, unanswered: list[str]) -> None:
        self.results: list[Item] = []
        self.unanswered = unanswered


class Composition(msgspec.Struct, frozen=True):
    items: list[Item]
    calls: dict[int, int]
    """By the place of a message that calls tools, the place behind its last result."""
    pending: set[int]
    """The places of those that are still waited for."""


def _composed(layout: Layout, stored: Sequence[Message], counter: TokenCounter) -> Composition:
    drafts = _drafts(layout, stored, counter)
    if not any(message.tool_calls or message.tool_call_id is not None for message in stored):
        return Composition(drafts, {}, set())
    return _arranged(drafts, *_paired(drafts), counter)


def _atoms(composed: Composition) -> list[Atom]:
    """The atoms, in order."""
    items, calls = composed.items, composed.calls
    atoms: list[Atom] = []
    end = 0
    for place, item in enumerate(items):
        if place < end:
            continue
        if place not in calls:
            atoms.append(Atom((item,), place, item.fixed, item.tokens))
            continue
        end = calls[place]
        fixed, tokens = place in composed.pending, 0
        together = items[place:end]
        for each in together:
            fixed = fixed or each.fixed
            tokens += each.tokens
        atoms.append(Atom(tuple(together), end - 1, fixed, tokens))
    return atoms


def _drafts(layout: Layout, stored: Sequence[Message], counter: TokenCounter) -> list[Item]:
    """The items in order, each by itself."""
    said = next((message.seq for message in reversed(stored) if message.role is _USER), 0)
    replaced = layout.replaced
    drafts: list[Item] = []
    for message in stored:
        seq = message.seq
        if seq in replaced:
            drafts.append(_shortened(message, replaced[seq], counter))
            continue
        tokens = message.token_count
        if tokens is None:
            tokens = message_tokens(message, counter)
        fixed = seq == said or _is_kept(message)
        drafts.append(Item(message, tokens, ((seq, seq),), STORED, fixed))
    for standing in reversed(layout.summaries):
        drafts.insert(bisect_left(stored, standing.first_seq, key=_seq), _summary(standing))
    return drafts


def _paired(drafts: Sequence[Item]) -> tuple[dict[int, _Call], set[int]]:
    """The calls by the place of the message that makes them, and the places of their results."""
    calls: dict[int, _Call] = {}
    given: set[int] = set()
    latest: dict[str, _Call] = {}
    for place, draft in enumerate(drafts):
        message = draft.message
        if message.tool_calls:
            call = calls[place] = _Call(list(dict.fromkeys([each.id for each in message.tool_calls])))
            latest |= dict.fromkeys(call.unanswered, call)
        elif (answered := message.tool_call_id) is not None:
            answering = latest.get(answered)
            if answering is not None and answered in answering.unanswered:
                answering.unanswered.remove(answered)
                answering.results.append(draft)
                given.add(place)
    return calls, given


def _arranged(
    drafts: Sequence[Item], calls: Mapping[int, _Call], given: Set[int], counter: TokenCounter
) -> Composition:
    """Everything in its place, the results of calls right after them."""
    awaited = _awaited(drafts)
    items: list[Item] = []
    ends: dict[int, int] = {}
    pending: set[int] = set()
    for place, draft in enumerate(drafts):
        if place in given:
            continue
        message = draft.message
        if message.tool_calls:
            call, begin = calls[place], len(items)
            items.append(draft)
            items += call.results
            if call.unanswered:
                marked = message.metadata.get("pending") is True
                if marked or place in awaited:
                    pending.add(begin)
                if place not in awaited:
                    note = STILL_RUNNING if marked else INTERRUPTED
                    items += [_never_given(message, each, note, counter) for each in call.unanswered]
            ends[begin] = len(items)
        else:
            items.append(draft if message.tool_call_id is None else _note_of_result(draft, counter))
    return Composition(items, ends, pending)


def _awaited(drafts: Sequence[Item]) -> set[int]:
    """The places of calls after which the conversation did not go on.

    Calls between which nothing was said and no result came were made together, so one of them does
    not end the wait for the others.
    """
    awaited: set[int] = set()
    for place in range(len(drafts) - 1, -1, -1):
        message = drafts[place].message
        role = message.role
        if message.tool_calls:
            awaited.add(place)
            continue
        speaks = (role is _AGENT or role is _USER) and message.tool_call_id is None
        if speaks or (awaited and role is not _SYSTEM):
            break
    return awaited


def _summary(standing: Standing) -> Item:
    fold, compaction = standing.fold, standing.compaction
    content = CompactionContent(
        compaction_id=compaction.id if compaction else "",
        summary=fold.summary,
        first_seq=fold.ranges[0][0],
        last_seq=fold.ranges[-1][1],
    )
    message = Message.of(
        _USER,  # it tells what people and tools said, which binds nobody as the system's words do
        content,
        seq=standing.first_seq,
        timestamp=compaction.created_at if compaction else None,
        token_count=fold.tokens,
    )
    return Item(message, fold.tokens, fold.ranges, SUMMARY, level=fold.level)


def _shortened(message: Message, replacement: Replacement, counter: TokenCounter) -> Item:
    content = msgspec.Raw(msgspec.json.encode(replacement.content))
    shown = msgspec.structs.replace(message, content_json=content, token_count=replacement.tokens)
    return Item(shown, message_tokens(shown, counter), ((message.seq, message.seq),), SHORTENED)


def _never_given(caller: Message, call_id: str, note: str, counter: TokenCounter) -> Item:
    message = Message.of(
        Role.TOOL, TextContent(text=note), seq=caller.seq, timestamp=caller.timestamp, tool_call_id=call_id
    )
    return Item(message, message_tokens(message, counter), (), SYNTHETIC)


def _note_of_result(draft: Item, counter: TokenCounter) -> Item:
    """A result that cannot stand with its call, where a model would refuse it, as a note.

    It reads the same whether its call is not shown or has another result, so a fold of the call does
    not change it. What a tool gave back is material, and never has the system's authority.
    """
    message = draft.message
    text = (
        f"[RESULT OF THE TOOL CALL {message.tool_call_id}, apart from the call; not said by anybody]\n"
        f"{shown_text(message)}"
    )
    note = msgspec.structs.replace(
        message,
        role=_USER,
        metadata=message.metadata | {NOTE_OF_CALL: message.tool_call_id},
        content_json=msgspec.Raw(msgspec.json.encode(TextContent(text=text))),
        tool_call_id=None,
        token_count=None,
    )
    tokens = counter.count(text) + MESSAGE_OVERHEAD
    return Item(note, tokens, draft.ranges, SHORTENED, draft.fixed)


def _is_kept(message: Message) -> bool:
    """Whether the system said it, it is pinned, or more of it is expected."""
    if message.role is _SYSTEM and message.content_type not in REPORTS:
        return True
    return message.metadata.get("pinned") is True or message.open


_seq = attrgetter("seq")
