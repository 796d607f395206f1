"""A fork: a session that begins with what was said in another, shown to a model as it is shown there.

A session has no gaps, so a copied message has the `seq` of its original, and a compaction means the
same in both. That holds only while nobody else writes to the copy: until all is there it counts as
ended, and takes no instruction. One that a crash cut off stays so, and says why.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from holdfast.model.ids import CompactionId, SessionId, TurnId
from holdfast.model.message import copied
from holdfast.model.records import Compaction, NewCompaction
from holdfast.model.session import Session, SessionPatch, fork_of
from holdfast.model.status import SessionStatus
from holdfast.model.turn import TurnStatus
from holdfast.store.options import HistoryOptions
from holdfast.store.store import Store

PAGE = 500
"""Messages that are copied at a time."""

UNFINISHED = "forking"
"""Why a fork is not live yet."""


async def forked(store: Store, view: Store, original: Session) -> Session:
    """A session of the caller's that knows what was said in another one. `store` is the program's view."""
    session = await view.create_session(fork_of(original))
    try:
        closed = SessionPatch(status=SessionStatus.COMPLETED, status_reason=UNFINISHED)
        rev = (await store.patch(session.id, closed, expected_revision=session.rev)).rev
        compactions = await store.list_compactions(original.id)  # first: what they fold is there by now
        rev = await _copy_messages(store, original.id, session.id, rev)
        rev = await _copy_compactions(store, compactions, session.id, rev)
        opened = SessionPatch(status=SessionStatus.ACTIVE, status_reason=None)
        await store.patch(session.id, opened, expected_revision=rev)
    except BaseException:
        await asyncio.shield(store.delete(session.id))
        raise
    return await view.get_session(session.id)


async def _copy_messages(store: Store, original: SessionId, copy: SessionId, rev: int) -> int:
    """Append what was said in one session to another, which is at a revision; the one it is then at."""
    unanswered = await _unanswered(store, original)
    after = 0
    while page := await store.get_history(original, HistoryOptions(after=after, limit=PAGE)):
        copies = [copied(message, unanswered=message.turn_id in unanswered) for message in page]
        rev = (await store.append_messages(copy, copies, expected_revision=rev))[-1].rev
        after = page.messages[-1].seq
    return rev


async def _unanswered(store: Store, original: SessionId) -> set[TurnId | None]:
    turns = store.every_turn(original)
    return {turn.id async for turn in turns if turn.status is not TurnStatus.COMPLETED}


async def _copy_compactions(
    store: Store, compactions: Sequence[Compaction], copy: SessionId, rev: int
) -> int:
    """Have a model shown of the copy what it is shown of the original."""
    copies: dict[CompactionId | None, CompactionId | None] = {None: None}
    for each in compactions:
        if each.undone_at is not None or each.parent_id not in copies:
            continue
        new = NewCompaction(
            first_seq=each.first_seq,
            last_seq=each.last_seq,
            strategy=each.strategy,
            summary=each.summary,
            params=each.params,
            tokens_before=each.tokens_before,
            tokens_after=each.tokens_after,
            tokenizer=each.tokenizer,
            parent_id=copies[each.parent_id],
            edits=each.edits,
        )
        made = await store.commit_compaction(copy, new, expected_revision=rev)
        copies[each.id], rev = made.id, made.rev
    return rev
