"""The smaller rows: compactions, repositories, tokens, bindings, moves, contexts, audit entries."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Any

import msgspec

from holdfast.errors import InvalidInput
from holdfast.model.ids import CompactionId, ContextId, RepoId, SessionId, TokenId, TurnId
from holdfast.model.principal import Principal
from holdfast.model.status import SessionStatus
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
    for_members: bool = False
    """Whether members may start agents in it, and index it. Admins may in any."""

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
    parent_id: TokenId | None = None
    """The one that it was given for, and goes with."""


class Contents(msgspec.Struct, frozen=True, kw_only=True):
    """How much a store has of all organizations."""

    organizations: int
    sessions: int
    messages: int
    tokens: int
    audit_entries: int


class ProcessRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A process group that serves a session."""

    session_id: SessionId
    process_group: int
    started: float
    """When its leader was started: with the number, what tells it from a later one."""
    owner: str
    """The opening of the store that started it."""
    is_here: bool = True
    """Whether its number means something here, as it does not in a copy of the database."""


class BindingRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A binding as it is kept. Those that were added first come first."""

    number: int
    rule: dict[str, Any]
    created_at: datetime


class MoveAction(StrEnum):
    MOVE = "move"
    """The session itself gets the new key."""
    COPY = "copy"
    """A new session gets the new key and a copy of what was said; the old one stays."""
    MERGE = "merge"
    """A new session has what was said in both; both are archived."""
    CONFLICT = "conflict"
    """Nothing is done."""


class MoveStep(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What becomes of a session whose chat another key has now."""

    action: MoveAction
    session_id: SessionId
    from_key: str
    to_key: str
    reason: str | None = None
    """Of a conflict."""
    sender: str | None = None
    """Who writes to it, where its new key is one that direct messages share."""
    is_second_person: bool = False
    """Whether somebody else writes there already."""


class DoneStep(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A step that was taken, with what it takes to undo it."""

    step: MoveStep
    made: SessionId | None = None
    """The session that a copy or a merge made."""
    made_rev: int | None = None
    """Its revision then: one that was used since is not deleted."""
    replaced: tuple[ReplacedSession, ...] = ()
    """The sessions that got other keys, as they were."""


class ReplacedSession(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    session_id: SessionId
    key: str
    status: SessionStatus
    archived_from: SessionStatus | None = None


class MoveRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Sessions that were moved together."""

    number: int
    at: datetime
    undone_at: datetime | None
    steps: tuple[DoneStep, ...]
    gone: tuple[SessionId, ...] = ()
    """Told when they are undone: the sessions that were deleted since."""


class ExecutionKey(msgspec.Struct, frozen=True):
    """What makes a repeated call to a model harmless: the caller's key, and a hash of what was asked."""

    key: str
    request_hash: str

    def __post_init__(self) -> None:
        label(self.key, "idempotency key")


class KeyedTurn(msgspec.Struct, frozen=True):
    """The turn that a call with a key opened."""

    request_hash: str
    session_id: SessionId
    turn_id: TurnId


class ContextKind(StrEnum):
    AGENT = "agent"
    """Who answers: a model, its instructions, its tools."""
    CONVERSATION = "conversation"
    """What the work is about: more instructions, a repository, a language."""


class ContextRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A context as it is kept. What is in it is for those who execute turns to understand."""

    id: ContextId
    kind: ContextKind
    name: str
    definition: dict[str, Any]
    updated_at: datetime


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True):
    """Something a person decided or was denied."""

    action: str
    outcome: str
    organization: str
    user: str
    subject: str | None = None
    door: str | None = None
    """Where it happened: `http`, `cli`, `tui`, or the name that a program gives itself."""
    detail: dict[str, Any] = {}
    """What was said, with the arguments; empty once it was erased."""
    id: int = 0
    at: datetime | None = None

    def __post_init__(self) -> None:
        storable_fields(self)
