"""What a model was sent of a session, counted by us and as the model reported.

A turn that a model answered is told again with the files and chunks that were sent for it
(`history`), and so takes more of the window than the words that were typed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import msgspec

from holdfast.blobs import BlobNotFound, Blobs, blob_id_of
from holdfast.compaction.background import Report
from holdfast.compaction.views import Weigh
from holdfast.execution.request import own_item
from holdfast.model.message import Message, Role
from holdfast.model.session import Session
from holdfast.model.tokens import MESSAGE_OVERHEAD, TokenCounter
from holdfast.model.turn import Turn
from holdfast.store.store import Store


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


def weighed_as_sent(store: Store, blobs: Blobs, session: Session) -> Weigh:
    """A person's words with the tokens of the whole part that was sent with them."""

    async def weigh(messages: Sequence[Message], counter: TokenCounter) -> Sequence[Message]:
        turns = {each.id: each async for each in store.every_turn(session.id) if _sent_more(each)}
        weighed = list(messages)
        for place, message in enumerate(messages):
            turn = turns.get(message.turn_id) if message.turn_id else None
            blob = blob_id_of(turn.openai_request_payload_url or "") if turn else None
            if blob is not None and message.role is Role.USER:
                with suppress(BlobNotFound):  # then it cannot be sent again either
                    request = await blobs.get(session.organization, blob)
                    tokens = await asyncio.to_thread(_own_tokens, request, counter)
                    weighed[place] = msgspec.structs.replace(message, token_count=tokens)
        return weighed

    return weigh


def _sent_more(turn: Turn) -> bool:
    return turn.recipe is not None and bool(turn.active_file_refs or turn.chunk_refs)


def _own_tokens(request: bytes, counter: TokenCounter) -> int:
    return sum(counter.count(part["text"]) for part in own_item(request)["content"]) + MESSAGE_OVERHEAD


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
