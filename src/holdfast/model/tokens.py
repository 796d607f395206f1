"""What a message costs in a model's window.

Counting is somebody else's (a tokenizer, or an estimate); what is counted is decided here, so that
a count made when a message was appended and one made later agree.
"""

from __future__ import annotations

from typing import Any, Protocol

import msgspec

from holdfast.model.content import (
    CompactionContent,
    JsonContent,
    ResourceContent,
    TextContent,
    ThoughtContent,
    ToolContent,
)
from holdfast.model.message import Message

MESSAGE_OVERHEAD = 4
"""Tokens around every message: its role and its delimiters."""

MEDIA_TOKENS = 1000
"""What a picture or a sound counts. Its bytes are not text, and no model prices them as such."""

_MEDIA = frozenset({"image", "audio", "input_image", "input_audio"})


class TokenCounter(Protocol):
    @property
    def name(self) -> str:
        """The tokenizer, as it is recorded with what was counted."""

    def count(self, text: str) -> int: ...


def message_tokens(message: Message, counter: TokenCounter) -> int:
    """What the message costs: as it was counted when it was stored, or counted now."""
    if message.token_count is not None:
        return message.token_count
    text, media = _counted(message)
    return counter.count(text) + media + MESSAGE_OVERHEAD


def with_tokens(message: Message, counter: TokenCounter) -> Message:
    """The message with its count. One that has a count, or of which more is expected, stays as it is."""
    if message.token_count is not None or message.open:
        return message
    return msgspec.structs.replace(
        message, token_count=message_tokens(message, counter), tokenizer=counter.name
    )


def shown_text(message: Message) -> str:
    """What a model reads of a message, apart from the tools that it calls."""
    match message.content:
        case TextContent(text=text) | ThoughtContent(text=text):
            return text
        case CompactionContent(summary=summary):
            return summary
        case _:
            return bytes(message.content_json).decode()


def _counted(message: Message) -> tuple[str, int]:
    """The text to count, and the tokens of what is not text."""
    content = message.content
    text, media = shown_text(message), 0
    if isinstance(content, ResourceContent) and content.blob:
        text, media = content.uri, MEDIA_TOKENS
    elif isinstance(content, JsonContent) and _is_media(content):
        text, media = "", MEDIA_TOKENS
    elif isinstance(content, ToolContent) and content.result is not None and content.content:
        # An agent reports its output twice, once to be read by a model and once to be shown.
        text = msgspec.json.encode(msgspec.structs.replace(content, content=())).decode()
    if message.tool_calls:
        text += msgspec.json.encode(message.tool_calls).decode()
    return text, media


def _is_media(content: JsonContent) -> bool:
    value: Any = content.value
    return isinstance(value, dict) and value.get("type") in _MEDIA
