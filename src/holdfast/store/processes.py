"""The process groups that serve sessions, recorded so that no crash leaves one behind unnoticed."""

from __future__ import annotations

from collections.abc import Set

from holdfast.model.ids import SessionId, id_text
from holdfast.model.records import ProcessRecord
from holdfast.model.session import SessionPatch, SessionRef
from holdfast.store import sessions
from holdfast.store.scope import Scope
from holdfast.store.transaction import Transaction


async def record(
    tx: Transaction, scope: Scope, ref: SessionRef, owner: str, process_group: int, started: float
) -> None:
    found = await sessions.find(tx, scope, ref, writing=True)
    await tx.run("insert_process", found.pk, owner, process_group, started)


async def of_session(tx: Transaction, scope: Scope, ref: SessionRef) -> list[ProcessRecord]:
    found = await sessions.find(tx, scope, ref, writing=False)
    session_id = SessionId(id_text(found.id))
    return [
        ProcessRecord(session_id=session_id, process_group=process_group, started=started, owner=owner)
        for process_group, started, owner in await tx.all("processes_of_session", found.pk)
    ]


async def forget(tx: Transaction, owner: str, process_group: int) -> None:
    await tx.run("delete_process", owner, process_group)


async def release(
    tx: Transaction, scope: Scope, ref: SessionRef, owner: str, change: SessionPatch, now: int
) -> None:
    await sessions.patch(tx, scope, ref, change, None, now)
    found = await sessions.find(tx, scope, ref, writing=True)
    await tx.run("delete_processes_of_session", found.pk, owner)


async def owners(tx: Transaction) -> list[str]:
    return [row[0] for row in await tx.all("process_owners")]


async def claim(tx: Transaction, dead: Set[str], owner: str) -> list[ProcessRecord]:
    """Take over the processes of servers that are gone."""
    claimed = [(each, row) for each in sorted(dead) for row in await tx.all("claim_processes", owner, each)]
    records = []
    for each, (session_pk, process_group, started) in claimed:
        row = await tx.one("session_id_by_pk", session_pk)
        assert row is not None
        records.append(
            ProcessRecord(
                session_id=SessionId(id_text(row[0])),
                process_group=process_group,
                started=started,
                owner=each,
                is_here=_place(each) == _place(owner),
            )
        )
    return records


def _place(owner: str) -> str:
    """Where the processes of an owner run. Every owner says it at its end."""
    return owner.rpartition(".")[2]
