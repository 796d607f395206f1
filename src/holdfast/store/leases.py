"""Leases: who runs a session's turn. No operation waits, and none is open while a turn runs."""

from __future__ import annotations

from collections.abc import Sequence, Set

from holdfast.model.ids import MessageId, SessionId, TurnId, id_text
from holdfast.model.lease import Lease, LeaseLost
from holdfast.model.message import Message
from holdfast.model.session import SessionRef
from holdfast.model.turn import CHAT, TurnStatus
from holdfast.store import messages, sessions, turns
from holdfast.store.messages import Append
from holdfast.store.scope import Scope
from holdfast.store.transaction import Transaction


async def take(
    tx: Transaction, scope: Scope, ref: SessionRef, owner: str, now: int, expires_at: int
) -> Lease | None:
    """The lease; None while somebody else has it."""
    found = await sessions.find(tx, scope, ref, writing=True)
    row = await tx.one("take_lease", found.pk, expires_at, owner, now)
    return None if row is None else Lease(SessionId(id_text(found.id)), row[0])


async def renew(tx: Transaction, scope: Scope, lease: Lease, expires_at: int) -> bool:
    """Keep the lease; whether somebody wants the turn interrupted."""
    found = await sessions.find(tx, scope, lease.session_id, writing=True)
    row = await tx.one("renew_lease", expires_at, found.pk, lease.token)
    if row is None:
        raise LeaseLost(lease.session_id)
    return bool(row[0])


async def release(tx: Transaction, scope: Scope, lease: Lease, now: int, *, leave_joined: bool) -> bool:
    """Give the lease up, unless somebody joined: then it goes on, and this answers False.

    Those who joined and are left stay counted, for the next holder. Releasing is a change of the session,
    which wakes those who wait for it.
    """
    found = await sessions.find(tx, scope, lease.session_id, writing=True)
    if await tx.one("release_lease", found.pk, lease.token, int(leave_joined)):
        await sessions.advance(tx, found.pk, now)
        return True
    if await tx.one("go_on", found.pk, lease.token) is None:
        raise LeaseLost(lease.session_id)
    return False


async def join(tx: Transaction, scope: Scope, append: Append, *, gone: str | None) -> Message | None:
    """Say something into the chat turn that runs; None when none does, and then nothing is said.

    Others that hold the lease answer nobody who joins, nor does a holder that is `gone`.
    """
    found = await sessions.find(tx, scope, append.ref, writing=True)
    running = await turns.last(tx, scope, append.ref)
    if running is None or running.mode != CHAT or running.status is not TurnStatus.PENDING:
        return None
    # Locked until the message is counted: a release that comes meanwhile waits, and then sees it.
    if await tx.one("lock_running_lease", found.pk, append.now, gone) is None:
        return None
    last_seq = (await sessions.get(tx, scope, append.ref)).message_count
    (said,) = await append(tx)
    if said.seq > last_seq:  # or it is a repeated delivery
        await tx.run("count_joined", found.pk)
    return said


async def answer(
    tx: Transaction, scope: Scope, ref: SessionRef, joined: Sequence[MessageId], turn_id: TurnId, now: int
) -> None:
    """From now on the messages that joined are those of the turn in which they are answered."""
    found = await sessions.find(tx, scope, ref, writing=True)
    given = [await messages.give_turn(tx, found.pk, each, turn_id, now) for each in joined]
    await tx.run("answer_joined", sum(given), found.pk)


async def joined_count(tx: Transaction, scope: Scope, ref: SessionRef) -> int:
    """How many messages joined turns of the session and have no answer yet."""
    found = await sessions.find(tx, scope, ref, writing=False)
    row = await tx.one("joined_count", found.pk)
    return int(row[0]) if row else 0


async def owner(tx: Transaction, scope: Scope, ref: SessionRef) -> str | None:
    """The process that had the lease of a session last."""
    found = await sessions.find(tx, scope, ref, writing=False)
    row = await tx.one("lease_owner", found.pk)
    return row[0] if row else None


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
