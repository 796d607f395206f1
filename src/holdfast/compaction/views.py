"""Reading a session's view, and getting back what a compaction folded.

The records are read first and the messages after them. Whatever is said in between is behind
everything a record speaks of, so what is read is always a view that the session had.
"""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.compaction.layout import chain_in_effect, chain_to, layout_of
from holdfast.compaction.plan import plan_of
from holdfast.compaction.ranges import Ranges
from holdfast.compaction.view import View
from holdfast.model.ids import CompactionId
from holdfast.model.message import Message
from holdfast.model.session import Session, SessionRef
from holdfast.model.tokens import TokenCounter
from holdfast.store.options import MAX_PAGE
from holdfast.store.store import Store


async def read_view(
    store: Store,
    ref: SessionRef,
    counter: TokenCounter,
    *,
    at: CompactionId | None = None,
    session: Session | None = None,
) -> View:
    """What a model is shown of a session: now, or as one of its compactions leaves it (`at`).

    The view at a compaction shows what was said after it, too, and needs not be the one in effect, so
    views can branch.
    """
    session = session or await store.get_session(ref)
    recorded = await store.list_compactions(ref) if session.compaction_count else ()
    chain = chain_in_effect(recorded) if at is None else chain_to(recorded, at)
    layout = layout_of(chain)
    stored = await _read(store, ref, layout.shown(session.message_count))
    return View(layout, stored, counter, last_seq=session.message_count, rev=session.rev)


async def expand(store: Store, ref: SessionRef, compaction_id: CompactionId) -> list[Message]:
    """The originals of everything that a compaction folded, shortened or dropped, exactly as stored."""
    *_, compaction = chain_to(await store.list_compactions(ref), compaction_id)
    return await _read(store, ref, plan_of(compaction).touched)


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
