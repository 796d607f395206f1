"""One turn on its way from an instruction to an answer.

Files and chunks are looked up at the same time, the request is made, kept and sent, the answer is
stored as it comes. Blobs are put before the row that names them, several at once. The turn's row
says how far it has come, which the change feed carries; each step is told and is a span.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import msgspec

from holdfast.blobs import BlobId, Blobs, blob_url
from holdfast.blobs.address import blob_id
from holdfast.execution.chain import Chain, find_chain
from holdfast.execution.completing import complete, keep_answer
from holdfast.execution.errors import ChainLost
from holdfast.execution.events import Stage, StageReached, Tell
from holdfast.execution.files import MAX_FILE_BYTES, FileAnalysis, analyse
from holdfast.execution.history import History
from holdfast.execution.input import ExecutionInput
from holdfast.execution.prompt import SentChunk, user_item
from holdfast.execution.request import Parameters, encoded
from holdfast.execution.responses import ModelAnswer, Provider
from holdfast.execution.voice import Voice
from holdfast.model.session import Session
from holdfast.model.status import require_live
from holdfast.model.times import iso
from holdfast.model.turn import Recipe, Turn, TurnProgress
from holdfast.retrieval import Retrieval, SearchFilter
from holdfast.retrieval.retrieval import MOST
from holdfast.store.store import Store
from holdfast.telemetry import span

CHUNKS = 8
"""How many chunks are sent with an instruction."""

CHAIN_DAYS = 30.0


class ExecutionLimits(msgspec.Struct, frozen=True, kw_only=True):
    chunks: int = CHUNKS
    max_file_bytes: int = MAX_FILE_BYTES
    chain_days: float = CHAIN_DAYS
    """How long a provider keeps a response."""

    @property
    def kept_for(self) -> timedelta:
        return timedelta(days=self.chain_days)


class Execution(msgspec.Struct, kw_only=True, eq=False):
    store: Store
    """The caller's view, under the turn's lease."""
    blobs: Blobs
    retrieval: Retrieval | None
    provider: Provider
    limits: ExecutionLimits
    clock: Callable[[], datetime]
    asked: ExecutionInput
    session: Session
    turn: Turn
    parameters: Parameters
    wanted: SearchFilter
    read: Callable[[str], bytes | str]
    """A file that the client named without its content, or why it is not to be had."""
    tell: Tell

    async def run(self) -> tuple[Turn, str]:
        """The completed turn, and the whole answer."""
        self.session = await self.store.get_session(self.session.id)  # as it is now that its turn has come
        require_live(self.session.status)
        self.reached(Stage.TURN_EXECUTION_STARTED)
        fingerprint = self.provider.fingerprint(self.parameters.model)
        chain = await find_chain(
            self.store,
            self.session,
            self.turn,
            fingerprint,
            chains=self.provider.chains,
            now=self.clock(),
        )
        files, (chunks, warnings) = await asyncio.gather(self._files(chain), self._chunks(chain))
        known = TurnProgress(
            active_file_refs=files.refs,
            chunk_refs=tuple(chunk.ref for chunk in chunks),
            openai_model=self.parameters.model,
            warnings=(*((chain.warning,) if chain.warning else ()), *files.warnings, *warnings),
        )
        parameters = self.parameters.encoded()
        recipe = Recipe(
            parameters=blob_id(parameters),
            provider=fingerprint,
            previous=chain.previous_response_id,
            compaction=chain.compaction,
            rev=self.session.rev,
        )
        item = user_item(self.asked.mode, self.asked.instruction, files.sent, chunks)
        texts = [*(file.text for file in files.sent), *(chunk.text for chunk in chunks)]
        parts = [parameters, *(text.encode() for text in texts)]
        voice = Voice(self.store, self.session, self.turn, self.tell)
        try:
            answer = await self._ask(_Request(chain, recipe, item, parts, known), voice)
            kept, _ = await asyncio.gather(
                keep_answer(self.blobs, self.session, answer), voice.finish(answer.text)
            )
        finally:
            await asyncio.shield(voice.end())
        ended = await complete(
            self.store,
            self.session,
            self.turn,
            answer,
            kept,
            received=self.clock(),
            kept_for=self.limits.kept_for if self.provider.chains else None,
        )
        return ended, answer.text

    async def _files(self, chain: Chain) -> FileAnalysis:
        with span("execution.files"):
            found = await asyncio.to_thread(
                analyse, self.asked.active_files, chain.files, self.read, limit=self.limits.max_file_bytes
            )
        self.reached(Stage.FILES_ANALYSED, f"{len(found.refs)} files, {len(found.sent)} to send")
        return found

    async def _chunks(self, chain: Chain) -> tuple[list[SentChunk], tuple[str, ...]]:
        """What retrieval finds for the instruction and the chain has not seen, and what it warns of."""
        if self.retrieval is None:
            return [], ()
        self.reached(Stage.RAG_STARTED)
        seen = chain.chunks
        with span("execution.retrieval"):
            found = await self.retrieval.search(
                self.session.organization,
                self.asked.instruction,
                self.wanted,
                limit=min(MOST, self.limits.chunks + len(seen)),
            )
        new = [each for each in found.chunks if (each.id, each.content_hash) not in seen]
        chosen = [SentChunk(each.ref, each.text) for each in new[: self.limits.chunks]]
        self.reached(Stage.RAG_COMPLETED, f"{len(chosen)} chunks")
        return chosen, found.warnings

    async def _ask(self, request: _Request, voice: Voice) -> ModelAnswer:
        """The model's answer. A chain that the provider has lost is rebuilt from our own history, once."""
        if request.recipe.previous is not None:
            try:
                return await self._send([request.item], request, voice)
            except ChainLost as error:
                self.reached(Stage.CHAIN_REBUILT, str(error))
                request = request.rebuilt(str(error))
        history = History(self.store, self.blobs, self.session)
        before = await history.before(self.turn, request.recipe)
        return await self._send([*before, request.item], request, voice)

    async def _send(self, items: list[dict[str, Any]], request: _Request, voice: Voice) -> ModelAnswer:
        """Keep the request and what it was made of, say so in the turn, and send it."""
        recipe = request.recipe
        body = self.parameters.body(items, recipe.previous)
        payload, *_ = await asyncio.gather(*map(self._put, (encoded(body), *request.parts)))
        await self._progress(
            msgspec.structs.replace(
                request.known,
                openai_request_payload_url=blob_url(payload),
                conversation_id=request.chain.conversation_id if recipe.previous else self.turn.id,
                recipe=recipe,
            )
        )

        async def began(response_id: str) -> None:
            await self._progress(
                TurnProgress(openai_response_id=response_id, previous_openai_response_id=recipe.previous)
            )

        self.reached(Stage.LLM_STARTED)
        with span("execution.model"):
            answer = await self.provider.answer(body, began, voice.add)
        self.reached(Stage.LLM_COMPLETED)
        return answer

    async def _progress(self, known: TurnProgress) -> None:
        self.turn = await self.store.progress_turn(self.session.id, self.turn.id, known)

    async def _put(self, data: bytes) -> BlobId:
        return await self.blobs.put(self.session.organization, data)

    def reached(self, stage: Stage, message: str | None = None) -> None:
        now = self.clock()
        self.tell(
            StageReached(
                session_id=self.session.id,
                turn_id=self.turn.id,
                stage=stage,
                message=message,
                elapsed_ms=max(0, round((now - self.turn.created_at).total_seconds() * 1000)),
                timestamp=iso(now),
            )
        )


class _Request(msgspec.Struct, frozen=True):
    """Everything that a request is made of."""

    chain: Chain
    recipe: Recipe
    item: dict[str, Any]
    """The turn's own part of the input."""
    parts: list[bytes]
    """What the turn refers to by hash, and must be kept before it does."""
    known: TurnProgress

    def rebuilt(self, why: str) -> _Request:
        """The same, with everything that was said before in it."""
        warning = f"CHAIN_REBUILT: {why} Everything said before was sent again."
        return msgspec.structs.replace(
            self,
            recipe=msgspec.structs.replace(self.recipe, previous=None),
            known=TurnProgress(warnings=(warning,)),
        )
