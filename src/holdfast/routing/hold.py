"""Having a session's turn: waiting for it, keeping it while the work runs, giving it up.

Nothing is locked meanwhile. The lease is a row that is renewed; whoever waits is woken when the
session changes, or when the lease of a holder that is gone has run out.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from contextlib import aclosing, suppress
from typing import Any, TypeVar

from holdfast.errors import Conflict, StoreUnavailable
from holdfast.model.ids import SessionId
from holdfast.model.lease import Lease, LeaseLost
from holdfast.store.store import Store

T = TypeVar("T")

log = logging.getLogger("holdfast.routing")

LEASE_SECONDS = 15.0
RENEWALS = 10
"""How often a lease is renewed in the time it lasts; also how soon a holder learns of an interruption
from another process."""


class TurnInterrupted(Conflict):
    code = "turn_interrupted"

    def __init__(self, session_id: str) -> None:
        super().__init__(f"The turn of session {session_id} was interrupted by a later message.")


class Hold:
    def __init__(self, store: Store, lease: Lease, seconds: float) -> None:
        self.store = store.under_lease(lease)
        """The view in which the turn is stored."""
        self._lease = lease
        self._seconds = seconds
        self._look_now = asyncio.Event()
        self._begun = True
        self._wanted = False
        """Whether somebody wants the turn interrupted."""
        self._overtaken = False

    def look(self) -> None:
        """See at once whether somebody wants the turn interrupted."""
        self._look_now.set()

    def begin(self) -> None:
        """What was asked is stored: the turn may be interrupted from now on, and is if somebody wanted it."""
        self._begun = True
        if self._wanted or self._overtaken:
            self.look()

    def interrupt(self) -> None:
        """Have what is done next under this hold interrupted as soon as it has begun."""
        self._overtaken = True

    async def during(self, work: Coroutine[Any, Any, T], *, begun: bool = True) -> T:
        """The result of the work, which is cancelled when it is interrupted or the lease is lost.

        Work that has not `begun` says when it has.
        """
        self._begun, self._wanted = begun, False
        loop = asyncio.get_running_loop()
        working, keeping = loop.create_task(work), loop.create_task(self._keep())
        try:
            await asyncio.wait({working, keeping}, return_when=asyncio.FIRST_COMPLETED)
            if not working.done():
                keeping.result()
            return await working
        finally:
            for task in (working, keeping):
                task.cancel()
            await asyncio.wait({working, keeping})

    async def release(self, *, leave_joined: bool = False) -> bool:
        """Give the turn up; False, and it goes on, when somebody joined who is not answered yet."""
        return await self.store.release_lease(self._lease, leave_joined=leave_joined)

    async def _keep(self) -> None:
        while True:
            try:
                async with asyncio.timeout(self._seconds / RENEWALS):
                    await self._look_now.wait()
            except TimeoutError:
                pass
            self._look_now.clear()
            try:
                self._wanted = await self.store.renew_lease(self._lease, self._seconds)
            except StoreUnavailable as error:
                log.warning("session %s: its turn is not renewed yet: %s", self._lease.session_id, error)
                continue
            if (self._wanted or self._overtaken) and self._begun:
                self._overtaken = False
                raise TurnInterrupted(self._lease.session_id)


async def take_hold(store: Store, session_id: SessionId, seconds: float = LEASE_SECONDS) -> Hold:
    """The session's turn, as soon as nobody else has it."""
    while True:
        rev = (await store.get_session(session_id)).rev
        taking = asyncio.get_running_loop().create_task(store.take_lease(session_id, seconds))
        try:
            lease = await asyncio.shield(taking)
        except asyncio.CancelledError:
            if lease := await taking:
                await store.release_lease(lease, leave_joined=True)
            raise
        if lease is not None:
            return Hold(store, lease, seconds)
        await _until_free(store, session_id, rev)


async def let_go(hold: Hold) -> None:
    """Give a turn up, leaving whoever joined to the next holder, unless it is somebody else's by now."""
    with suppress(LeaseLost):
        await hold.release(leave_joined=True)


async def _until_free(store: Store, session_id: SessionId, since: int) -> None:
    """Wait until a change of the session shows its turn free, or the lease has run out."""
    while left := await store.lease_seconds(session_id):
        try:
            async with asyncio.timeout(left), aclosing(store.follow(session_id, since)) as items:
                async for changes in items:
                    since = changes.rev
                    if not changes.more and not await store.lease_seconds(session_id):
                        return
        except TimeoutError:
            continue
