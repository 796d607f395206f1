"""Asking for a summary. A summariser is any async callable that takes a request and gives a text."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import TypeAlias

import msgspec

from holdfast.compaction.items import is_note
from holdfast.compaction.tool_results import OUTPUT_LIMIT, cut_in_the_middle
from holdfast.model.content import CompactionContent, ThoughtContent, ToolContent
from holdfast.model.message import Message, Role
from holdfast.model.tokens import TokenCounter, shown_text

PARAGRAPH = 2
"""Tokens between two texts."""


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

    def stretches(self, room: int) -> list[str]:
        """The transcript in as few pieces as fit into so many tokens each."""
        return in_stretches([_line(message) for message in self.messages], room, self.counter)


def in_stretches(texts: Sequence[str], room: int, counter: TokenCounter) -> list[str]:
    """Texts joined as long as they fit; one that is too long by itself is cut into pieces."""
    stretches: list[list[str]] = []
    left = 0
    for text in (piece for whole in texts for piece in _pieces(whole, room, counter)):
        tokens = counter.count(text) + PARAGRAPH
        if not stretches or tokens > left:
            stretches.append([])
            left = room
        stretches[-1].append(text)
        left -= tokens
    return ["\n\n".join(each) for each in stretches]


def _pieces(text: str, room: int, counter: TokenCounter) -> Iterator[str]:
    tokens = counter.count(text) + PARAGRAPH
    length = len(text) if tokens <= room else max(1, len(text) * room // (2 * tokens))
    return (text[start : start + length] for start in range(0, len(text), length or 1))


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
