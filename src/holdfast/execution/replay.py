"""Making a request again from what its turn refers to, to see that it is the one that was sent.

Instruction, files, chunks and parameters are found by their hashes; what was said before comes from
the earlier turns. An answer is explained by the bytes that produced it when both are the same.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import msgspec

from holdfast.blobs import BlobDamaged, BlobNotFound, Blobs, blob_id_of
from holdfast.errors import NotFound
from holdfast.execution.history import History
from holdfast.execution.prompt import SentChunk, SentFile, user_item
from holdfast.execution.request import Parameters, encoded
from holdfast.model.ids import SessionId, TurnId
from holdfast.model.session import Session
from holdfast.model.turn import Recipe, Turn
from holdfast.store.store import Store


class Replay(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A request that was made again, and whether it is the one that was sent."""

    session_id: SessionId
    turn_id: TurnId
    identical: bool
    sent_hash: str
    """Of the request as it was sent and kept."""
    remade_hash: str | None
    """None when something it was made of is not to be had any more."""
    problem: str | None = None
    """What that is."""


async def replay(view: Store, blobs: Blobs, session_id: SessionId, turn_id: TurnId) -> Replay:
    session = await view.get_session(session_id)
    turn = await view.get_turn(session.id, turn_id)
    sent = blob_id_of(turn.openai_request_payload_url) if turn.openai_request_payload_url else None
    if turn.recipe is None or sent is None:
        raise NotFound(f"Turn {turn.id} was not sent to a model; there is no request to make again.")
    try:
        await blobs.get(session.organization, sent)
        remade = encoded(await _Remaking(view, blobs, session, turn, turn.recipe).body())
    except (BlobNotFound, BlobDamaged) as error:
        return Replay(
            session_id=session.id,
            turn_id=turn.id,
            identical=False,
            sent_hash=sent,
            remade_hash=None,
            problem=str(error),
        )
    remade_hash = sha256(remade).hexdigest()
    return Replay(
        session_id=session.id,
        turn_id=turn.id,
        identical=remade_hash == sent,
        sent_hash=sent,
        remade_hash=remade_hash,
    )


class _Remaking:
    def __init__(self, view: Store, blobs: Blobs, session: Session, turn: Turn, recipe: Recipe) -> None:
        self._view = view
        self._blobs = blobs
        self._session = session
        self._turn = turn
        self._recipe = recipe

    async def body(self) -> dict[str, Any]:
        turn, recipe = self._turn, self._recipe
        parameters = msgspec.json.decode(await self._get(recipe.parameters), type=Parameters)
        item = user_item(turn.mode, await self._instruction(), await self._files(), await self._chunks())
        if recipe.previous is not None:
            return parameters.body([item], recipe.previous)
        before = await History(self._view, self._blobs, self._session).before(turn, recipe)
        return parameters.body([*before, item], None)

    async def _instruction(self) -> str:
        blob = blob_id_of(self._turn.full_instruction_url or "")
        return (await self._get(blob)).decode() if blob else self._turn.instruction_summary

    async def _files(self) -> list[SentFile]:
        sent = [ref for ref in self._turn.active_file_refs if ref.was_sent_to_llm]
        return [
            SentFile(ref.path, ref.content_hash, (await self._get(ref.content_hash)).decode()) for ref in sent
        ]

    async def _chunks(self) -> list[SentChunk]:
        return [SentChunk(ref, (await self._get(ref.content_hash)).decode()) for ref in self._turn.chunk_refs]

    async def _get(self, blob: str) -> bytes:
        return await self._blobs.get(self._session.organization, blob)
