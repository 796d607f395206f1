"""A durable thread, and what a caller may say about one.

Owned by an organization and a user, served by one agent, optionally bound to one repository.
The platform's entity fields (name, category, stars, …) are part of every session.
"""

from __future__ import annotations

import math
from datetime import datetime
from typing import Any

import msgspec

from holdfast.errors import InvalidInput
from holdfast.model.ids import RepoId, SessionId
from holdfast.model.key import OWN_CHANNEL, PeerKind, SessionKey
from holdfast.model.status import SessionStatus, as_status
from holdfast.model.text import label, short_fields
from holdfast.model.usage import TokenUsage

SessionRef = SessionId | SessionKey | str
"""What names a session in a call: its id, or its key."""


class Session(msgspec.Struct, frozen=True):
    id: SessionId
    key_text: str
    organization: str
    owner: str
    agent: str
    repo_id: RepoId | None
    status: SessionStatus
    status_reason: str | None
    archived_from: SessionStatus | None
    title: str | None
    description: str | None
    category: str | None
    is_public: bool
    is_draft: bool
    is_deleted: bool
    stars: float
    ratings_count: int
    agent_context_id: str | None
    conversation_context_id: str | None
    workspace_id: str | None
    repo_name: str | None
    """The repository's name in retrieval, which may be one that is not under the workspace root."""
    default_language: str | None
    last_model: str | None
    agent_session_id: str | None
    """What the agent itself calls this session; how it is resumed."""
    agent_state: dict[str, Any]
    """What the agent offers in this session: modes, commands, options, capabilities."""
    token_usage: TokenUsage
    compaction_count: int
    custom: dict[str, Any]
    created_at: datetime
    updated_at: datetime
    """The last activity, never earlier than what was shown before."""
    message_count: int
    turn_count: int
    has_pending_turn: bool
    """Whether something is being worked on."""
    rev: int

    @property
    def key(self) -> SessionKey:
        return SessionKey.parse(self.key_text)

    @property
    def is_with_model(self) -> bool:
        """Whether a model answers in it, and not an agent with a process."""
        return self.agent_context_id is not None

    @property
    def copied_from(self) -> list[str]:
        """The sessions that this one began as a copy of. People write to `custom`, too."""
        kept = self.custom.get("copiedFrom")
        sessions = kept.get("sessions") if isinstance(kept, dict) else None
        return [each for each in sessions if isinstance(each, str)] if isinstance(sessions, list) else []

    @property
    def senders(self) -> list[str]:
        """Who is known to write to it, where direct messages share it. People write to `custom`, too."""
        kept = self.custom.get("senders")
        return list(kept) if isinstance(kept, dict) else []

    @property
    def name(self) -> str:
        """The platform's entity name: the title, or the key where there is none."""
        return self.title or self.key_text


class NewSession(msgspec.Struct, frozen=True, kw_only=True):
    """How to create a session. Without a key, one of our own channel is made from its id."""

    agent: str = "main"
    key: SessionKey | None = None
    id: SessionId | None = None
    repo_id: RepoId | None = None
    title: str | None = None
    description: str | None = None
    category: str | None = None
    is_public: bool = False
    is_draft: bool = False
    agent_context_id: str | None = None
    conversation_context_id: str | None = None
    workspace_id: str | None = None
    repo_name: str | None = None
    default_language: str | None = None
    custom: dict[str, Any] = {}

    def __post_init__(self) -> None:
        label(self.agent, "agent id")
        short_fields(self)


def fork_of(original: Session) -> NewSession:
    """A session that goes on like another one, by itself."""
    return NewSession(
        agent=original.agent,
        repo_id=original.repo_id,
        title=original.title,
        agent_context_id=original.agent_context_id,
        conversation_context_id=original.conversation_context_id,
        workspace_id=original.workspace_id,
        repo_name=original.repo_name,
        default_language=original.default_language,
        custom={"forkedFrom": {"session": original.id, "rev": original.rev}},
    )


class SessionPatch(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Changes to a session. Absent fields stay as they are; `None` clears a text.

    `custom` and `agent_state` are merged: their keys replace those of the same name, and a value of
    `None` removes the key (RFC 7396). `add_usage` is added to the session's totals.
    """

    title: str | msgspec.UnsetType | None = msgspec.UNSET
    description: str | msgspec.UnsetType | None = msgspec.UNSET
    category: str | msgspec.UnsetType | None = msgspec.UNSET
    status: SessionStatus | msgspec.UnsetType = msgspec.UNSET
    status_reason: str | msgspec.UnsetType | None = msgspec.UNSET
    is_public: bool | msgspec.UnsetType = msgspec.UNSET
    is_draft: bool | msgspec.UnsetType = msgspec.UNSET
    is_deleted: bool | msgspec.UnsetType = msgspec.UNSET
    stars: float | msgspec.UnsetType = msgspec.UNSET
    ratings_count: int | msgspec.UnsetType = msgspec.UNSET
    agent_context_id: str | msgspec.UnsetType | None = msgspec.UNSET
    conversation_context_id: str | msgspec.UnsetType | None = msgspec.UNSET
    workspace_id: str | msgspec.UnsetType | None = msgspec.UNSET
    repo_name: str | msgspec.UnsetType | None = msgspec.UNSET
    default_language: str | msgspec.UnsetType | None = msgspec.UNSET
    last_model: str | msgspec.UnsetType | None = msgspec.UNSET
    agent_session_id: str | msgspec.UnsetType | None = msgspec.UNSET
    add_usage: TokenUsage = TokenUsage()
    custom: dict[str, Any] = {}
    agent_state: dict[str, Any] = {}

    def __post_init__(self) -> None:
        if self.status is not msgspec.UNSET:
            msgspec.structs.force_setattr(self, "status", as_status(self.status))
        if self.stars is not msgspec.UNSET and not math.isfinite(self.stars):
            raise InvalidInput(f"A session cannot have {self.stars} stars.")
        short_fields(self)

    @property
    def is_empty(self) -> bool:
        return self == SessionPatch()


def own_key(agent: str, session_id: SessionId) -> SessionKey:
    """The key of a session that no chat message opened."""
    return SessionKey(agent, OWN_CHANNEL, "local", PeerKind.CHANNEL, session_id)


def copied_from(originals: list[SessionId]) -> dict[str, Any]:
    """What `custom` says of a session that begins as a copy of others."""
    return {"copiedFrom": {"sessions": originals}}


def sent_by(senders: list[str]) -> dict[str, Any]:
    """What `custom` says of a session that these people write to."""
    return {"senders": dict.fromkeys(senders, True)}


def merge_custom(current: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    """`current` with `patch` merged into it by RFC 7396."""
    merged = dict(current)
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        elif isinstance(value, dict):
            inner = merged.get(key)
            merged[key] = merge_custom(inner if isinstance(inner, dict) else {}, value)
        else:
            merged[key] = value
    return merged
