"""One thing said or done inside a session.

A message keeps its content as the JSON it came with and types it when somebody looks
(`message.content`), because most readers only pass it on. `Message.user("hello")` is a message
to append; the store gives it its `id`, `seq`, `rev` and `timestamp`.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Any, Self

import msgspec

from holdfast.errors import InvalidInput
from holdfast.model.content import (
    MAX_DEPTH,
    Content,
    TextContent,
    checked_json,
    content_type,
    decode_content,
    encode_content,
    encode_json,
    interrupted,
    is_open,
)
from holdfast.model.ids import MessageId, TurnId
from holdfast.model.text import label
from holdfast.model.times import iso


class Role(StrEnum):
    USER = "user"
    AGENT = "agent"
    SYSTEM = "system"
    TOOL = "tool"

    @classmethod
    def _missing_(cls, value: object) -> Role | None:
        return cls.AGENT if value == "assistant" else None


class ToolCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call a model asked for; the message that answers it carries its id as `tool_call_id`."""

    id: str
    name: str
    arguments: Any = None


class Message(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    id: MessageId | None = None
    """Given by the caller, it makes a repeated append harmless; else the store makes one."""
    seq: int = 0
    """Its place in the session, from 1, without gaps. The order of messages is this and nothing else."""
    rev: int = 0
    """The session's revision at which this message last changed."""
    role: Role
    content_json: msgspec.Raw = msgspec.field(name="content")
    timestamp: datetime | None = None
    turn_id: TurnId | None = None
    token_count: int | None = None
    tokenizer: str | None = None
    """What counted the tokens; none where the caller did."""
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    metadata: dict[str, Any] = {}

    @classmethod
    def of(cls, role: Role | str, content: Content, **fields: Any) -> Self:
        try:
            role = Role(role)
        except ValueError:
            raise InvalidInput(f"{role!r} is not a role; it is one of user, agent, system, tool.") from None
        return cls(role=role, content_json=msgspec.Raw(encode_content(content)), **fields)

    @classmethod
    def user(cls, text: str, **fields: Any) -> Self:
        return cls.of(Role.USER, TextContent(text=text), **fields)

    @classmethod
    def agent(cls, text: str, *, partial: bool = False, **fields: Any) -> Self:
        return cls.of(Role.AGENT, TextContent(text=text, partial=partial), **fields)

    @classmethod
    def system(cls, text: str, **fields: Any) -> Self:
        return cls.of(Role.SYSTEM, TextContent(text=text), **fields)

    @property
    def content(self) -> Content:
        return decode_content(bytes(self.content_json))

    @property
    def content_type(self) -> str | None:
        """The kind that the content says it is; None of one that says nothing."""
        return content_type(self.content_json)

    @property
    def text(self) -> str:
        """The text of a text or thought; empty for every other kind."""
        return getattr(self.content, "text", None) or ""

    @property
    def open(self) -> bool:
        """Whether more of this message is expected."""
        return is_open(self.content_json)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Message) and _comparable(self) == _comparable(other)

    def __hash__(self) -> int:
        return hash((self.id, self.seq, self.rev))

    def __repr__(self) -> str:
        return f"Message(seq={self.seq}, role={self.role.value!r}, content={self.content!r}, id={self.id!r})"


def copied(message: Message, *, unanswered: bool = False) -> Message:
    """A message as a copy of its session has it: its own, final, and of no turn.

    What was said in a turn that nobody answered is marked: a model that goes on from the original is not
    shown it, and one that goes on from the copy must not be either.
    """
    content = message.content_json
    if message.open:
        content = msgspec.Raw(msgspec.json.encode(interrupted(msgspec.json.decode(content))))
    metadata = message.metadata | {"copiedFrom": message.id} | ({"unanswered": True} if unanswered else {})
    return msgspec.structs.replace(message, id=None, turn_id=None, content_json=content, metadata=metadata)


def message_body(message: Message, message_id: str, timestamp: datetime, turn_id: str | None) -> bytes:
    """The JSON that is stored: everything but `seq` and `rev`, which are columns and lead the wire form."""
    if message.tool_call_id is not None:
        label(message.tool_call_id, "tool call id")
    if message.token_count is not None and message.token_count < 0:
        raise InvalidInput("A token count cannot be negative.")
    body: dict[str, Any] = {
        "id": message_id,
        "role": message.role,
        "content": msgspec.Raw(checked_json(message.content_json, "content")),
        "timestamp": iso(timestamp),
    }
    if turn_id is not None:
        body["turnId"] = turn_id
    if message.token_count is not None:
        body["tokenCount"] = message.token_count
    if message.tokenizer is not None:
        body["tokenizer"] = message.tokenizer
    if message.tool_calls:
        body["toolCalls"] = message.tool_calls
    if message.tool_call_id is not None:
        body["toolCallId"] = message.tool_call_id
    if message.metadata:
        body["metadata"] = message.metadata
    return encode_json(body, "message", depth=MAX_DEPTH + 1)


def message_json(seq: int, rev: int, body: str) -> str:
    """The wire form of a stored message."""
    return f'{{"seq":{seq},"rev":{rev},{body[1:]}'


def read_back(body: bytes) -> Message:
    """The message that readers will find in a body, or why they could not read it."""
    try:
        return _decode(body)
    except (msgspec.DecodeError, RecursionError) as error:
        raise InvalidInput(f"The message cannot be stored as it is: {error}.") from None


_decode = msgspec.json.Decoder(Message).decode
_set = msgspec.structs.force_setattr


def message_from_row(seq: int, rev: int, body: str) -> Message:
    message = _decode(body)
    _set(message, "seq", seq)
    _set(message, "rev", rev)
    return message


def _comparable(message: Message) -> tuple[Any, ...]:
    values = [getattr(message, name) for name in message.__struct_fields__]
    return tuple(bytes(value) if isinstance(value, msgspec.Raw) else value for value in values)
