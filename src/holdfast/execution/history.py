"""What was said in a session before a turn, as the input of a request.

A turn that a model answered gives the very parts that were sent for it, files and chunks included,
and the very items of its answer. What else was said is given as text. Turns that failed left no
answer to go on from and are left out, as the provider's own chain leaves them out; so is what a fork
took along of them.
"""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.blobs import Blobs, blob_id_of
from holdfast.compaction.items import is_note
from holdfast.compaction.tokens import default_counter
from holdfast.compaction.views import read_view
from holdfast.execution.prompt import plain_item
from holdfast.execution.request import own_item
from holdfast.model.content import CompactionContent, TextContent
from holdfast.model.ids import CompactionId, TurnId
from holdfast.model.message import Message, Role
from holdfast.model.session import Session
from holdfast.model.tokens import shown_text
from holdfast.model.turn import Recipe, Turn, TurnStatus
from holdfast.store.options import HistoryOptions
from holdfast.store.store import Store

PAGE = 1000


class History:
    def __init__(self, store: Store, blobs: Blobs, session: Session) -> None:
        self._store = store
        self._blobs = blobs
        self._session = session

    async def before(self, turn: Turn, recipe: Recipe) -> list[dict[str, Any]]:
        """The input that precedes a turn's own, as the recipe of its request says that it was read."""
        turns = {each.id: each async for each in self._store.every_turn(self._session.id)}
        messages = await self._messages(recipe.compaction)
        asked = next((message.seq for message in messages if message.turn_id == turn.id), None)
        items: list[dict[str, Any]] = []
        answered: set[TurnId] = set()
        for message in messages:
            its = turns.get(message.turn_id) if message.turn_id else None
            if its is None:
                if (asked is None or message.seq < asked) and not message.metadata.get("unanswered"):
                    items += plain(message)
            elif its.sequence_number < turn.sequence_number and _answered(its, recipe.rev):
                items += await self._of_turn(its, message, answered)
        return items

    async def _of_turn(self, turn: Turn, message: Message, answered: set[TurnId]) -> list[dict[str, Any]]:
        if turn.recipe is None or message.role not in (Role.USER, Role.AGENT) or is_note(message):
            return plain(message)
        if message.role is Role.USER:
            request = await self._payload(turn.openai_request_payload_url)
            return [own_item(request)] if request else plain(message)
        if turn.id in answered:
            return []
        answered.add(turn.id)
        response = await self._payload(turn.openai_response_payload_url)
        return answer_items(response) if response else plain(message)

    async def _messages(self, compaction: CompactionId | None) -> list[Message]:
        if compaction is not None:
            return (await read_view(self._store, self._session.id, default_counter(), at=compaction)).messages
        messages: list[Message] = []
        while page := await self._store.get_history(
            self._session.id, HistoryOptions(after=messages[-1].seq if messages else 0, limit=PAGE)
        ):
            messages += page
        return messages

    async def _payload(self, url: str | None) -> bytes | None:
        blob = blob_id_of(url) if url else None
        return await self._blobs.get(self._session.organization, blob) if blob else None


def _answered(turn: Turn, rev: int | None) -> bool:
    """Whether a turn had its answer when the session was at a revision."""
    return turn.status is TurnStatus.COMPLETED and (rev is None or turn.rev <= rev)


def answer_items(response: bytes) -> list[dict[str, Any]]:
    """The items of an answer that a later request may repeat.

    Their ids expire with the response and are left out; encrypted reasoning is kept, which is how it
    is given back. A tool call that nobody answered may not be repeated.
    """
    items: list[dict[str, Any]] = []
    for item in msgspec.json.decode(response).get("output", []):
        if item.get("type") == "message":
            texts = [part["text"] for part in item.get("content", []) if part.get("type") == "output_text"]
            if texts:
                items.append(plain_item("assistant", "".join(texts)))
        elif item.get("type") == "reasoning" and item.get("encrypted_content"):
            kept = {name: item[name] for name in ("type", "summary", "encrypted_content") if name in item}
            items.append(kept)
    return items


def plain(message: Message) -> list[dict[str, Any]]:
    content = message.content
    if isinstance(content, CompactionContent):
        return [plain_item("user", f"[SUMMARY OF WHAT WAS SAID BEFORE]\n{content.summary}")]
    if message.role not in (Role.USER, Role.AGENT) or not isinstance(content, TextContent):
        return []
    if is_note(message):
        return []
    text = shown_text(message)
    return [plain_item("user" if message.role is Role.USER else "assistant", text)] if text else []
