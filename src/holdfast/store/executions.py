"""Turns that a model answers: who runs them, the calls that may be repeated, and the contexts they name."""

from __future__ import annotations

from collections.abc import Set
from typing import Any

import msgspec

from holdfast.errors import Conflict, NotFound
from holdfast.model.content import encode_json
from holdfast.model.ids import ContextId, SessionId, TurnId, id_bytes, id_text
from holdfast.model.records import ContextKind, ContextRecord, ExecutionKey, KeyedTurn
from holdfast.model.session import SessionRef
from holdfast.model.text import label
from holdfast.model.times import from_ms
from holdfast.store import sessions
from holdfast.store.scope import Scope
from holdfast.store.transaction import Row, Transaction


class KeyTaken(Conflict):
    """The same key came with another call a moment earlier."""

    code = "idempotency_key_taken"

    def __init__(self, key: str) -> None:
        super().__init__(f"The idempotency key {key!r} was used for another request; take a new one.")


async def own(
    tx: Transaction,
    scope: Scope,
    ref: SessionRef,
    turn_id: TurnId,
    owner: str,
    key: ExecutionKey | None,
    now: int,
) -> None:
    """Note which process runs a turn, and the key under which the call may be repeated."""
    found = await sessions.find(tx, scope, ref, writing=True)
    raw = id_bytes(turn_id, "turn id")
    await tx.run("own_turn", owner, found.pk, raw)
    if key is not None:
        given = (scope.organization, scope.user, key.key, key.request_hash)
        if await tx.one("insert_execution_key", *given, found.pk, raw, now) is None:
            raise KeyTaken(key.key)


async def keyed(tx: Transaction, scope: Scope, key: str) -> KeyedTurn | None:
    """The turn that a call with this key opened."""
    row = await tx.one("execution_key", scope.organization, scope.user, key)
    if row is None:
        return None
    request_hash, session_id, turn_id = row
    return KeyedTurn(request_hash, SessionId(id_text(session_id)), TurnId(id_text(turn_id)))


async def owners(tx: Transaction) -> list[str]:
    return [row[0] for row in await tx.all("turn_owners")]


async def claim(tx: Transaction, dead: Set[str], owner: str) -> list[tuple[SessionId, TurnId]]:
    """Take over the turns of processes that are gone."""
    claimed = [row for each in sorted(dead) for row in await tx.all("claim_turns", owner, each)]
    turns = []
    for session_pk, turn_id in claimed:
        row = await tx.one("session_id_by_pk", session_pk)
        assert row is not None
        turns.append((SessionId(id_text(row[0])), TurnId(id_text(turn_id))))
    return turns


async def save_context(
    tx: Transaction,
    scope: Scope,
    kind: ContextKind,
    name: str,
    definition: dict[str, Any],
    context_id: ContextId,
    now: int,
) -> ContextRecord:
    scope.admit_admin("change a context")
    text = encode_json(definition, "context").decode()
    given = (id_bytes(context_id), scope.organization, kind.value, label(name, "name of the context"))
    row = await tx.one("save_context", *given, text, now)
    assert row is not None
    return _context((row[0], kind, name, text, now))


async def contexts(tx: Transaction, scope: Scope) -> list[ContextRecord]:
    return [_context(row) for row in await tx.all("contexts", scope.organization)]


async def remove_context(tx: Transaction, scope: Scope, kind: ContextKind, name: str) -> ContextRecord:
    scope.admit_admin("remove a context")
    row = await tx.one("delete_context", scope.organization, kind.value, name)
    if row is None:
        raise NotFound(f"There is no {kind} context {name!r} in the store.")
    return _context(row)


def _context(row: Row) -> ContextRecord:
    context_id, kind, name, definition, updated_at = row
    return ContextRecord(
        id=ContextId(id_text(context_id)),
        kind=ContextKind(kind),
        name=name,
        definition=msgspec.json.decode(definition),
        updated_at=from_ms(updated_at),
    )
