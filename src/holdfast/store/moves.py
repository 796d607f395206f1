"""Sessions that change their keys: retired ones, and those that follow a changed binding.

What moves together moves in one transaction, with its record and its audit entry. Messages are
never changed: a copy or a merge makes a new session, and the originals keep theirs, so undoing
gives back exactly what was there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec

from holdfast.errors import Conflict, NotFound, SessionNotFound
from holdfast.model.content import encode_json
from holdfast.model.ids import SessionId, id_text
from holdfast.model.key import SessionKey
from holdfast.model.message import copied
from holdfast.model.principal import Principal, PrincipalRole
from holdfast.model.records import AuditEntry, DoneStep, MoveAction, MoveRecord, MoveStep, ReplacedSession
from holdfast.model.session import NewSession, Session, SessionPatch, SessionRef, copied_from, sent_by
from holdfast.model.status import SessionStatus
from holdfast.model.times import from_ms
from holdfast.store import messages, records, sessions
from holdfast.store.ids import new_id
from holdfast.store.scope import Found, Scope
from holdfast.store.transaction import Row, Transaction

RETIRED = "retired:"
"""Begins the thread of a retired session's key, and its id ends it: no chat has such a key."""


async def retire(tx: Transaction, scope: Scope, ref: SessionRef, now: int) -> Session:
    """Archive a session under a key of its own: its former one is free from then on."""
    found, session = await _found(tx, scope, ref)
    await _archive(tx, scope, found, session, now)
    return await sessions.get(tx, scope, session.id)


class Moving(msgspec.Struct, frozen=True):
    """Steps to take together, as data; how the copies of messages are written is the store's affair."""

    scope: Scope
    steps: Sequence[MoveStep]
    now: int
    owner: str
    max_bytes: int

    async def __call__(self, tx: Transaction) -> MoveRecord:
        self.scope.admit_admin("move sessions")
        done = tuple([await self._take(tx, step) for step in self.steps])
        text = encode_json(msgspec.to_builtins(done), "moves").decode()
        row = await tx.one("insert_moves", self.scope.organization, self.now, text)
        assert row is not None
        for step in self.steps:
            if step.is_second_person:
                await self._warn(tx, step)
        await _audit(tx, self.scope, "sessions.move", row[0], self.steps, self.now)
        return MoveRecord(number=row[0], at=from_ms(self.now), undone_at=None, steps=done)

    async def _take(self, tx: Transaction, step: MoveStep) -> DoneStep:
        found, session = await _found(tx, self.scope, step.session_id)
        key = SessionKey.parse(step.to_key)
        if step.action is MoveAction.CONFLICT:
            raise Conflict(f"Session {step.session_id} cannot be moved: {step.reason}.")
        if session.key_text != step.from_key:
            raise Conflict(f"Session {step.session_id} has another key than planned; plan again.")
        await _require_free(tx, found, self.now)
        if step.action is MoveAction.MOVE:
            before = _as_it_is(session)
            await _rekey(tx, self.scope, found, key, found.status, found.archived_from, self.now)
            if step.sender is not None:
                await _patch(tx, self.scope, session.id, sent_by([step.sender]), self.now)
            return DoneStep(step=step, replaced=(before,))
        if step.action is MoveAction.COPY:
            made = await self._made(tx, step, [session])
            return DoneStep(step=step, made=made.id, made_rev=made.rev)
        return await self._merge(tx, step, found, session)

    async def _merge(self, tx: Transaction, step: MoveStep, found: Found, session: Session) -> DoneStep:
        there_found, there = await _found(tx, self.scope, SessionKey.parse(step.to_key))
        await _require_free(tx, there_found, self.now)
        await _archive(tx, self.scope, there_found, there, self.now)
        await _archive(tx, self.scope, found, session, self.now)
        older_first = sorted((there, session), key=lambda each: each.created_at)
        made = await self._made(tx, step, older_first, there.senders)
        replaced = (_as_it_is(there), _as_it_is(session))
        return DoneStep(step=step, made=made.id, made_rev=made.rev, replaced=replaced)

    async def _made(
        self, tx: Transaction, step: MoveStep, originals: Sequence[Session], senders: Sequence[str] = ()
    ) -> Session:
        """A new session with what was said in the originals, one after the other."""
        first, key = originals[0], SessionKey.parse(step.to_key)
        kept = first.custom | copied_from([each.id for each in originals])
        if step.sender is not None:
            kept |= sent_by([*senders, step.sender])
        owner = Principal(first.organization, first.owner, PrincipalRole.ADMIN)
        scope = msgspec.structs.replace(self.scope, principal=owner)
        new = NewSession(
            agent=key.agent_id,
            key=key,
            title=first.title,
            custom=kept,
        )
        made = await sessions.create(tx, scope, new, SessionId(new_id()), self.now, reuse=False)
        for original in originals:
            said = await messages.ranges(tx, self.scope, original.id, [(1, original.message_count)])
            copies = messages.prepare([copied(each) for each in said], self.now, max_bytes=self.max_bytes)
            await messages.Append(scope, made.id, copies, self.now, self.owner)(tx)
            found, _ = await _found(tx, scope, made.id)
            await tx.run("add_usage", original.token_usage.input, original.token_usage.output, found.pk)
        return await sessions.get(tx, scope, made.id)

    async def _warn(self, tx: Transaction, step: MoveStep) -> None:
        """Note that people share a session from now on: each can make the agent tell what the other said."""
        _, shared = await _found(tx, self.scope, SessionKey.parse(step.to_key))
        entry = AuditEntry(
            action="session.main_shared",
            outcome="warned",
            organization=self.scope.organization,
            user=self.scope.user,
            subject=shared.id,
            detail={"senders": shared.senders},
        )
        await records.add_audit(tx, entry, self.now)


async def undo(tx: Transaction, scope: Scope, now: int) -> MoveRecord:
    """Take back the last moves, all of them or none; sessions that were deleted since are only named."""
    scope.admit_admin("move sessions")
    row = await tx.one("last_moves", scope.organization)
    if row is None:
        raise NotFound("There is nothing to take back: no migration is in effect.")
    record = _from_row(row)
    if await tx.one("undo_moves", now, record.number) is None:
        raise Conflict("These moves were undone a moment ago.")
    gone: list[SessionId] = []
    merged: set[SessionId] = set()
    restored: Counter[SessionId] = Counter()
    for done in reversed(record.steps):
        gone += await _undo(tx, scope, done, merged, restored, now)
    steps = [done.step for done in record.steps]
    await _audit(tx, scope, "sessions.move.undo", record.number, steps, now)
    return msgspec.structs.replace(record, undone_at=from_ms(now), gone=tuple(dict.fromkeys(gone)))


async def _undo(
    tx: Transaction,
    scope: Scope,
    done: DoneStep,
    merged: set[SessionId],
    restored: Counter[SessionId],
    now: int,
) -> list[SessionId]:
    """Take a step back as far as its sessions are there; those that are not.

    `merged` are the originals of merges that stay, `restored` those that later steps had set aside.
    """
    ids = [former.session_id for former in done.replaced] + ([done.made] if done.made else [])
    there = {each: known for each in ids if (known := await _if_there(tx, scope, each))}
    gone = [each for each in ids if each not in there]
    for found, _ in there.values():
        await _require_free(tx, found, now)
    if done.made is not None and done.made in there:
        if any(former.session_id in gone for former in done.replaced):
            merged.update(former.session_id for former in done.replaced)
            return gone  # what was said in the deleted one is only in the merged one now
        await _delete_made(tx, scope, done, there[done.made][1], restored[done.made])
    for former in done.replaced:
        if former.session_id in there and former.session_id not in merged:
            found, _ = there[former.session_id]
            status = former.status if done.made is not None else found.status
            archived_from = former.archived_from if done.made is not None else found.archived_from
            await _rekey(tx, scope, found, SessionKey.parse(former.key), status, archived_from, now)
            if done.made is None and done.step.sender is not None:
                await _patch(tx, scope, former.session_id, {"senders": None}, now)
            restored[former.session_id] += 1
    return gone


async def _delete_made(tx: Transaction, scope: Scope, done: DoneStep, made: Session, restored: int) -> None:
    # Setting it aside for a further merge and restoring it are two changes, and are ours.
    if made.rev != (done.made_rev or 0) + 2 * restored:
        raise Conflict(
            f"Session {made.id} was used since it was made by the move, and what was said in it would be "
            "lost; nothing was undone."
        )
    await sessions.delete(tx, scope, made.id)


async def _if_there(tx: Transaction, scope: Scope, ref: SessionRef) -> tuple[Found, Session] | None:
    try:
        return await _found(tx, scope, ref)
    except SessionNotFound:
        return None


async def _found(tx: Transaction, scope: Scope, ref: SessionRef) -> tuple[Found, Session]:
    found = await sessions.find(tx, scope, ref, writing=True)
    if found.organization != scope.organization:
        raise SessionNotFound(ref)
    return found, await sessions.get(tx, scope, id_text(found.id))


async def _require_free(tx: Transaction, found: Found, now: int) -> None:
    row = await tx.one("lease_expiry", found.pk)
    if row is not None and row[0] > now:
        raise Conflict(f"A turn of session {id_text(found.id)} is running; try again when it has ended.")


async def _archive(tx: Transaction, scope: Scope, found: Found, session: Session, now: int) -> None:
    key = msgspec.structs.replace(session.key, thread=f"{RETIRED}{session.id}")
    archived_from = found.archived_from or found.status
    await _rekey(tx, scope, found, key, SessionStatus.ARCHIVED, archived_from, now)


async def _rekey(
    tx: Transaction,
    scope: Scope,
    found: Found,
    key: SessionKey,
    status: SessionStatus,
    archived_from: SessionStatus | None,
    now: int,
) -> None:
    if await tx.one("find_session_by_key", scope.organization, str(key)) is not None:
        raise Conflict(f"There is already a session with the key {key}; nothing was moved.")
    await sessions.advance(tx, found.pk, now)
    await tx.run(
        "rekey_session",
        *(str(key), key.agent_id, key.channel, key.account_id, key.peer_kind.value, key.peer_id),
        *(status.value, archived_from.value if archived_from else None, found.pk),
    )


async def _patch(
    tx: Transaction, scope: Scope, session_id: SessionId, custom: dict[str, Any], now: int
) -> None:
    await sessions.patch(tx, scope, session_id, SessionPatch(custom=custom), expected=None, now=now)


def _as_it_is(session: Session) -> ReplacedSession:
    return ReplacedSession(
        session_id=session.id,
        key=session.key_text,
        status=session.status,
        archived_from=session.archived_from,
    )


async def _audit(
    tx: Transaction, scope: Scope, action: str, number: int, steps: Sequence[MoveStep], now: int
) -> None:
    entry = AuditEntry(
        action=action,
        outcome="done",
        organization=scope.organization,
        user=scope.user,
        subject=str(number),
        detail={"steps": msgspec.to_builtins(steps)},
    )
    await records.add_audit(tx, entry, now)


def _from_row(row: Row) -> MoveRecord:
    number, at, undone_at, steps = row
    return MoveRecord(
        number=number,
        at=from_ms(at),
        undone_at=None if undone_at is None else from_ms(undone_at),
        steps=msgspec.json.decode(steps, type=tuple[DoneStep, ...]),
    )
