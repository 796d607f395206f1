"""Following: what changed, then every change as it is committed.

Whatever a follower is given was read from the database, so published means stored. A commit of
this process wakes the followers of the sessions it changed, and those of other processes are
noticed by a look at the watched revisions a few times a second. A wake-up carries nothing: the
follower reads on from where it is, at its own pace, so a slow one costs a writer nothing and
holds nothing in memory.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Set
from contextlib import contextmanager
from functools import partial

import msgspec

from holdfast.errors import Conflict, StoreError
from holdfast.store import changes
from holdfast.store.changes import Position
from holdfast.store.engine import Engine
from holdfast.store.options import ChangedSessions, Changes
from holdfast.store.transaction import Transaction

log = logging.getLogger("holdfast.store")

POLL_SECONDS = 0.25
"""How late a change that another process made may be noticed."""

PAGE = 200
"""Rows in one item of a feed."""


class RevisionAhead(Conflict):
    """The follower has seen what this database has not: it was restored from a backup, or is another one."""

    code = "revision_ahead"

    def __init__(self, since: int, current: int) -> None:
        super().__init__(
            f"Nothing here has reached {since} yet, only {current}: forget it all, and read afresh."
        )
        self.current = current


class Watch:
    """One follower's place among those who are woken."""

    def __init__(self, rev: int) -> None:
        self.rev = rev
        """What the follower has; a commit or a look that finds more wakes it."""
        self._woken = asyncio.Event()

    def wake(self) -> None:
        self._woken.set()

    async def wait(self) -> None:
        await self._woken.wait()
        self._woken.clear()


class Feed:
    """Who follows what in an open store."""

    def __init__(self, engine: Engine, unnumbered: Callable[[], None]) -> None:
        """`unnumbered` is called when another process left changed sessions that have no position yet."""
        self._engine = engine
        self._unnumbered = unnumbered
        self._sessions: dict[int, set[Watch]] = {}
        self._listings: set[Watch] = set()
        self._polling: asyncio.Task[None] | None = None
        self.commits = 0
        self.changes = 0
        self.closed = False
        engine.listen(self._committed)

    @contextmanager
    def session(self, session_pk: int, rev: int) -> Iterator[Watch]:
        """Be woken when a session changes."""
        with self._watching(self._sessions.setdefault(session_pk, set()), rev) as watch:
            try:
                yield watch
            finally:
                if self._sessions[session_pk] == {watch}:
                    del self._sessions[session_pk]

    @contextmanager
    def listings(self, position: int) -> Iterator[Watch]:
        """Be woken when any session changes."""
        with self._watching(self._listings, position) as watch:
            yield watch

    def numbered(self) -> None:
        """Changed sessions have got their positions."""
        for watch in self._listings:
            watch.wake()

    async def position(self) -> tuple[int, bool]:
        """Where the last changed session is, and whether others are still to be numbered."""
        return await self._engine.read(changes.last_change, brief=True)

    async def close(self) -> None:
        """End every follower's iterator."""
        self.closed = True
        for watch in [*self._listings, *(watch for group in self._sessions.values() for watch in group)]:
            watch.wake()
        if self._polling is not None:
            self._polling.cancel()
            await asyncio.gather(self._polling, return_exceptions=True)

    @contextmanager
    def _watching(self, group: set[Watch], rev: int) -> Iterator[Watch]:
        watch = Watch(rev)
        group.add(watch)
        if self._polling is None and not self.closed:
            self._polling = asyncio.get_running_loop().create_task(self._poll(), name="holdfast-feed")
        try:
            yield watch
        finally:
            group.discard(watch)

    def _committed(self, session_pks: Set[int]) -> None:
        self.commits += 1
        self.changes += len(session_pks)
        for session_pk in session_pks & self._sessions.keys():
            for watch in self._sessions[session_pk]:
                watch.wake()

    async def _poll(self) -> None:
        while True:
            await asyncio.sleep(POLL_SECONDS)
            if not self._sessions and not self._listings:
                self._polling = None
                return
            try:
                await self._look()
            except StoreError as error:
                log.warning("changes of other processes are not noticed for now: %s", error)

    async def _look(self) -> None:
        if self._sessions:
            revisions = await self._engine.read(partial(_revisions, session_pks=list(self._sessions)))
            for session_pk, group in self._sessions.items():
                for watch in group:
                    if watch.rev != revisions.get(session_pk):  # it may also be gone
                        watch.wake()
        if self._listings:
            last, unnumbered = await self.position()
            if unnumbered:
                self._unnumbered()
            for watch in self._listings:
                if watch.rev != last:
                    watch.wake()


async def follow(
    feed: Feed, session_pk: int, since: int, read: Callable[[Position], Awaitable[tuple[Changes, Position]]]
) -> AsyncGenerator[Changes, None]:
    """What a session's follower is given, until the store is closed. `read` reads one page."""
    position = Position(since)
    with feed.session(session_pk, since) as watch:
        while not feed.closed:
            page, reached = await read(position)
            if page.session.rev < position.rev:
                raise RevisionAhead(position.rev, page.session.rev)
            if reached.rev > position.rev:
                position, watch.rev = reached, reached.rev
                yield page
            if not page.more:
                await watch.wait()


async def follow_all(
    feed: Feed, since: int | None, read: Callable[[int], Awaitable[ChangedSessions]]
) -> AsyncGenerator[ChangedSessions, None]:
    """What a follower of all sessions is given; first of all, with `since` of None, the position of now."""
    if since is None:
        last, _ = await feed.position()
        since = last
        yield ChangedSessions([], [], last, False)
    with feed.listings(since) as watch:
        while not feed.closed:
            page = await read(since)
            if page.position < since:
                raise RevisionAhead(since, page.position)
            since = watch.rev = page.position
            if page.sessions or page.deleted:
                yield page
            if not page.more:
                await watch.wait()


async def _revisions(tx: Transaction, session_pks: list[int]) -> dict[int, int]:
    rows = await tx.all("head_revisions", msgspec.json.encode(session_pks).decode())
    return {row[0]: row[1] for row in rows}
