"""What is said in a session."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.model import message as messages
from holdfast.model.message import Role, ToolCall
from holdfast.model.times import iso
from holdfast.server.shapes.shape import Shape


class Message(Shape, frozen=True, kw_only=True):
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
    metadata: dict[str, Any] = msgspec.field(default_factory=dict)

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


class MessagePage(Shape, frozen=True, kw_only=True):
    messages: tuple[Message, ...]
    next: int | None
    """The `after` of the next page, or the `before` when pages go backwards; null on the last one."""


class Delta(Shape, frozen=True, kw_only=True):
    """Text added to the end of a streaming message; to be ignored when the message is at `rev` already."""

    message_id: str
    rev: int
    text: str


class RenderedTexts(Shape, frozen=True, kw_only=True):
    """HTML that is safe to show."""

    html: tuple[str, ...]
