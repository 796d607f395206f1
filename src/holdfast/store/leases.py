"""Leases: who runs a session's turn. No operation waits, and none is open while a turn runs."""

from __future__ import annotations

from collections.abc import Set

from holdfast.model.ids import id_text
from holdfast.model.lease import Lease, LeaseLost
from holdfast.model.message import Message
from holdfast.model.session import SessionRef
from holdfast.store import sessions
from holdfast.store.messages import Append
from holdfast.store.scope import Scope
from holdfast.store.transaction import Transaction


async def take(
    tx: Transaction, scope: Scope, ref: SessionRef, owner: str, now: int, expires_at: int
) -> Lease | None:
    """The lease; None while somebody else has it."""
    found = await sessions.find(tx, scope, ref, writing=True)
    row = await tx.one("take_lease", found.pk, expires_at, owner, now)
    if row is None:
        return None
    session = await sessions.get(tx, scope, id_text(found.id))
    return Lease(session.id, row[0], session.message_count)


async def renew(tx: Transaction, scope: Scope, lease: Lease, expires_at: int) -> bool:
    """Keep the lease; whether somebody wants the turn interrupted."""
    found = await sessions.find(tx, scope, lease.session_id, writing=True)
    row = await tx.one("renew_lease", expires_at, found.pk, lease.token)
    if row is None:
        raise LeaseLost(lease.session_id)
    return bool(row[0])


async def release(tx: Transaction, scope: Scope, lease: Lease, now: int, *, leave_joined: bool) -> bool:
    """Give the lease up, unless somebody joined: then it goes on, and this answers False.

    Releasing is a change of the session, which wakes those who wait for it.
    """
    found = await sessions.find(tx, scope, lease.session_id, writing=True)
    if await tx.one("release_lease", found.pk, lease.token, int(leave_joined)):
        await sessions.advance(tx, found.pk, now)
        return True
    if await tx.one("go_on_with_joined", found.pk, lease.token) is None:
        raise LeaseLost(lease.session_id)
    return False


async def join(tx: Transaction, scope: Scope, append: Append) -> Message | None:
    """Say something into the turn that runs; None when none does, and then nothing is said."""
    found = await sessions.find(tx, scope, append.ref, writing=True)
    if await tx.one("join_lease", found.pk, append.now) is None:
        return None
    (said,) = await append(tx)
    return said


async def interrupt(tx: Transaction, scope: Scope, ref: SessionRef, now: int) -> bool:
    """Ask whoever runs the session's turn to stop; whether there is one."""
    found = await sessions.find(tx, scope, ref, writing=True)
    return await tx.one("interrupt_lease", found.pk, now) is not None


async def owners(tx: Transaction) -> list[str]:
    return [row[0] for row in await tx.all("lease_owners")]


async def free(tx: Transaction, dead: Set[str]) -> None:
    """Give up the leases of processes that are gone, before they run out."""
    for owner in sorted(dead):
        await tx.run("free_leases", owner)


async def expiry(tx: Transaction, scope: Scope, ref: SessionRef) -> int:
    """When the lease of a session ends if nobody renews it; 0 when nobody has it."""
    found = await sessions.find(tx, scope, ref, writing=False)
    row = await tx.one("lease_expiry", found.pk)
    return int(row[0]) if row else 0
