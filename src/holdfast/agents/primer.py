"""What an agent is told of a session that it does not remember itself.

The transcript goes in front of the first prompt. It is made from the stored messages alone, the
latest ones as far as there is room, so whoever knows the range of messages can make it again.
"""

from __future__ import annotations

import msgspec

from holdfast.model.content import PlanContent, TextContent, ToolContent
from holdfast.model.message import Message
from holdfast.model.session import SessionRef
from holdfast.store.options import HistoryOptions
from holdfast.store.store import Store

ROOM = 60_000
"""Characters of transcript: what every model's context has room for, beside the work itself."""

PAGE = 200

OPENING = (
    "This session was interrupted, and you start again without your memory of it. What follows, up to "
    "the line of dashes, is the transcript of the session so far. Do not answer it; go on from there."
)


class Primer(msgspec.Struct, frozen=True):
    text: str
    first_seq: int
    last_seq: int


async def make_primer(store: Store, ref: SessionRef, *, room: int = ROOM) -> Primer | None:
    """The transcript of a session; None when nothing has been said in it."""
    lines: list[str] = []
    first = last = 0
    before: int | None = None
    while room > 0:
        page = await store.get_history(ref, HistoryOptions(limit=PAGE, before=before))
        for message in reversed(page.messages):
            line = _line(message)
            room -= len(line)
            if room < 0:
                break
            first, last = message.seq, last or message.seq
            if line:
                lines.append(line)
        before = page.older
        if before is None:
            break
    if not lines:
        return None
    return Primer("\n\n".join([OPENING, *reversed(lines), "---"]), first, last)


def _line(message: Message) -> str:
    match message.content:
        case TextContent(text=text) if text and message.role in ("user", "agent"):
            return f"{message.role.value}: {text}"
        case ToolContent() as tool:
            return f"tool: {tool.title or tool.tool} ({tool.status or 'completed'})"
        case PlanContent(steps=steps):
            return "plan: " + "; ".join(_step(step) for step in steps)
    return ""


def _step(step: object) -> str:
    return f"{step.get('content')} ({step.get('status')})" if isinstance(step, dict) else str(step)
