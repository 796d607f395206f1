"""A turn's lease: one runs a session's turn at a time, across processes."""

from __future__ import annotations

from holdfast.model.lease import Lease
from holdfast.model.message import Message
from holdfast.model.session import SessionRef
from holdfast.store import (
    leases,
    messages,
)
from holdfast.store.calls.call import Calls


class LeaseCalls(Calls):
    async def take_lease(self, ref: SessionRef, seconds: float) -> Lease | None:
        """The right to run a session's turn, for so long; None while somebody else has it."""
        now = self._runtime.clock()
        return await self._write(leases.take, ref, self._engine.owner, now, now + round(seconds * 1000))

    async def renew_lease(self, lease: Lease, seconds: float) -> bool:
        """Keep the lease for so long from now; whether somebody wants the turn interrupted."""
        return await self._write(leases.renew, lease, self._runtime.clock() + round(seconds * 1000))

    async def release_lease(self, lease: Lease, *, leave_joined: bool = False) -> bool:
        """Give the lease up. False, and it goes on, when somebody joined whom nobody has answered yet."""
        return await self._write(leases.release, lease, self._runtime.clock(), leave_joined=leave_joined)

    async def join_turn(self, ref: SessionRef, message: Message) -> Message | None:
        """Say something into the chat turn that runs; None when none does, and then nothing is said.

        It counts as joined until a turn answers it. The turn of a process that is gone cannot be joined.
        """
        runtime = self._runtime
        owner = await self._glance(leases.owner, ref)
        gone = owner if owner is not None and await self._engine.dead([owner]) else None
        now = runtime.clock()
        append = messages.Append(
            self._scope, ref, runtime.prepared([message], now, None), now, self._engine.owner
        )
        return await self._write(leases.join, append, gone=gone)

    async def joined_count(self, ref: SessionRef) -> int:
        """How many messages joined turns of a session and have no answer yet."""
        return await self._glance(leases.joined_count, ref)

    async def interrupt_turn(self, ref: SessionRef) -> bool:
        """Ask whoever runs the session's turn to stop; whether there is one."""
        return await self._write(leases.interrupt, ref, self._runtime.clock())

    async def lease_seconds(self, ref: SessionRef) -> float:
        """How long the lease of a session still lasts if nobody renews it; 0 when it is free."""
        expires_at = await self._glance(leases.expiry, ref)
        return max(0.0, (expires_at - self._runtime.clock()) / 1000)
