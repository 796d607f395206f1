"""What an agent is told of a session that it does not remember itself.

The transcript goes in front of the first prompt: what a model would be shown of the session, with
summaries in the place of what was folded, the latest of it as far as there is room. It is made from
what is stored alone, so whoever knows its origin can make it again.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import msgspec

from holdfast.compaction.items import is_note
from holdfast.compaction.layout import chain_in_effect
from holdfast.compaction.tokens import EstimatingCounter
from holdfast.compaction.views import read_view
from holdfast.model.content import CompactionContent, PlanContent, TextContent, ToolContent
from holdfast.model.ids import CompactionId
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
    compaction_id: CompactionId | None = None
    """The compaction in effect, whose summaries stand in it."""

    @property
    def origin(self) -> dict[str, Any]:
        """What it was made from."""
        compaction = {"compactionId": self.compaction_id} if self.compaction_id else {}
        return {"firstSeq": self.first_seq, "lastSeq": self.last_seq, **compaction}


class _Shown(msgspec.Struct, frozen=True):
    """A message of the transcript, and which stored messages it stands for."""

    message: Message
    first_seq: int
    last_seq: int


async def make_primer(store: Store, ref: SessionRef, *, room: int = ROOM) -> Primer | None:
    """The transcript of a session; None when nothing has been said in it."""
    lines: list[str] = []
    first = last = 0
    _, outlines = await store.compaction_outlines(ref)
    chain = chain_in_effect(outlines)
    compaction = chain[-1].id if chain else None
    async with aclosing(_newest_first(store, ref, compaction)) as shown:
        async for each in shown:
            line = _line(each.message)
            room -= len(line)
            if room < 0:
                break
            first, last = each.first_seq, last or each.last_seq
            if line:
                lines.append(line)
    if not lines:
        return None
    return Primer("\n\n".join([OPENING, *reversed(lines), "---"]), first, last, compaction)


async def _newest_first(
    store: Store, ref: SessionRef, compaction: CompactionId | None
) -> AsyncGenerator[_Shown]:
    """What a compaction leaves of a session, the last first; without one, all of it, read as it is needed."""
    if compaction is not None:
        view = await read_view(store, ref, EstimatingCounter(), at=compaction)
        for item in reversed([item for item in view.items if item.ranges]):
            yield _Shown(item.message, item.ranges[0][0], item.ranges[-1][1])
        return
    before: int | None = None
    while page := await store.get_history(ref, HistoryOptions(limit=PAGE, before=before)):
        for message in reversed(page.messages):
            yield _Shown(message, message.seq, message.seq)
        before = page.older
        if before is None:
            return


def _line(message: Message) -> str:
    match message.content:
        case TextContent(text=text) if text and message.role in ("user", "agent") and not is_note(message):
            return f"{message.role.value}: {text}"
        case ToolContent() as tool:
            return f"tool: {tool.title or tool.tool} ({tool.status or 'completed'})"
        case CompactionContent(summary=summary):
            return f"summary of what was said before: {summary}"
        case PlanContent(steps=steps):
            return "plan: " + "; ".join(_step(step) for step in steps)
    return ""


def _step(step: object) -> str:
    return f"{step.get('content')} ({step.get('status')})" if isinstance(step, dict) else str(step)
