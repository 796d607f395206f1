"""Turns, and the contexts that instructions are executed in."""

from __future__ import annotations

import msgspec

from holdfast.execution import contexts
from holdfast.model import turn
from holdfast.model.times import iso
from holdfast.model.turn import ActiveFileRef, ChunkRef, Recipe, TurnStatus
from holdfast.model.usage import TokenUsage
from holdfast.server.shapes.shape import Shape, moment_text


class Turn(Shape, frozen=True, kw_only=True):
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
            openai_response_received_date=moment_text(turn.openai_response_received_at),
            openai_chain_expires_date=moment_text(turn.openai_chain_expires_at),
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


class TurnSummary(Shape, frozen=True, kw_only=True):
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


class Turns(Shape, frozen=True, kw_only=True):
    turns: tuple[Turn, ...]
    next: int | None
    """The `after` of the next page; null on the last one."""


class Accepted(Shape, frozen=True, kw_only=True):
    """A prompt that was stored and queued."""

    session_id: str
    turn: Turn


class Context(Shape, frozen=True, kw_only=True):
    """Who can answer an instruction, or what the work can be about."""

    id: str
    name: str
    model: str | None = None
    repository: str | None = None


class Contexts(Shape, frozen=True, kw_only=True):
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
