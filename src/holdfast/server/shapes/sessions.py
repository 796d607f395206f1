"""Sessions, alone and in listings."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.model import records, session
from holdfast.model.status import SessionStatus
from holdfast.model.times import iso
from holdfast.model.usage import TokenUsage
from holdfast.server.shapes.messages import Message
from holdfast.server.shapes.repos import Repo
from holdfast.server.shapes.shape import Shape
from holdfast.store import options


class Session(Shape, frozen=True, kw_only=True):
    id: str
    key: str
    repo_id: str | None = None
    agent: str
    title: str | None
    status: SessionStatus
    status_reason: str | None = None
    created_at: str
    updated_at: str
    message_count: int
    turn_count: int
    has_pending_turn: bool
    """Whether something is being worked on."""
    token_usage: TokenUsage
    last_model: str | None = None
    compaction_count: int
    rev: int
    agent_state: dict[str, Any] = msgspec.field(default_factory=dict)
    """What the agent offers in this session: modes, commands, options, capabilities."""
    custom: dict[str, Any] = msgspec.field(default_factory=dict)
    name: str
    description: str | None = None
    category: str | None = None
    is_public: bool
    is_draft: bool
    is_deleted: bool
    owner_organization: str
    owner_user: str
    creation_date: str
    last_updated_date: str
    stars: float
    ratings_count: int
    agent_context_id: str | None = None
    conversation_context_id: str | None = None
    workspace_id: str | None = None
    repo_name: str | None = None
    default_language: str | None = None
    repo: Repo | None = None
    messages: tuple[Message, ...] | None = None
    match: options.Match | None = None
    """Of a search, the message that was found."""

    @classmethod
    def of(
        cls,
        session: session.Session,
        repo: records.Repo | None = None,
        match: options.Match | None = None,
    ) -> Session:
        created, updated = iso(session.created_at), iso(session.updated_at)
        return cls(
            id=session.id,
            key=session.key_text,
            repo_id=session.repo_id,
            agent=session.agent,
            title=session.title,
            status=session.status,
            status_reason=session.status_reason,
            created_at=created,
            updated_at=updated,
            message_count=session.message_count,
            turn_count=session.turn_count,
            has_pending_turn=session.has_pending_turn,
            token_usage=session.token_usage,
            last_model=session.last_model,
            compaction_count=session.compaction_count,
            rev=session.rev,
            agent_state=session.agent_state,
            custom=session.custom,
            name=session.name,
            description=session.description,
            category=session.category,
            is_public=session.is_public,
            is_draft=session.is_draft,
            is_deleted=session.is_deleted,
            owner_organization=session.organization,
            owner_user=session.owner,
            creation_date=created,
            last_updated_date=updated,
            stars=session.stars,
            ratings_count=session.ratings_count,
            agent_context_id=session.agent_context_id,
            conversation_context_id=session.conversation_context_id,
            workspace_id=session.workspace_id,
            repo_name=session.repo_name,
            default_language=session.default_language,
            repo=None if repo is None else Repo.of(repo),
            match=match,
        )


class SessionPage(Shape, frozen=True, kw_only=True):
    sessions: tuple[Session, ...]
    total: int
    limit: int
    offset: int
    next: str | None
    """The `before` of the next page; null on the last one."""
    is_all: bool = True
    """False for a search of words so frequent that only the newest messages with them were looked at."""
    unread: int = 0
    """Messages that a search has not looked at yet. Asked again, it goes on through them."""

    @classmethod
    def of(cls, page: options.SessionPage) -> SessionPage:
        return cls(
            sessions=tuple(Session.of(each, match=page.matches.get(each.id)) for each in page.sessions),
            total=page.total,
            limit=page.limit,
            offset=page.offset,
            next=page.next,
            is_all=page.is_all,
            unread=page.unread,
        )


class ChangedSessions(Shape, frozen=True, kw_only=True):
    """Which of the caller's sessions changed after a position."""

    sessions: tuple[Session, ...]
    deleted: tuple[str, ...]
    position: int
    more: bool

    @classmethod
    def of(cls, changed: options.ChangedSessions) -> ChangedSessions:
        return cls(
            sessions=tuple(map(Session.of, changed.sessions)),
            deleted=tuple(changed.deleted),
            position=changed.position,
            more=changed.more,
        )
