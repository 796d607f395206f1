"""Reading a session's view, and getting back what a compaction folded.

The records are read first and the messages after them. Whatever is said in between is behind
everything a record speaks of, so what is read is always a view that the session had.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import TypeAlias

from holdfast.compaction.layout import chain_in_effect, chain_to, layout_of
from holdfast.compaction.plan import plan_of
from holdfast.compaction.ranges import Ranges, covers
from holdfast.compaction.view import View
from holdfast.model.ids import CompactionId
from holdfast.model.message import Message
from holdfast.model.records import Compaction, CompactionOutline
from holdfast.model.session import SessionRef
from holdfast.model.tokens import TokenCounter
from holdfast.store.options import MAX_PAGE
from holdfast.store.store import Store

Weigh: TypeAlias = Callable[[Sequence[Message], TokenCounter], Awaitable[Sequence[Message]]]
"""Messages with the tokens that they take where they are sent, if that is more than what they say."""


async def read_view(
    store: Store,
    ref: SessionRef,
    counter: TokenCounter,
    *,
    at: CompactionId | None = None,
    weigh: Weigh | None = None,
) -> View:
    """What a model is shown of a session: now, or as one of its compactions leaves it (`at`).

    The view at a compaction shows what was said after it, too, and needs not be the one in effect, so
    views can branch.
    """
    session, outlines = await store.compaction_outlines(ref)
    chain = chain_in_effect(outlines) if at is None else chain_to(outlines, at)
    layout = layout_of(await _that_matter(store, ref, chain))
    stored: Sequence[Message] = await _read(store, ref, layout.shown(session.message_count))
    if weigh is not None:
        stored = await weigh(stored, counter)
    return View(layout, stored, counter, last_seq=session.message_count, rev=session.rev)


async def expand(store: Store, ref: SessionRef, compaction_id: CompactionId) -> list[Message]:
    """The originals of everything that a compaction folded, shortened or dropped, exactly as stored."""
    *_, compaction = chain_to(await store.list_compactions(ref), compaction_id)
    return await _read(store, ref, plan_of(compaction).touched)


async def _that_matter(
    store: Store, ref: SessionRef, chain: Sequence[CompactionOutline]
) -> Sequence[Compaction]:
    """The compactions of a chain, without those of which the last one has left nothing: mostly all others."""
    if not chain:
        return []
    *earlier, last = chain
    head = await store.get_compactions(ref, [last.id])
    removed = plan_of(head[0]).removed
    rest = [each.id for each in earlier if not covers(removed, ((each.first_seq, each.last_seq),))]
    return [*await store.get_compactions(ref, rest), *head] if rest else head


async def _read(store: Store, ref: SessionRef, ranges: Ranges) -> list[Message]:
    messages: list[Message] = []
    for page in _pages(ranges):
        messages += await store.get_ranges(ref, page)
    return messages


def _pages(ranges: Ranges) -> Iterator[list[tuple[int, int]]]:
    """The ranges in portions that one read may ask for."""
    page: list[tuple[int, int]] = []
    room = MAX_PAGE
    for first, last in ranges:
        while first <= last:
            upto = min(last, first + room - 1)
            page.append((first, upto))
            room -= upto - first + 1
            first = upto + 1
            if not room:
                yield page
                page, room = [], MAX_PAGE
    if page:
        yield page
