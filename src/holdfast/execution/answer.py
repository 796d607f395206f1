"""What a caller is given for an instruction: the answer with its sources, or why there is none."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from holdfast.blobs import Blobs, blob_id_of
from holdfast.execution.bundle import FileBundle, find_bundle
from holdfast.model.ids import SessionId, TurnId
from holdfast.model.session import Session
from holdfast.model.turn import ChunkRef, Turn, TurnStatus
from holdfast.model.usage import TokenUsage


class AnswerKind(StrEnum):
    ANSWER = "answer"
    ERROR = "error"


class ExecuteResponse(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The answer to an instruction, whole, or the error that its turn ended with."""

    kind: AnswerKind
    text: str
    """The full answer; empty where there is none."""
    sources: tuple[ChunkRef, ...]
    """Every chunk that the model was given with this instruction."""
    file_bundle: FileBundle | None = None
    """The changes to files that the answer asks for."""
    warnings: tuple[str, ...]
    error_code: str | None = None
    error_message: str | None = None
    session_id: SessionId
    turn_id: TurnId
    usage: TokenUsage


async def response_of(blobs: Blobs, session: Session, turn: Turn, text: str | None = None) -> ExecuteResponse:
    """What an ended turn gave; `text` is its answer where that is at hand."""
    if turn.status is not TurnStatus.COMPLETED:
        return ExecuteResponse(
            kind=AnswerKind.ERROR,
            text="",
            sources=turn.chunk_refs,
            warnings=turn.warnings,
            error_code=turn.stop_reason or "error",
            error_message=" ".join(turn.errors),
            session_id=session.id,
            turn_id=turn.id,
            usage=turn.usage,
        )
    if text is None:
        blob = blob_id_of(turn.full_agent_answer_url) if turn.full_agent_answer_url else None
        text = (await blobs.get(session.organization, blob)).decode() if blob else turn.agent_answer_summary
    bundle = find_bundle(text or "")
    return ExecuteResponse(
        kind=AnswerKind.ANSWER,
        text=text or "",
        sources=turn.chunk_refs,
        file_bundle=bundle,
        warnings=turn.warnings,
        session_id=session.id,
        turn_id=turn.id,
        usage=turn.usage,
    )
