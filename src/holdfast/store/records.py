"""Compactions, repositories, tokens, audit entries."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Sequence
from datetime import datetime

import msgspec

from holdfast.errors import Conflict, InvalidInput, NotFound, RevisionConflict
from holdfast.model.content import encode_json
from holdfast.model.ids import CompactionId, RepoId, TokenId, id_bytes, id_text
from holdfast.model.principal import Principal, PrincipalRole
from holdfast.model.records import AuditEntry, Compaction, CompactionOutline, NewCompaction, Repo, Token
from holdfast.model.session import Session, SessionRef
from holdfast.model.text import storable
from holdfast.model.times import from_ms, to_ms
from holdfast.store import sessions
from holdfast.store.ids import new_id
from holdfast.store.options import MAX_SEQ
from holdfast.store.scope import Scope
from holdfast.store.transaction import Row, Transaction

SALT_BYTES = 32

AUDIT_PAGE = 1000
"""How many audit entries are checked at a time."""


async def commit_compaction(
    tx: Transaction,
    scope: Scope,
    ref: SessionRef,
    new: NewCompaction,
    compaction_id: CompactionId,
    expected: int | None,
    planned_at: int | None,
    now: int,
) -> Compaction:
    found = await sessions.find(tx, scope, ref, writing=True)
    last_seq, rev = await sessions.advance(tx, found.pk, now, expected=expected)
    if planned_at is not None and await tx.all("compactions_changed_after", found.pk, planned_at, 1):
        raise RevisionConflict(planned_at, rev - 1)
    if new.last_seq > last_seq:
        raise InvalidInput(f"The session has {last_seq} messages; message {new.last_seq} cannot be folded.")
    await tx.run(
        "insert_compaction",
        *(found.pk, id_bytes(compaction_id), rev, id_bytes(new.parent_id) if new.parent_id else None),
        *(new.strategy, encode_json(new.params, "compaction parameters").decode()),
        *(new.first_seq, new.last_seq, new.summary, new.tokens_before, new.tokens_after, new.tokenizer, now),
        encode_json(new.edits, "edits of a compaction").decode(),
    )
    await tx.run("count_compaction", found.pk)
    await sessions.compact(tx, found)
    return await _compaction(tx, found.pk, compaction_id)


async def compactions(tx: Transaction, scope: Scope, ref: SessionRef) -> list[Compaction]:
    found = await sessions.find(tx, scope, ref, writing=False)
    return [compaction_from_row(row) for row in await tx.all("compactions_of_session", found.pk)]


async def compaction_outlines(
    tx: Transaction, scope: Scope, ref: SessionRef
) -> tuple[Session, list[CompactionOutline]]:
    """A session as it is, and which compactions it has."""
    session = await sessions.get(tx, scope, ref)
    if not session.compaction_count:
        return session, []
    return session, [
        CompactionOutline(
            CompactionId(id_text(raw_id)),
            CompactionId(id_text(parent_id)) if parent_id else None,
            first_seq,
            last_seq,
            _moment(undone_at),
        )
        for raw_id, parent_id, first_seq, last_seq, undone_at in await tx.all(
            "compaction_outlines", id_bytes(session.id)
        )
    ]


async def compactions_by_id(
    tx: Transaction, scope: Scope, ref: SessionRef, ids: Sequence[CompactionId]
) -> list[Compaction]:
    found = await sessions.find(tx, scope, ref, writing=False)
    return [await _compaction(tx, found.pk, compaction_id) for compaction_id in ids]


async def undo_compaction(
    tx: Transaction, scope: Scope, ref: SessionRef, compaction_id: CompactionId, now: int
) -> Compaction:
    found = await sessions.find(tx, scope, ref, writing=True)
    compaction = await _compaction(tx, found.pk, compaction_id)
    if compaction.undone_at is None:
        _, rev = await sessions.advance(tx, found.pk, now)
        await tx.run("undo_compaction", now, rev, found.pk, id_bytes(compaction_id))
        await sessions.activate(tx, found)
    return await _compaction(tx, found.pk, compaction_id)


def compaction_from_row(row: Row) -> Compaction:
    # fmt: off
    (
        raw_id, rev, parent_id, strategy, params, first_seq, last_seq, summary, tokens_before, tokens_after,
        tokenizer, created_at, undone_at, edits,
    ) = row
    # fmt: on
    return Compaction(
        id=CompactionId(id_text(raw_id)),
        rev=rev,
        parent_id=CompactionId(id_text(parent_id)) if parent_id else None,
        strategy=strategy,
        params=msgspec.json.decode(params),
        first_seq=first_seq,
        last_seq=last_seq,
        summary=summary,
        tokens_before=tokens_before,
        tokens_after=tokens_after,
        tokenizer=tokenizer,
        created_at=from_ms(created_at),
        undone_at=_moment(undone_at),
        edits=msgspec.json.decode(edits),
    )


async def save_repos(tx: Transaction, scope: Scope, repos: Sequence[Repo], now: int) -> list[Repo]:
    """Add repositories, or bring those with a known path up to date; a known path keeps its id."""
    saved = []
    for repo in repos:
        row = await tx.one(
            "save_repo",
            *(id_bytes(repo.id or new_id(), "repository id"), scope.organization, repo.name, repo.path),
            *(repo.branch, repo.last_commit, repo.remote, now),
        )
        assert row is not None
        saved.append(_repo_from_row(row))
    return saved


async def get_repo(tx: Transaction, scope: Scope, repo_id: RepoId) -> Repo:
    row = await tx.one("repo_by_id", scope.organization, id_bytes(repo_id, "repository id"))
    if row is None:
        raise sessions.unknown_repo(repo_id)
    return _repo_from_row(row)


async def list_repos(tx: Transaction, scope: Scope) -> list[Repo]:
    return [_repo_from_row(row) for row in await tx.all("repos", scope.organization)]


async def open_repo(tx: Transaction, scope: Scope, repo_id: RepoId, for_members: bool, now: int) -> Repo:
    """Let members start agents in a repository, or no longer. The audit log has it in the same write."""
    scope.admit_admin("say who may start agents in a repository")
    raw_id = id_bytes(repo_id, "repository id")
    row = await tx.one("open_repo", int(for_members), scope.organization, raw_id)
    if row is None:
        raise sessions.unknown_repo(repo_id)
    repo = _repo_from_row(row)
    entry = AuditEntry(
        action="repository.open",
        outcome="done",
        organization=scope.organization,
        user=scope.user,
        subject=repo.path,
        door=scope.door,
        detail={"forMembers": for_members},
    )
    await add_audit(tx, entry, now)
    return repo


async def delete_repo(tx: Transaction, scope: Scope, repo_id: RepoId, now: int) -> None:
    """Forget a repository. Its sessions stay, bound to none."""
    found = await tx.one("repo_pk", scope.organization, id_bytes(repo_id, "repository id"))
    if found is None:
        raise sessions.unknown_repo(repo_id)
    tx.advanced.update(pk for (pk,) in await tx.all("advance_sessions_of_repo", now, found[0]))
    await tx.run("delete_repo", found[0])


async def add_token(
    tx: Transaction,
    scope: Scope,
    principal: Principal,
    token_hash: str,
    label: str,
    expires_at: datetime | None,
    parent_id: TokenId | None,
    now: int,
) -> Token:
    scope.admit_admin("give tokens")
    storable(label, "label of a token")
    token_id = new_id()
    await tx.run(
        "insert_token",
        *(
            id_bytes(token_id),
            token_hash,
            principal.organization,
            principal.user,
            principal.role.value,
            label,
        ),
        *(now, to_ms(expires_at) if expires_at else None),
        id_bytes(parent_id) if parent_id else None,
    )
    row = await tx.one("token_by_hash", token_hash)
    assert row is not None
    token = _token_from_row(row)
    if token.revoked_at is not None:
        raise Conflict("The token for which another one was to be made was revoked; sign in anew.")
    return token


async def find_token(tx: Transaction, token_hash: str) -> Token | None:
    """The token with this hash, whatever its state. It is revoked when the one it was given for is."""
    row = await tx.one("token_by_hash", token_hash)
    return _token_from_row(row) if row else None


async def touch_token(tx: Transaction, token_id: TokenId, now: int) -> None:
    await tx.run("touch_token", now, id_bytes(token_id, "token id"))


async def list_tokens(tx: Transaction, scope: Scope) -> list[Token]:
    scope.admit_admin("see the tokens of others")
    return [_token_from_row(row) for row in await tx.all("tokens", scope.organization)]


async def revoke_token(tx: Transaction, scope: Scope, token_id: TokenId, now: int) -> Token:
    owner = await tx.one("token_owner", scope.organization, id_bytes(token_id, "token id"))
    if owner is not None and owner[0] != scope.user:
        scope.admit_admin("revoke the tokens of others")
    row = await tx.one("revoke_token", now, scope.organization, id_bytes(token_id, "token id"))
    if row is None:
        raise NotFound(f"There is no token {token_id}.")
    await tx.run("revoke_children", now, id_bytes(token_id))
    return _token_from_row(row)


async def add_audit(tx: Transaction, entry: AuditEntry, now: int) -> None:
    at = to_ms(entry.at) if entry.at else now
    words = encode_json(entry.detail, "audit detail")
    salt = secrets.token_bytes(SALT_BYTES)
    where = (at, entry.organization, entry.user, entry.action, entry.outcome, entry.subject, entry.door)
    row = await tx.one("insert_audit", *where, commitment(salt, words))
    assert row is not None
    await tx.run("insert_audit_words", row[0], salt, words.decode())


async def add_audit_once(tx: Transaction, entry: AuditEntry, now: int) -> None:
    """Record what can happen to its subject once, unless somebody has noticed it already."""
    if await tx.one("audit_of", entry.organization, entry.subject, entry.action) is None:
        await add_audit(tx, entry, now)


async def list_audit(tx: Transaction, scope: Scope, before: int | None, limit: int) -> list[AuditEntry]:
    """Audit entries, newest first; `before` is the id of the last one seen."""
    scope.admit_admin("read the audit log")
    rows = await tx.all("audit_before", scope.organization, MAX_SEQ if before is None else before, limit)
    return [
        AuditEntry(
            id=pk,
            at=from_ms(at),
            organization=organization,
            user=user,
            action=action,
            outcome=outcome,
            subject=subject,
            door=door,
            detail=msgspec.json.decode(words) if words else {},
        )
        for pk, at, organization, user, action, outcome, subject, door, words in rows
    ]


def commitment(salt: bytes, words: bytes) -> bytes:
    """What an audit entry keeps of the words beside it. Without their salt it tells nothing of them."""
    return hmac.digest(salt, words, "sha256")


async def forged_audit_words(tx: Transaction) -> list[int]:
    """The entries whose words are not those that were written with them."""
    forged: list[int] = []
    last = 0
    while rows := await tx.all("audit_commitments", last, AUDIT_PAGE):
        forged += [pk for pk, kept, salt, words in rows if kept != commitment(salt or b"", words.encode())]
        last = rows[-1][0]
    return forged


async def _compaction(tx: Transaction, session_pk: int, compaction_id: CompactionId) -> Compaction:
    row = await tx.one("compaction_by_id", session_pk, id_bytes(compaction_id, "compaction id"))
    if row is None:
        raise NotFound(f"The session has no compaction {compaction_id}.")
    return compaction_from_row(row)


def _repo_from_row(row: Row) -> Repo:
    raw_id, name, path, branch, last_commit, remote, for_members = row
    return Repo(
        id=RepoId(id_text(raw_id)),
        name=name,
        path=path,
        branch=branch,
        last_commit=last_commit,
        remote=remote,
        for_members=bool(for_members),
    )


def _token_from_row(row: Row) -> Token:
    raw_id, organization, user, role, label, created_at, last_used_at, expires_at, revoked_at, parent_id = row
    return Token(
        id=TokenId(id_text(raw_id)),
        principal=Principal(organization, user, PrincipalRole(role)),
        label=label,
        created_at=from_ms(created_at),
        last_used_at=_moment(last_used_at),
        expires_at=_moment(expires_at),
        revoked_at=_moment(revoked_at),
        parent_id=TokenId(id_text(parent_id)) if parent_id else None,
    )


def _moment(ms: int | None) -> datetime | None:
    return None if ms is None else from_ms(ms)
