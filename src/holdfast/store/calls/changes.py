"""The change feed: what changed in a session, or in which sessions, and what changes from now on."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable
from contextlib import aclosing

from holdfast.errors import InvalidInput
from holdfast.model.session import SessionRef
from holdfast.store import (
    changes,
    feed,
    sessions,
)
from holdfast.store.calls.call import Calls
from holdfast.store.feed import RevisionAhead
from holdfast.store.options import (
    BRIEF,
    ChangedSessions,
    Changes,
    check_limit,
)


class ChangeCalls(Calls):
    async def changes(self, ref: SessionRef, since: int, *, limit: int = 1000) -> Changes:
        """What changed in a session after revision `since`."""
        if since < 0:
            raise InvalidInput(f"A revision cannot be negative; it is {since}.")
        check_limit(limit)
        read = self._glance_at_once if limit <= BRIEF else self._snapshot
        found = await read(changes.since, ref, since, limit)
        if found.session.rev < since:
            raise RevisionAhead(since, found.session.rev)
        return found

    async def changed_sessions(self, since: int, *, limit: int = 1000) -> ChangedSessions:
        """Which of the sessions that this view may list changed after a position of `follow_all`."""
        if since < 0:
            raise InvalidInput(f"A position cannot be negative; it is {since}.")
        check_limit(limit)
        found = await self._snapshot(changes.sessions_after, since, limit)
        if found.position < since:
            raise RevisionAhead(since, found.position)
        return found

    async def follow(self, ref: SessionRef, since: int = 0) -> AsyncGenerator[Changes, None]:
        """What changed in a session after revision `since`, then every change once it is committed.

        Whoever applies the items in order has, after each that has no `more`, exactly what somebody
        reads who reads the session afresh. The iterator ends when the store is closed, and with
        `SessionNotFound` when the session is deleted; close it (`contextlib.aclosing`) to stop before.
        """
        if since < 0:
            raise InvalidInput(f"A revision cannot be negative; it is {since}.")
        found = await self._glance(sessions.find, ref, writing=False)

        def read(position: changes.Position) -> Awaitable[tuple[Changes, changes.Position]]:
            return self._glance_at_once(changes.after, ref, position, feed.PAGE)

        async with aclosing(feed.follow(self._runtime.feed, found.pk, since, read)) as items:
            async for item in items:
                yield item

    async def position(self) -> int:
        """Where `follow_all` and `changed_sessions` are by now."""
        return (await self._runtime.feed.position())[0]

    async def follow_all(self, since: int | None = None) -> AsyncGenerator[ChangedSessions, None]:
        """Which sessions of those this view may list changed after a position, then those that change.

        Without `since`, from now on, and the first item gives only the position. A position outlives
        processes. It is no clock's time, which may jump, and no session's revision, which counts only
        its own: changed sessions are numbered, one after another, by the same transaction that brings
        the listings up to date, up to half a second after the change. The mark that makes it do so is
        stored with the change, so after a crash the next process numbers what was left.
        """
        if since is not None and since < 0:
            raise InvalidInput(f"A position cannot be negative; it is {since}.")

        def read(position: int) -> Awaitable[ChangedSessions]:
            return self._snapshot(changes.sessions_after, position, feed.PAGE)

        async with aclosing(feed.follow_all(self._runtime.feed, since, read)) as items:
            async for item in items:
                yield item
