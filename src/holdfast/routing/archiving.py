"""Archiving sessions that nobody has used for long.

Only what people do counts as use: that somebody asked, or was answered. What programs write keeps no
session from being archived. A session that is pinned (`pinned` in its `custom` data) or runs is kept,
and nothing is ever deleted: an archived session can be read, searched and taken up again, and a chat
begins another at its next message.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from datetime import datetime, timedelta

import msgspec

from holdfast.errors import RevisionConflict
from holdfast.model.message import Role
from holdfast.model.session import Session, SessionPatch
from holdfast.model.status import SessionStatus
from holdfast.store.options import HistoryOptions, SessionFilter, SessionOrder
from holdfast.store.store import Store

PAGE = 1000


class UnusedSession(msgspec.Struct, frozen=True, kw_only=True):
    session: Session
    kept: str | None = None
    """Why it is not to be archived."""


async def plan_archiving(store: Store, unused_for: timedelta, now: datetime) -> list[UnusedSession]:
    """The sessions that nobody has used for so long, oldest first. Nothing is written."""
    since = now - unused_for
    unused = [
        UnusedSession(session=session, kept=await _reason_to_keep(store, session))
        async for session in _every_session(store)
        if not await _is_used(store, session, since)
    ]
    return unused[::-1]


async def archive(store: Store, planned: Sequence[UnusedSession]) -> list[Session]:
    """Archive what was planned, each with an audit entry; what has changed since stays."""
    archived: list[Session] = []
    for session in (each.session for each in planned if each.kept is None):
        change = SessionPatch(status=SessionStatus.ARCHIVED, status_reason="unused")
        try:
            archived.append(await store.patch(session.id, change, expected_revision=session.rev))
        except RevisionConflict:
            continue
        await store.audit("session.archive", "done", subject=session.id)
    return archived


async def _every_session(store: Store) -> AsyncIterator[Session]:
    """Those that are not archived, newest first."""
    before: str | None = None
    wanted = set(SessionStatus) - {SessionStatus.ARCHIVED}
    while True:
        page = await store.list(
            SessionFilter(status=wanted, order=SessionOrder.CREATED, limit=PAGE, before=before)
        )
        for session in page:
            yield session
        before = page.next
        if before is None:
            return


async def _is_used(store: Store, session: Session, since: datetime) -> bool:
    if session.updated_at <= since:
        return False
    if session.created_at > since:
        return True
    last = await store.last_turn(session.id)
    if last is not None and max(last.created_at, last.status_at) > since:
        return True
    return await _is_written_to(store, session, since)


async def _is_written_to(store: Store, session: Session, since: datetime) -> bool:
    """Whether a person said something, in a turn or not."""
    before: int | None = None
    while True:
        page = await store.get_history(session.id, HistoryOptions(before=before, limit=PAGE))
        recent = [each for each in page if each.timestamp is not None and each.timestamp > since]
        if any(message.role is Role.USER for message in recent):
            return True
        if len(recent) < len(page) or page.older is None:
            return False
        before = page.older


async def _reason_to_keep(store: Store, session: Session) -> str | None:
    if session.custom.get("pinned") is True:
        return "it is pinned"
    is_running = (
        session.has_pending_turn or await store.lease_seconds(session.id) or await store.processes(session.id)
    )
    return "it is running" if is_running else None
