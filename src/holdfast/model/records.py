"""The smaller rows: compactions, repositories, tokens, bindings, moves of sessions, audit entries."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from holdfast.errors import InvalidInput
from holdfast.model.ids import CompactionId, RepoId, SessionId, TokenId
from holdfast.model.principal import Principal
from holdfast.model.text import label, storable_fields


class NewCompaction(msgspec.Struct, frozen=True, kw_only=True):
    """A fold of the messages from `first_seq` to `last_seq` into a summary for the model's view."""

    first_seq: int
    last_seq: int
    strategy: str
    summary: str
    params: dict[str, Any] = {}
    tokens_before: int | None = None
    tokens_after: int | None = None
    tokenizer: str | None = None
    parent_id: CompactionId | None = None
    """The compaction whose view this one was planned on."""
    edits: dict[str, Any] = {}
    """What it does to the view, message by message; empty folds the whole range."""

    def __post_init__(self) -> None:
        if not 1 <= self.first_seq <= self.last_seq:
            raise InvalidInput(
                f"Messages {self.first_seq} to {self.last_seq} are not a range: it starts at 1 or later, "
                "and ends where it starts or later."
            )
        storable_fields(self)


class Compaction(msgspec.Struct, frozen=True, kw_only=True):
    id: CompactionId
    rev: int
    parent_id: CompactionId | None
    strategy: str
    params: dict[str, Any]
    first_seq: int
    last_seq: int
    summary: str
    tokens_before: int | None
    tokens_after: int | None
    tokenizer: str | None
    created_at: datetime
    undone_at: datetime | None
    edits: dict[str, Any] = {}


class CompactionOutline(msgspec.Struct, frozen=True):
    """As much of a compaction as it takes to know whether it matters for a view."""

    id: CompactionId
    parent_id: CompactionId | None
    first_seq: int
    last_seq: int
    undone_at: datetime | None


class Repo(msgspec.Struct, frozen=True, kw_only=True):
    """A git repository found under the workspace root."""

    name: str
    path: str
    branch: str | None = None
    last_commit: str | None = None
    remote: str | None = None
    id: RepoId | None = None
    """Made by the store when the path is first seen, and kept from then on."""

    def __post_init__(self) -> None:
        label(self.name, "repository name")
        storable_fields(self)


class Token(msgspec.Struct, frozen=True, kw_only=True):
    """A bearer token: what is kept of it is a hash, never the secret."""

    id: TokenId
    principal: Principal
    label: str
    created_at: datetime
    last_used_at: datetime | None
    expires_at: datetime | None
    revoked_at: datetime | None


class ProcessRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A process group that serves a session."""

    session_id: SessionId
    process_group: int
    started: float
    """When its leader was started: with the number, what tells it from a later one."""


class BindingRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A binding as it is kept. Those that were added first come first."""

    number: int
    rule: dict[str, Any]
    created_at: datetime


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True):
    """Something a person decided or was denied."""

    action: str
    outcome: str
    organization: str
    user: str
    subject: str | None = None
    detail: dict[str, Any] = {}
    id: int = 0
    at: datetime | None = None

    def __post_init__(self) -> None:
        storable_fields(self)
