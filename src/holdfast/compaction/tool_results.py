"""The results of tools in a view, and shorter forms of them.

A result is a message that answers a call, or the one message in which an ACP agent reports a call
with everything that came of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Any

import msgspec

from holdfast.compaction.items import SYNTHETIC, Atom, Item
from holdfast.compaction.plan import Replacement
from holdfast.model.content import Content, TextContent, ToolContent
from holdfast.model.message import Message, Role
from holdfast.model.tokens import MESSAGE_OVERHEAD, TokenCounter, message_tokens

OUTPUT_LIMIT = 2_000
"""Characters of a tool's output that a summariser is shown."""

_USER = Role.USER


class ToolResult(msgspec.Struct, frozen=True, gc=False):
    item: Item
    tool: str


def results_of(atoms: Iterable[Atom]) -> list[ToolResult]:
    """The results that may be shortened, in the order in which they came."""
    found: list[ToolResult] = []
    tools: dict[str, str] = {}
    for atom in atoms:
        if atom.fixed:
            continue
        for item in atom.items:
            message = item.message
            if message.tool_calls:  # the first of its atom
                tools = {call.id: call.name for call in message.tool_calls}
            elif message.tool_call_id is not None:
                if item.kind is not SYNTHETIC:
                    found.append(ToolResult(item, tools.get(message.tool_call_id, "")))
            elif message.role is not _USER and message.content_type == "tool":
                content = message.content
                if isinstance(content, ToolContent):
                    found.append(ToolResult(item, content.tool))
    found.sort(key=_place)
    return found


def older_results(results: Sequence[ToolResult], keep: int, exclude: Sequence[str]) -> list[ToolResult]:
    """The results without the latest `keep` and those of excluded tools."""
    return [result for result in results[: max(0, len(results) - keep)] if result.tool not in exclude]


def shortened(
    result: ToolResult, max_chars: int, head: int, tail: int, counter: TokenCounter
) -> Replacement | None:
    """The result with its middle left out; None where it is short enough, or would not become smaller."""
    message = result.item.message
    if len(message.content_json) <= max_chars:  # its JSON is never shorter than its text
        return None
    text = _output(message.content)
    if len(text) <= max_chars:
        return None
    shown = _without_middle(text, head, tail)
    return _replacement(result, shown, counter.count(shown), counter)


def cut_in_the_middle(text: str, limit: int) -> str:
    """The text, or its beginning and end where it is longer than the limit."""
    return text if len(text) <= limit else _without_middle(text, limit // 2, limit // 2)


def cleared(
    results: Sequence[ToolResult], placeholder: str, counter: TokenCounter
) -> list[tuple[ToolResult, Replacement]]:
    """The results with the placeholder in their place, where that is smaller."""
    tokens = counter.count(placeholder)
    return [
        (result, replacement)
        for result in results
        if (replacement := _replacement(result, placeholder, tokens, counter))
    ]


def _without_middle(text: str, head: int, tail: int) -> str:
    note = f"\n[… {len(text) - head - tail:,} characters are left out here; the original is stored …]\n"
    return text[:head] + note + text[len(text) - tail :]


def _output(content: Content) -> str:
    match content:
        case TextContent(text=text):
            return text
        case ToolContent(result=None, content=shown):
            return _text(shown) if shown else ""
        case ToolContent(result=result):
            return _text(result)
        case other:
            raw = getattr(other, "json", None)
            return (raw if raw is not None else msgspec.json.encode(other)).decode()


def _text(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _replacement(
    result: ToolResult, text: str, text_tokens: int, counter: TokenCounter
) -> Replacement | None:
    message = result.item.message
    if message.tool_call_id is None and isinstance(content := message.content, ToolContent):
        shown = Message.of(message.role, msgspec.structs.replace(content, result=text, content=()))
        tokens = message_tokens(shown, counter)
        replaced: dict[str, Any] = msgspec.json.decode(shown.content_json)
    else:
        tokens = text_tokens + MESSAGE_OVERHEAD
        replaced = {"type": "text", "text": text}
    if tokens >= result.item.tokens:
        return None
    return Replacement(seq=message.seq, content=replaced, tokens=tokens)


_place = attrgetter("item.message.seq")
