"""What is told about a turn while it runs."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import TypeAlias

import msgspec

from holdfast.model.ids import SessionId, TurnId


class Stage(StrEnum):
    SESSION_STARTED = "sessionStarted"
    TURN_CREATED = "turnCreated"
    TURN_EXECUTION_STARTED = "turnExecutionStarted"
    FILES_ANALYSED = "filesAnalysed"
    RAG_STARTED = "ragStarted"
    RAG_COMPLETED = "ragCompleted"
    LLM_STARTED = "llmStarted"
    LLM_COMPLETED = "llmCompleted"
    CHAIN_REBUILT = "chainRebuilt"
    TURN_COMPLETED = "turnCompleted"
    TURN_FAILED = "turnFailed"


class StageReached(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    session_id: SessionId
    turn_id: TurnId
    stage: Stage
    message: str | None = None
    elapsed_ms: int
    """Since the request was accepted."""
    timestamp: str


class TextAdded(msgspec.Struct, frozen=True):
    """A piece of the answer, which is stored by then."""

    text: str


ExecutionEvent: TypeAlias = StageReached | TextAdded
Tell: TypeAlias = Callable[[ExecutionEvent], None]
