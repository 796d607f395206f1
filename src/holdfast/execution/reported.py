"""What a model reported to have taken in, beside what we count of what it was sent."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from holdfast.blobs import Blobs, blob_id_of
from holdfast.compaction.background import Report
from holdfast.model.session import Session
from holdfast.model.tokens import MESSAGE_OVERHEAD, TokenCounter
from holdfast.model.turn import Turn


def report_of(blobs: Blobs, session: Session, turn: Turn) -> Report:
    """The counted and the reported tokens of a turn's request; None where they cannot be compared."""

    async def report(counter: TokenCounter) -> tuple[int, int] | None:
        blob = blob_id_of(turn.openai_request_payload_url or "")
        if blob is None or not turn.usage.input:
            return None
        request = await blobs.get(session.organization, blob)
        counted = await asyncio.to_thread(counted_tokens, request, counter)
        return None if counted is None else (counted, turn.usage.input)

    return report


def counted_tokens(request: bytes, counter: TokenCounter) -> int | None:
    """What a request is by our count; None of one that is not all text, or goes on from an earlier one."""
    body: dict[str, Any] = msgspec.json.decode(request)
    items = body["input"]
    if "previous_response_id" in body or not all("content" in item for item in items):
        return None
    texts = [part["text"] for item in items for part in item["content"]]
    tools = msgspec.json.encode(body.get("tools", [])).decode()
    around = [body.get("instructions", ""), tools if body.get("tools") else ""]
    return sum(map(counter.count, [*texts, *around])) + MESSAGE_OVERHEAD * len(items)
