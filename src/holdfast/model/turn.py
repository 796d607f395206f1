"""One instruction and its answer: `pending`, then `completed` or `failed`, then never changed.

The fields are the same whether a model or an ACP agent answers. Summaries and URLs are plain
data here: whoever executes the turn stores the payloads and cuts the summaries.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

import msgspec

from holdfast.errors import TurnEnded
from holdfast.model.ids import CompactionId, SessionId, TurnId
from holdfast.model.text import readable, storable_fields
from holdfast.model.usage import TokenUsage

CHAT = "chat"
"""The mode of turns that a chat message opened and a function answers. Messages may join such a turn:
whoever runs it answers them when it has ended."""

SUMMARY_LENGTH = 1024
"""Characters of an instruction or an answer that its turn itself carries."""


class TurnStatus(StrEnum):
    PENDING = "pending"
    COMPLETED = "completed"
    FAILED = "failed"


class ChunkRef(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A piece of an indexed file that was given to the model."""

    chunk_id: str
    path: str
    start_line: int
    end_line: int
    content_hash: str


class ActiveFileRef(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A file the person was working on, as it was at the moment of the call."""

    path: str
    content_hash: str
    size_bytes: int
    is_touched: bool = False
    was_sent_to_llm: bool = msgspec.field(default=False, name="wasSentToLLM")
    was_too_large_to_send: bool = False


class Recipe(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """What a request to a model was made of, besides what its turn names itself: enough to make it again."""

    parameters: str
    """The blob with everything but the input: model, instructions, tools, limits."""
    provider: str
    """A fingerprint of the model's address, name and credentials: a chain goes on only with the same."""
    previous: str | None = None
    """The response that the request went on from; None when it held everything that was said before."""
    compaction: CompactionId | None = None
    """The compaction by which what was said before was shown."""
    rev: int | None = None
    """The session's revision at which it was read: an earlier turn that was answered later was not in it."""


class _Checked(msgspec.Struct, frozen=True, kw_only=True):
    def __post_init__(self) -> None:
        storable_fields(self)


class NewTurn(_Checked, frozen=True, kw_only=True):
    """What is known when an instruction is accepted."""

    instruction_summary: str
    id: TurnId | None = None
    """Given by the caller, it makes a repeated call harmless."""
    full_instruction_url: str | None = None
    created_by: str | None = None
    """The user who submitted it; the caller when none is given."""
    mode: str = "ask"
    conversation_id: str | None = None
    previous_openai_response_id: str | None = None
    openai_model: str | None = None
    openai_request_payload_url: str | None = None
    chunk_refs: tuple[ChunkRef, ...] = ()
    active_file_refs: tuple[ActiveFileRef, ...] = ()
    warnings: tuple[str, ...] = ()


class TurnProgress(_Checked, frozen=True, kw_only=True):
    """What becomes known while a turn is pending. Absent fields stay as they are."""

    openai_response_id: str | None = None
    previous_openai_response_id: str | None = None
    openai_model: str | None = None
    openai_request_payload_url: str | None = None
    conversation_id: str | None = None
    recipe: Recipe | None = None
    chunk_refs: tuple[ChunkRef, ...] | None = None
    active_file_refs: tuple[ActiveFileRef, ...] | None = None
    warnings: tuple[str, ...] = ()
    """Appended to those already there."""


class TurnAnswer(_Checked, frozen=True, kw_only=True):
    """How a turn was completed."""

    agent_answer_summary: str
    full_agent_answer_url: str | None = None
    openai_response_id: str | None = None
    openai_response_received_at: datetime | None = None
    openai_chain_expires_at: datetime | None = None
    openai_response_payload_url: str | None = None
    warnings: tuple[str, ...] = ()
    usage: TokenUsage = TokenUsage()
    stop_reason: str | None = None


class TurnFailure(_Checked, frozen=True, kw_only=True):
    """How a turn failed. There is no answer in it: a failed turn has none."""

    errors: tuple[str, ...]
    """Whatever is in them, the turn can be ended: what cannot be stored is replaced."""
    openai_response_id: str | None = None
    openai_response_received_at: datetime | None = None
    openai_chain_expires_at: datetime | None = None
    openai_response_payload_url: str | None = None
    warnings: tuple[str, ...] = ()
    usage: TokenUsage = TokenUsage()
    stop_reason: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        msgspec.structs.force_setattr(self, "errors", tuple(readable(error) for error in self.errors))


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    id: TurnId
    session_id: SessionId
    sequence_number: int
    """From 1, increasing by one, without gaps."""
    rev: int
    status: TurnStatus
    created_by: str
    created_at: datetime
    status_at: datetime
    """When the status last changed."""
    openai_response_received_at: datetime | None
    openai_chain_expires_at: datetime | None
    mode: str
    conversation_id: str | None
    openai_response_id: str | None
    previous_openai_response_id: str | None
    openai_model: str | None
    instruction_summary: str
    full_instruction_url: str | None
    agent_answer_summary: str | None
    full_agent_answer_url: str | None
    openai_request_payload_url: str | None
    openai_response_payload_url: str | None
    chunk_refs: tuple[ChunkRef, ...]
    active_file_refs: tuple[ActiveFileRef, ...]
    warnings: tuple[str, ...]
    errors: tuple[str, ...]
    usage: TokenUsage
    stop_reason: str | None
    recipe: Recipe | None = None
    """Of a request to a model."""


def summary(text: str) -> str:
    """The beginning of a text, as far as a turn carries it."""
    return text if len(text) <= SUMMARY_LENGTH else text[: SUMMARY_LENGTH - 1] + "…"


def require_pending(turn_id: str, status: TurnStatus) -> None:
    """The one rule of a turn's life: only a pending turn changes."""
    if status is not TurnStatus.PENDING:
        raise TurnEnded(turn_id, status)


def ending_moment(end: TurnAnswer | TurnFailure, now: datetime) -> datetime:
    """The status time of an ended turn: when the answer or the failure was seen."""
    return end.openai_response_received_at or now
