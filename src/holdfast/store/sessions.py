"""Sessions: finding, creating, patching, deleting."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.errors import Conflict, InvalidInput, NotFound, RevisionConflict, SessionNotFound
from holdfast.model.content import encode_json
from holdfast.model.ids import RepoId, SessionId, id_bytes, id_text
from holdfast.model.key import SessionKey
from holdfast.model.lease import Lease, LeaseLost
from holdfast.model.session import NewSession, Session, SessionPatch, SessionRef, merge_custom, own_key
from holdfast.model.status import SessionStatus, after_append, after_compaction, require_transition
from holdfast.model.times import from_ms
from holdfast.model.usage import TokenUsage
from holdfast.store.scope import Found, Scope
from holdfast.store.statements import checked
from holdfast.store.transaction import Row, Transaction

MAX_CUSTOM = 64 * 1024
"""Bytes of what callers keep with a session."""

MAX_AGENT_STATE = 1024 * 1024
"""Bytes of what an agent says that it offers: some have hundreds of commands and models."""


async def find(tx: Transaction, scope: Scope, ref: SessionRef, *, writing: bool) -> Found:
    """The session that `ref` names, admitted for this caller."""
    scope.admit_key(ref)
    if isinstance(ref, SessionKey):
        row = await tx.one("find_session_by_key", scope.organization, str(ref))
    else:
        row = await tx.one("find_session_by_id", id_bytes(ref, "session id"))
    if row is None:
        raise SessionNotFound(ref)
    found = found_from_row(row)
    scope.admit(found, ref, writing=writing)
    if writing and scope.lease is not None and scope.lease.session_id == id_text(found.id):
        await _require_holder(tx, found.pk, scope.lease)
    return found


async def get(tx: Transaction, scope: Scope, ref: SessionRef, *, writing: bool = False) -> Session:
    scope.admit_key(ref)
    if isinstance(ref, SessionKey):
        row = await tx.one("session_by_key", scope.organization, str(ref))
    else:
        row = await tx.one("session_by_id", id_bytes(ref, "session id"))
    if row is None:
        raise SessionNotFound(ref)
    session = session_from_row(row)
    scope.admit(session, ref, writing=writing)
    return session


async def lookup(tx: Transaction, scope: Scope, key: SessionKey) -> Session | None:
    """The session of `key`, if there is one."""
    scope.admit_key(key)
    row = await tx.one("session_by_key", scope.organization, str(key))
    if row is None:
        return None
    session = session_from_row(row)
    scope.admit(session, key, writing=False)
    return session


def with_key(defaults: NewSession | None, key: SessionKey) -> NewSession:
    """How to create the session of `key`, which is served by the key's agent."""
    return msgspec.structs.replace(defaults or NewSession(), key=key, agent=key.agent_id)


async def create(
    tx: Transaction, scope: Scope, new: NewSession, session_id: SessionId, now: int, *, reuse: bool
) -> Session:
    """A new session; with `reuse`, the one that already has its key."""
    key = new.key or own_key(new.agent, session_id)
    if key.agent_id != new.agent:
        raise InvalidInput(
            f"The key is of agent {key.agent_id!r}, but the session is of agent {new.agent!r}."
        )
    scope.admit_key(key)
    repo_pk = await _repo_pk(tx, scope, new.repo_id)
    row = await tx.one(
        "insert_session",
        *(id_bytes(session_id, "session id"), scope.organization, scope.user, str(key)),
        *(new.agent, key.channel, key.account_id, key.peer_kind.value, key.peer_id, repo_pk),
        *(new.title, new.description, new.category, int(new.is_public), int(new.is_draft)),
        *(new.agent_context_id, new.conversation_context_id, new.workspace_id, new.repo_name),
        *(new.default_language, _metadata(new.custom, MAX_CUSTOM), now, now),
    )
    if row is None:
        if reuse:
            return await get(tx, scope, key)
        raise Conflict(f"There is already a session with the key {key}.")
    await tx.run("insert_head", row[0], now)
    return await _by_pk(tx, row[0])


async def patch(
    tx: Transaction, scope: Scope, ref: SessionRef, change: SessionPatch, expected: int | None, now: int
) -> Session:
    found = await find(tx, scope, ref, writing=True)
    if change.is_empty:
        return await _by_pk(tx, found.pk)
    await advance(tx, found.pk, now, expected=expected)
    found = await find(tx, scope, ref, writing=True)
    columns = _plain_columns(change)
    if change.status is not msgspec.UNSET:
        columns |= _status_columns(found, change)
    if change.custom or change.agent_state:
        row = await tx.one("session_metadata", found.pk)
        assert row is not None
        columns["custom"] = _merged(row[0], change.custom, MAX_CUSTOM)
        columns["agent_state"] = _merged(row[1], change.agent_state, MAX_AGENT_STATE)
    if columns:
        await tx.query(_update_sql(tuple(columns)), *columns.values(), found.pk)
    if change.add_usage != TokenUsage():
        await tx.run("add_usage", change.add_usage.input, change.add_usage.output, found.pk)
    return await _by_pk(tx, found.pk)


async def delete(tx: Transaction, scope: Scope, ref: SessionRef) -> None:
    found = await find(tx, scope, ref, writing=True)
    await tx.run("delete_session", found.pk)
    change = await _next_changes(tx, 1)
    await tx.run("insert_deleted_session", change, found.id, found.organization, found.owner, found.agent)
    tx.advanced.add(found.pk)


async def advance(
    tx: Transaction,
    session_pk: int,
    now: int,
    *,
    turns: int = 0,
    expected: int | None = None,
) -> tuple[int, int]:
    """Take the next revision of a session; its last `seq`, and that revision.

    From here to the end of the transaction nobody else changes the session, so what decides
    about a change is read after this.
    """
    last_seq, rev, _ = await _advance(tx, session_pk, now, 0, turns, 1, 0, expected)
    return last_seq, rev


async def make_room(
    tx: Transaction, session_pk: int, now: int, *, messages: int, latest: int, expected: int | None = None
) -> tuple[int, int, int]:
    """Take the places and revisions of new messages, the latest of which is of that time.

    The last of each, and the latest time of all messages up to the last place.
    """
    return await _advance(tx, session_pk, now, messages, 0, messages, latest, expected)


async def _advance(
    tx: Transaction,
    session_pk: int,
    now: int,
    messages: int,
    turns: int,
    revisions: int,
    latest: int,
    expected: int | None,
) -> tuple[int, int, int]:
    head = await tx.one("advance_head", messages, turns, revisions, now, latest, session_pk, expected)
    if head is None:
        current = await tx.one("head_rev", session_pk)
        if expected is None or current is None:
            raise SessionNotFound(f"with the internal key {session_pk}")
        raise RevisionConflict(expected, current[0])
    tx.advanced.add(session_pk)
    last_seq, rev, high_at, stale = head
    if not stale:
        await tx.run("mark_stale", session_pk)
    return last_seq, rev, high_at


async def activate(tx: Transaction, found: Found) -> None:
    """What was said or asked makes a live session active."""
    if after_append(found.status) is not found.status:
        await tx.run("activate_session", found.pk)


async def compact(tx: Transaction, found: Found) -> None:
    """A live session stays compacted until something more is said."""
    if after_compaction(found.status) is not found.status:
        await tx.run("compact_session", found.pk)


async def catch_up(tx: Transaction) -> None:
    """Bring the indexed `updated_at` of sessions up to their heads, and number the changed sessions."""
    if stale := await tx.all("clear_stale"):
        first = await _next_changes(tx, len(stale)) - len(stale) + 1
        rows = [(updated_at, change, pk) for change, (updated_at, pk) in enumerate(stale, first)]
        await tx.many("catch_up_session", rows)


def found_from_row(row: Row) -> Found:
    pk, raw_id, organization, owner, agent, status, archived_from, is_public = row
    return Found(
        pk, raw_id, organization, owner, agent, _STATUS[status], _STATUS.get(archived_from), bool(is_public)
    )


def session_from_row(row: Row) -> Session:
    # fmt: off
    (
        raw_id, key, organization, owner, agent, repo_id, status, status_reason, archived_from,
        title, description, category, is_public, is_draft, is_deleted, stars, ratings_count,
        agent_context_id, conversation_context_id, workspace_id, repo_name, default_language,
        last_model, agent_session_id, agent_state, input_tokens, output_tokens, compaction_count,
        custom, created_at, updated_at, last_seq, turn_count, rev, has_pending_turn,
    ) = row
    # By position: with 34 names to match, half of a listing's time would go into that.
    return Session(
        SessionId(id_text(raw_id)), key, organization, owner, agent,
        RepoId(id_text(repo_id)) if repo_id else None,
        _STATUS[status], status_reason, _STATUS.get(archived_from),
        title, description, category, bool(is_public), bool(is_draft), bool(is_deleted), stars, ratings_count,
        agent_context_id, conversation_context_id, workspace_id, repo_name, default_language,
        last_model, agent_session_id, decode_metadata(agent_state), TokenUsage(input_tokens, output_tokens),
        compaction_count, decode_metadata(custom), from_ms(created_at), from_ms(updated_at),
        last_seq, turn_count, bool(has_pending_turn), rev,
    )
    # fmt: on


decode_metadata = msgspec.json.Decoder().decode

_STATUS: dict[str | None, SessionStatus] = {status.value: status for status in SessionStatus}

_PLAIN = (
    *("title", "description", "category", "status_reason", "is_public", "is_draft", "is_deleted", "stars"),
    *("ratings_count", "agent_context_id", "conversation_context_id", "workspace_id", "repo_name"),
    *("default_language", "last_model", "agent_session_id"),
)


def _merged(current: str, patch: dict[str, Any], limit: int) -> str:
    return _metadata(merge_custom(msgspec.json.decode(current), patch), limit) if patch else current


def _metadata(value: dict[str, Any], limit: int) -> str:
    """It comes with every listing of its session, so it must stay small."""
    json = encode_json(value, "metadata")
    if len(json) > limit:
        raise InvalidInput(
            f"The metadata of a session would have {len(json):,} bytes; at most {limit:,} are kept. "
            "Say what is longer in a message."
        )
    return json.decode()


def _plain_columns(change: SessionPatch) -> dict[str, Any]:
    given = {name: getattr(change, name) for name in _PLAIN}
    return {
        name: int(value) if isinstance(value, bool) else value
        for name, value in given.items()
        if value is not msgspec.UNSET
    }


def _status_columns(found: Found, change: SessionPatch) -> dict[str, Any]:
    target = change.status
    assert isinstance(target, SessionStatus)
    require_transition(found.status, target, archived_from=found.archived_from)
    reason = None if change.status_reason is msgspec.UNSET else change.status_reason
    archiving = target is SessionStatus.ARCHIVED
    archived_from = (found.archived_from or found.status) if archiving else None
    return {"status": target.value, "status_reason": reason, "archived_from": archived_from}


def _update_sql(columns: tuple[str, ...]) -> str:
    assignments = ", ".join(f"{name} = ${number}" for number, name in enumerate(columns, 1))
    return checked(f"UPDATE sessions SET {assignments} WHERE pk = ${len(columns) + 1}")


async def _require_holder(tx: Transaction, pk: int, lease: Lease) -> None:
    row = await tx.one("lease_token", pk)
    if row is None or row[0] != lease.token:
        raise LeaseLost(lease.session_id)


async def _by_pk(tx: Transaction, pk: int) -> Session:
    row = await tx.one("session_by_pk", pk)
    assert row is not None
    return session_from_row(row)


async def _next_changes(tx: Transaction, count: int) -> int:
    """The last of `count` new numbers for sessions that changed."""
    row = await tx.one("next_changes", count)
    assert row is not None
    return int(row[0])


async def _repo_pk(tx: Transaction, scope: Scope, repo_id: RepoId | None) -> int | None:
    if repo_id is None:
        return None
    row = await tx.one("repo_pk", scope.organization, id_bytes(repo_id, "repository id"))
    if row is None:
        raise unknown_repo(repo_id)
    return int(row[0])


def unknown_repo(repo_id: RepoId) -> NotFound:
    return NotFound(f"No repository {repo_id} is known; scan the workspace again, or check the id.")
