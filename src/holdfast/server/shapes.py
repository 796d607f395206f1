"""What goes over the wire: camelCase JSON, one struct for each thing.

The server encodes these, the OpenAPI document describes them, and the client decodes them. An
optional field that has nothing to say is left out. Times are ISO-8601 in UTC with milliseconds.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

import msgspec

from holdfast.execution import contexts
from holdfast.execution.answer import ExecuteResponse
from holdfast.execution.reading import SummaryPage
from holdfast.execution.replay import Replay
from holdfast.model import message as messages
from holdfast.model import records, session, turn
from holdfast.model.message import Role, ToolCall
from holdfast.model.principal import PrincipalRole
from holdfast.model.status import SessionStatus
from holdfast.model.times import iso
from holdfast.model.turn import ActiveFileRef, ChunkRef, Recipe, TurnStatus
from holdfast.model.usage import TokenUsage
from holdfast.retrieval.chunk import Found, Indexed
from holdfast.store import options


class _Shape(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    pass


class Repo(_Shape, frozen=True, kw_only=True):
    id: str
    name: str
    path: str
    branch: str | None = None
    last_commit: str | None = None
    remote: str | None = None

    @classmethod
    def of(cls, repo: records.Repo) -> Repo:
        assert repo.id is not None
        return cls(
            id=repo.id,
            name=repo.name,
            path=repo.path,
            branch=repo.branch,
            last_commit=repo.last_commit,
            remote=repo.remote,
        )


class Message(_Shape, frozen=True, kw_only=True):
    seq: int
    rev: int
    id: str
    role: Role
    content: Any
    """A JSON object with a `type`."""
    timestamp: str
    turn_id: str | None = None
    token_count: int | None = None
    tokenizer: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    metadata: dict[str, Any] = {}

    @classmethod
    def of(cls, message: messages.Message) -> Message:
        assert message.id is not None
        assert message.timestamp is not None
        return cls(
            seq=message.seq,
            rev=message.rev,
            id=message.id,
            role=message.role,
            content=message.content_json,
            timestamp=iso(message.timestamp),
            turn_id=message.turn_id,
            token_count=message.token_count,
            tokenizer=message.tokenizer,
            tool_calls=message.tool_calls,
            tool_call_id=message.tool_call_id,
            metadata=message.metadata,
        )


class Session(_Shape, frozen=True, kw_only=True):
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
    agent_state: dict[str, Any] = {}
    """What the agent offers in this session: modes, commands, options, capabilities."""
    custom: dict[str, Any] = {}
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

    @classmethod
    def of(cls, session: session.Session, repo: records.Repo | None = None) -> Session:
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
        )


class Turn(_Shape, frozen=True, kw_only=True):
    id: str
    session_id: str
    sequence_number: int
    rev: int
    status: TurnStatus
    created_by_user: str
    creation_date: str
    status_time_stamp: str
    openai_response_received_date: str | None = msgspec.field(default=None, name="openAIResponseReceivedDate")
    openai_chain_expires_date: str | None = msgspec.field(default=None, name="openAIChainExpiresDate")
    mode: str
    conversation_id: str | None = None
    openai_response_id: str | None = msgspec.field(default=None, name="openAIResponseId")
    previous_openai_response_id: str | None = msgspec.field(default=None, name="previousOpenAIResponseId")
    openai_model: str | None = msgspec.field(default=None, name="openAIModel")
    instruction_summary: str
    full_instruction_url: str | None = None
    agent_answer_summary: str | None = None
    full_agent_answer_url: str | None = None
    openai_request_payload_url: str | None = msgspec.field(default=None, name="openAIRequestPayloadUrl")
    openai_response_payload_url: str | None = msgspec.field(default=None, name="openAIResponsePayloadUrl")
    chunk_refs: tuple[ChunkRef, ...]
    active_file_refs: tuple[ActiveFileRef, ...]
    warnings: tuple[str, ...]
    errors: tuple[str, ...]
    usage: TokenUsage
    stop_reason: str | None = None
    recipe: Recipe | None = None

    @classmethod
    def of(cls, turn: turn.Turn) -> Turn:
        return cls(
            id=turn.id,
            session_id=turn.session_id,
            sequence_number=turn.sequence_number,
            rev=turn.rev,
            status=turn.status,
            created_by_user=turn.created_by,
            creation_date=iso(turn.created_at),
            status_time_stamp=iso(turn.status_at),
            openai_response_received_date=_moment(turn.openai_response_received_at),
            openai_chain_expires_date=_moment(turn.openai_chain_expires_at),
            mode=turn.mode,
            conversation_id=turn.conversation_id,
            openai_response_id=turn.openai_response_id,
            previous_openai_response_id=turn.previous_openai_response_id,
            openai_model=turn.openai_model,
            instruction_summary=turn.instruction_summary,
            full_instruction_url=turn.full_instruction_url,
            agent_answer_summary=turn.agent_answer_summary,
            full_agent_answer_url=turn.full_agent_answer_url,
            openai_request_payload_url=turn.openai_request_payload_url,
            openai_response_payload_url=turn.openai_response_payload_url,
            chunk_refs=turn.chunk_refs,
            active_file_refs=turn.active_file_refs,
            warnings=turn.warnings,
            errors=turn.errors,
            usage=turn.usage,
            stop_reason=turn.stop_reason,
            recipe=turn.recipe,
        )


class TurnSummary(_Shape, frozen=True, kw_only=True):
    """A turn in a few lines: what was asked, what came of it."""

    id: str
    session_id: str
    sequence_number: int
    status: TurnStatus
    instruction_summary: str
    agent_answer_summary: str | None = None
    errors: tuple[str, ...]

    @classmethod
    def of(cls, turn: turn.Turn) -> TurnSummary:
        return cls(
            id=turn.id,
            session_id=turn.session_id,
            sequence_number=turn.sequence_number,
            status=turn.status,
            instruction_summary=turn.instruction_summary,
            agent_answer_summary=turn.agent_answer_summary,
            errors=turn.errors,
        )


class Compaction(_Shape, frozen=True, kw_only=True):
    id: str
    rev: int
    parent_id: str | None = None
    strategy: str
    params: dict[str, Any]
    first_seq: int
    last_seq: int
    summary: str
    tokens_before: int | None = None
    tokens_after: int | None = None
    tokenizer: str | None = None
    created_at: str
    undone_at: str | None = None

    @classmethod
    def of(cls, compaction: records.Compaction) -> Compaction:
        return cls(
            id=compaction.id,
            rev=compaction.rev,
            parent_id=compaction.parent_id,
            strategy=compaction.strategy,
            params=compaction.params,
            first_seq=compaction.first_seq,
            last_seq=compaction.last_seq,
            summary=compaction.summary,
            tokens_before=compaction.tokens_before,
            tokens_after=compaction.tokens_after,
            tokenizer=compaction.tokenizer,
            created_at=iso(compaction.created_at),
            undone_at=_moment(compaction.undone_at),
        )


class Delta(_Shape, frozen=True, kw_only=True):
    """Text added to the end of a streaming message; to be ignored when the message is at `rev` already."""

    message_id: str
    rev: int
    text: str


class Changes(_Shape, frozen=True, kw_only=True):
    """What changed in a session after a revision. Rows replace those of the same id, then deltas apply."""

    session: Session
    messages: tuple[Message, ...]
    turns: tuple[Turn, ...]
    compactions: tuple[Compaction, ...]
    deltas: tuple[Delta, ...]
    rev: int
    more: bool

    @classmethod
    def of(cls, changes: options.Changes) -> Changes:
        return cls(
            session=Session.of(changes.session),
            messages=tuple(map(Message.of, changes.messages)),
            turns=tuple(map(Turn.of, changes.turns)),
            compactions=tuple(map(Compaction.of, changes.compactions)),
            deltas=tuple(
                Delta(message_id=each.message_id, rev=each.rev, text=each.text) for each in changes.deltas
            ),
            rev=changes.rev,
            more=changes.more,
        )


class ChangedSessions(_Shape, frozen=True, kw_only=True):
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


class SessionPage(_Shape, frozen=True, kw_only=True):
    sessions: tuple[Session, ...]
    total: int
    limit: int
    offset: int
    next: str | None
    """The `before` of the next page; null on the last one."""

    @classmethod
    def of(cls, page: options.SessionPage) -> SessionPage:
        return cls(
            sessions=tuple(map(Session.of, page.sessions)),
            total=page.total,
            limit=page.limit,
            offset=page.offset,
            next=page.next,
        )


class MessagePage(_Shape, frozen=True, kw_only=True):
    messages: tuple[Message, ...]
    next: int | None
    """The `after` of the next page, or the `before` when pages go backwards; null on the last one."""


class RenderedTexts(_Shape, frozen=True, kw_only=True):
    """HTML that is safe to show."""

    html: tuple[str, ...]


class Compactions(_Shape, frozen=True, kw_only=True):
    compactions: tuple[Compaction, ...]


class Compacted(_Shape, frozen=True, kw_only=True):
    compaction: Compaction | None
    """None when there was nothing to gain."""


class Repos(_Shape, frozen=True, kw_only=True):
    repos: tuple[Repo, ...]


class Agent(_Shape, frozen=True, kw_only=True):
    name: str
    installed: bool
    install: str | None = None
    """How a person gets it."""


class Agents(_Shape, frozen=True, kw_only=True):
    agents: tuple[Agent, ...]


class Turns(_Shape, frozen=True, kw_only=True):
    turns: tuple[Turn, ...]
    next: int | None
    """The `after` of the next page; null on the last one."""


class Accepted(_Shape, frozen=True, kw_only=True):
    """A prompt that was stored and queued."""

    session_id: str
    turn: Turn


class Option(_Shape, frozen=True, kw_only=True):
    label: str
    description: str | None = None


class Question(_Shape, frozen=True, kw_only=True):
    title: str
    prompt: str
    options: tuple[Option, ...]
    multi_select: bool


class Answer(_Shape, frozen=True, kw_only=True):
    question_index: int
    selected_option: str | None = None
    selected_options: tuple[str, ...] | None = None
    custom_text: str | None = None


class QuestionSet(_Shape, frozen=True, kw_only=True):
    id: str
    status: Literal["pending", "completed", "rejected", "timed_out", "abandoned"]
    kind: Literal["question", "permission", "elicitation"]
    questions: tuple[Question, ...]
    created_at: str
    updated_at: str
    agent: str | None = None
    session_id: str | None = None
    tool: dict[str, Any] | None = None
    working_directory: str | None = None
    call_id: str | None = None
    answers: tuple[Answer, ...] | None = None
    answered_by: str | None = None
    answered_from: str | None = None
    answered_at: str | None = None
    late: bool = False
    rejection_reason: str | None = None
    read_at: str | None = None


class QuestionSets(_Shape, frozen=True, kw_only=True):
    questions: tuple[QuestionSet, ...]


class ChangedQuestions(_Shape, frozen=True, kw_only=True):
    """Question sets that came or changed, and the ids of those that are gone."""

    questions: tuple[QuestionSet, ...]
    gone: tuple[str, ...]


class Token(_Shape, frozen=True, kw_only=True):
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
            last_used_at=_moment(token.last_used_at),
            expires_at=_moment(token.expires_at),
            revoked_at=_moment(token.revoked_at),
        )


class NewToken(_Shape, frozen=True, kw_only=True):
    """A token with its secret, which is shown this once and kept nowhere."""

    token: Token
    secret: str


class Tokens(_Shape, frozen=True, kw_only=True):
    tokens: tuple[Token, ...]


class AuditEntry(_Shape, frozen=True, kw_only=True):
    id: int
    at: str
    organization: str
    user: str
    action: str
    outcome: str
    subject: str | None = None
    detail: dict[str, Any] = {}

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
            detail=entry.detail,
        )


class Audit(_Shape, frozen=True, kw_only=True):
    entries: tuple[AuditEntry, ...]
    next: int | None
    """The `before` of the next page; null on the last one."""


class Me(_Shape, frozen=True, kw_only=True):
    """Who is calling."""

    organization: str
    user: str
    role: PrincipalRole


class SignInLink(_Shape, frozen=True, kw_only=True):
    url: str
    """Opens the page signed in, once."""


class Health(_Shape, frozen=True, kw_only=True):
    status: Literal["ok"]
    version: str


class Context(_Shape, frozen=True, kw_only=True):
    """Who can answer an instruction, or what the work can be about."""

    id: str
    name: str
    model: str | None = None
    repository: str | None = None


class Contexts(_Shape, frozen=True, kw_only=True):
    """The contexts that a request can name."""

    agents: tuple[Context, ...]
    conversations: tuple[Context, ...]

    @classmethod
    def of(cls, contexts: contexts.Contexts) -> Contexts:
        return cls(
            agents=tuple(
                Context(id=each.id, name=each.name, model=each.model, repository=each.repository)
                for each in contexts.agents.values()
            ),
            conversations=tuple(
                Context(id=each.id, name=each.name, repository=each.repository)
                for each in contexts.conversations.values()
            ),
        )


class Problem(_Shape, frozen=True, kw_only=True):
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


def _moment(moment: datetime | None) -> str | None:
    return None if moment is None else iso(moment)


PUBLISHED = (
    *(Repo, Message, Session, Turn, TurnSummary, Compaction, Delta, Changes, ChangedSessions, SessionPage),
    *(MessagePage, Repos, Turns, Accepted, QuestionSet, QuestionSets, ChangedQuestions, Token, NewToken),
    *(RenderedTexts, Compactions, Contexts, ExecuteResponse, SummaryPage, Replay, Found, Indexed),
    *(Compacted, Agent, Agents, Tokens, AuditEntry, Audit, Me, SignInLink, Health, Problem),
)
"""The shapes that the OpenAPI document names."""
