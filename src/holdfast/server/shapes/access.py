"""Who is let in, what was decided and denied, and what went wrong."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from holdfast.model import records
from holdfast.model.principal import PrincipalRole
from holdfast.model.times import iso
from holdfast.server.shapes.shape import Shape, moment_text


class Token(Shape, frozen=True, kw_only=True):
    id: str
    organization: str
    user: str
    role: PrincipalRole
    label: str
    created_at: str
    last_used_at: str | None = None
    expires_at: str | None = None
    revoked_at: str | None = None

    @classmethod
    def of(cls, token: records.Token) -> Token:
        return cls(
            id=token.id,
            organization=token.principal.organization,
            user=token.principal.user,
            role=token.principal.role,
            label=token.label,
            created_at=iso(token.created_at),
            last_used_at=moment_text(token.last_used_at),
            expires_at=moment_text(token.expires_at),
            revoked_at=moment_text(token.revoked_at),
        )


class NewToken(Shape, frozen=True, kw_only=True):
    """A token with its secret, which is shown this once and kept nowhere."""

    token: Token
    secret: str


class Tokens(Shape, frozen=True, kw_only=True):
    tokens: tuple[Token, ...]


class AuditEntry(Shape, frozen=True, kw_only=True):
    id: int
    at: str
    organization: str
    user: str
    action: str
    outcome: str
    subject: str | None = None
    door: str | None = None
    detail: dict[str, Any] = msgspec.field(default_factory=dict)

    @classmethod
    def of(cls, entry: records.AuditEntry) -> AuditEntry:
        assert entry.at is not None
        return cls(
            id=entry.id,
            at=iso(entry.at),
            organization=entry.organization,
            user=entry.user,
            action=entry.action,
            outcome=entry.outcome,
            subject=entry.subject,
            door=entry.door,
            detail=entry.detail,
        )


class Audit(Shape, frozen=True, kw_only=True):
    entries: tuple[AuditEntry, ...]
    next: int | None
    """The `before` of the next page; null on the last one."""


class Me(Shape, frozen=True, kw_only=True):
    """Who is calling."""

    organization: str
    user: str
    role: PrincipalRole


class SignInLink(Shape, frozen=True, kw_only=True):
    url: str
    """Opens the page signed in, once."""


class Health(Shape, frozen=True, kw_only=True):
    status: Literal["ok"]
    version: str


class Problem(Shape, frozen=True, kw_only=True):
    """What went wrong, by RFC 9457."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    retriable: bool = False
    retry_after: int | None = None
    session_status: str | None = None
    turn_status: str | None = None
    current_revision: int | None = None
    errors: tuple[str, ...] = ()
