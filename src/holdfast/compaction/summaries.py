"""Asking for a summary. A summariser is any async callable that takes a request and gives a text."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

import msgspec

from holdfast.compaction.items import is_note
from holdfast.compaction.tool_results import OUTPUT_LIMIT, cut_in_the_middle
from holdfast.model.content import CompactionContent, ThoughtContent, ToolContent
from holdfast.model.message import Message, Role
from holdfast.model.tokens import TokenCounter, shown_text


class SummaryRequest(msgspec.Struct, frozen=True, kw_only=True):
    messages: tuple[Message, ...]
    """What is to be summarised, as it is shown; summaries of earlier messages among it."""
    max_tokens: int
    counter: TokenCounter
    instructions: str | None = None

    def transcript(self) -> str:
        """The messages for a model to read. Long output of tools is cut: the model is asked what it
        means, not what it says."""
        return "\n\n".join(_line(message) for message in self.messages)


Summarizer: TypeAlias = Callable[[SummaryRequest], Awaitable[str]]


def _line(message: Message) -> str:
    calls = "".join(
        f"\n[calls {call.name} {cut_in_the_middle(_json(call.arguments), OUTPUT_LIMIT)}]"
        for call in message.tool_calls
    )
    match message.content:
        case CompactionContent(summary=summary):
            return f"summary of what came before:\n{summary}"
        case ThoughtContent(text=text):
            return f"{message.role.value} (thinking): {text}{calls}"
        case ToolContent() as tool:
            result = tool.result if tool.result is not None else tool.content
            said = cut_in_the_middle(_json(result), OUTPUT_LIMIT)
            return f"tool {tool.title or tool.tool} {_json(tool.args)} ({tool.status or 'completed'}): {said}"
        case _:
            text = shown_text(message)
            role = Role.TOOL if is_note(message) else message.role
            if role is Role.TOOL:
                text = cut_in_the_middle(text, OUTPUT_LIMIT)
            return f"{role.value}: {text}{calls}"


def _json(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
