"""What a model is shown of a session.

A view is made from a layout and the stored messages that it shows, and is always well formed: a
call's results stand before whatever was said next, however late they came, because models refuse
them elsewhere; a call that was not answered by then gets a result that says so, and the result of a
call that is not shown becomes a note. Making it again gives the same bytes.

A call and its results are one atom: they are shown together or not at all. An item is fixed when no
plan may touch it: system and pinned messages, what the person said last, and whatever is not over.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence, Set
from enum import StrEnum
from functools import cached_property
from operator import attrgetter

import msgspec

from holdfast.compaction.layout import Layout, Standing
from holdfast.compaction.plan import Plan, Replacement
from holdfast.compaction.ranges import Ranges
from holdfast.model.content import CompactionContent, TextContent
from holdfast.model.ids import CompactionId
from holdfast.model.message import Message, Role
from holdfast.model.tokens import MESSAGE_OVERHEAD, TokenCounter, message_tokens, shown_text

INTERRUPTED = "[interrupted: this call was never answered]"
STILL_RUNNING = "[still running: the result of this call will come later]"


class Kind(StrEnum):
    STORED = "stored"
    """A message as it was said."""
    SHORTENED = "shortened"
    """A message with other content than it was said with."""
    SUMMARY = "summary"
    SYNTHETIC = "synthetic"
    """A result that was never given."""


class Item(msgspec.Struct, frozen=True, gc=False):  # there are many, and none can refer to itself
    message: Message
    tokens: int
    ranges: Ranges
    """The stored messages it stands for."""
    kind: Kind = Kind.STORED
    fixed: bool = False
    level: int = 0


_SAID = frozenset({Kind.STORED, Kind.SHORTENED})


class Atom(msgspec.Struct, frozen=True, gc=False):
    """Items that stay together."""

    items: tuple[Item, ...]
    last: int
    """The place of the last one in the view."""
    fixed: bool
    tokens: int

    @property
    def is_summary(self) -> bool:
        return self.items[0].kind is Kind.SUMMARY


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

    @property
    def messages(self) -> list[Message]:
        """What the model is sent."""
        return [item.message for item in self.items]

    @cached_property
    def tokens(self) -> int:
        return sum(item.tokens for item in self.items)

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
        places = {item.message.seq: place for place, item in enumerate(items) if item.kind in _SAID}
        for each in replaced:
            place = places[each.seq]
            message = items[place].message
            if items[place].kind is Kind.STORED:
                items[place] = _shortened(message, each, self.counter)
                continue
            original = self._stored[bisect_left(self._stored, each.seq, key=_seq)]
            shown = _shortened(original, each, self.counter)
            is_note = original.tool_call_id is not None and message.tool_call_id is None
            items[place] = _note_of_result(shown, self.counter) if is_note else shown
        return msgspec.structs.replace(self._composed, items=items)


def answers(message: Message) -> str | None:
    """The id of the call that the message is a result of."""
    return None if message.tool_calls else message.tool_call_id


class _Call:
    """A message that calls tools, and what has come back so far."""

    __slots__ = ("caller", "unanswered")

    def __init__(self, caller: int, unanswered: list[str]) -> None:
        self.caller = caller
        self.unanswered = unanswered


class Composition(msgspec.Struct, frozen=True):
    items: list[Item]
    calls: dict[int, list[int]]
    """The places of each call and its results."""
    pending: set[int]
    """Which of the calls are still waited for."""


def _composed(layout: Layout, stored: Sequence[Message], counter: TokenCounter) -> Composition:
    drafts = _drafts(layout, stored, counter)
    if not any(message.tool_calls or message.tool_call_id is not None for message in stored):
        return Composition(drafts, {}, set())
    calls, owners = _paired(drafts)
    moved_on = _moved_on(drafts) if calls else {}
    inserted: dict[int, list[tuple[int, Item]]] = {}
    """By place, the callers and results that go before it."""
    late: set[int] = set()
    for place, call in owners.items():
        if (before := moved_on.get(call.caller)) is not None and before < place:
            inserted.setdefault(before, []).append((call.caller, drafts[place]))
            late.add(place)
    pending: set[int] = set()
    for call in calls:
        if not call.unanswered:
            continue
        caller = drafts[call.caller].message
        awaited = caller.metadata.get("pending") is True
        if awaited or call.caller not in moved_on:
            pending.add(call.caller)
        if call.caller in moved_on:
            note = STILL_RUNNING if awaited else INTERRUPTED
            given = [(call.caller, _never_given(caller, each, note, counter)) for each in call.unanswered]
            inserted.setdefault(moved_on[call.caller], []).extend(given)
    return Composition(*_arranged(drafts, owners, late, inserted, counter), pending)


def _atoms(composed: Composition) -> list[Atom]:
    """The atoms, by where they end."""
    items = composed.items
    in_calls = {place for places in composed.calls.values() for place in places}
    atoms = [
        Atom((item,), place, item.fixed, item.tokens)
        for place, item in enumerate(items)
        if place not in in_calls
    ]
    for caller, places in composed.calls.items():
        together = tuple(items[place] for place in places)
        fixed = caller in composed.pending or any(item.fixed for item in together)
        atoms.append(Atom(together, places[-1], fixed, sum(item.tokens for item in together)))
    atoms.sort(key=_last)
    return atoms


def _drafts(layout: Layout, stored: Sequence[Message], counter: TokenCounter) -> list[Item]:
    """The items in order, each by itself."""
    said = max((message.seq for message in stored if message.role is Role.USER), default=0)
    replaced = layout.replaced
    drafts: list[Item] = []
    summaries = iter(layout.summaries)
    upcoming = next(summaries, None)
    for message in stored:
        while upcoming is not None and upcoming.first_seq < message.seq:
            drafts.append(_summary(upcoming))
            upcoming = next(summaries, None)
        if message.seq in replaced:
            drafts.append(_shortened(message, replaced[message.seq], counter))
            continue
        seq = message.seq
        tokens = message.token_count
        if tokens is None:
            tokens = message_tokens(message, counter)
        fixed = message.role is Role.SYSTEM or seq == said or _is_kept(message)
        drafts.append(Item(message, tokens, ((seq, seq),), Kind.STORED, fixed))
    while upcoming is not None:
        drafts.append(_summary(upcoming))
        upcoming = next(summaries, None)
    return drafts


def _paired(drafts: Sequence[Item]) -> tuple[list[_Call], dict[int, _Call]]:
    """The calls, and by place the call that a message makes or answers."""
    calls: list[_Call] = []
    owners: dict[int, _Call] = {}
    latest: dict[str, _Call] = {}
    for place, draft in enumerate(drafts):
        message = draft.message
        if message.tool_calls:
            call = _Call(place, list(dict.fromkeys(each.id for each in message.tool_calls)))
            calls.append(call)
            owners[place] = call
            latest |= dict.fromkeys(call.unanswered, call)
        elif (answered := answers(message)) is not None and (answering := latest.get(answered)):
            owners[place] = answering
            if answered in answering.unanswered:
                answering.unanswered.remove(answered)
    return calls, owners


def _moved_on(drafts: Sequence[Item]) -> dict[int, int]:
    """By the place of a caller, where the conversation went on without waiting for its results.

    Calls made right after one another were made together, so one of them does not end the wait for
    the others.
    """
    places: dict[int, int] = {}
    said: int | None = None
    for place in range(len(drafts) - 1, -1, -1):
        message = drafts[place].message
        if message.tool_calls:
            follower = drafts[place + 1].message if place + 1 < len(drafts) else None
            together = follower is not None and follower.tool_calls
            after = places.get(place + 1) if together else said
            if after is not None:
                places[place] = after
        if message.role in (Role.USER, Role.AGENT) and answers(message) is None:
            said = place
    return places


def _arranged(
    drafts: Sequence[Item],
    owners: Mapping[int, _Call],
    late: Set[int],
    inserted: Mapping[int, Sequence[tuple[int, Item]]],
    counter: TokenCounter,
) -> tuple[list[Item], dict[int, list[int]]]:
    """Everything in its place, and the places of each call and its results by that of the caller."""
    items: list[Item] = []
    members: dict[int, list[int]] = {}
    for place, draft in enumerate(drafts):
        for caller, answer in inserted.get(place, ()):
            members[caller].append(len(items))
            items.append(answer)
        if place in late:
            continue
        if owner := owners.get(place):
            members.setdefault(owner.caller, []).append(len(items))
        elif draft.message.tool_call_id is not None and answers(draft.message) is not None:
            draft = _note_of_result(draft, counter)
        items.append(draft)
    return items, members


def _summary(standing: Standing) -> Item:
    fold, compaction = standing.fold, standing.compaction
    content = CompactionContent(
        compaction_id=compaction.id if compaction else "",
        summary=fold.summary,
        first_seq=fold.ranges[0][0],
        last_seq=fold.ranges[-1][1],
    )
    message = Message.of(
        Role.SYSTEM,
        content,
        seq=standing.first_seq,
        timestamp=compaction.created_at if compaction else None,
        token_count=fold.tokens,
    )
    return Item(message, fold.tokens, fold.ranges, Kind.SUMMARY, level=fold.level)


def _shortened(message: Message, replacement: Replacement, counter: TokenCounter) -> Item:
    content = msgspec.Raw(msgspec.json.encode(replacement.content))
    shown = msgspec.structs.replace(message, content_json=content, token_count=replacement.tokens)
    return Item(shown, message_tokens(shown, counter), ((message.seq, message.seq),), Kind.SHORTENED)


def _never_given(caller: Message, call_id: str, note: str, counter: TokenCounter) -> Item:
    message = Message.of(
        Role.TOOL, TextContent(text=note), seq=caller.seq, timestamp=caller.timestamp, tool_call_id=call_id
    )
    return Item(message, message_tokens(message, counter), (), Kind.SYNTHETIC)


def _note_of_result(draft: Item, counter: TokenCounter) -> Item:
    """A result whose call is not shown, which a model would refuse, as a note."""
    message = draft.message
    text = f"Result of the tool call {message.tool_call_id}, which is not shown: {shown_text(message)}"
    note = msgspec.structs.replace(
        message,
        role=Role.SYSTEM,
        content_json=msgspec.Raw(msgspec.json.encode(TextContent(text=text))),
        tool_call_id=None,
        token_count=None,
    )
    tokens = counter.count(text) + MESSAGE_OVERHEAD
    return Item(note, tokens, draft.ranges, Kind.SHORTENED, draft.fixed)


def _is_kept(message: Message) -> bool:
    """Whether the message is pinned, or more of it is expected."""
    if message.metadata and message.metadata.get("pinned") is True:
        return True
    # Only these two fields keep a message open; looking for them is cheaper than decoding every message.
    raw = bytes(message.content_json)
    looks_open = (b'"partial"' in raw and b'"partial":false' not in raw) or b'"status"' in raw
    return looks_open and message.open


_seq = attrgetter("seq")
_last = attrgetter("last")
