"""One turn on its way from an instruction to an answer.

Files and chunks are looked up, the request is made, kept and sent, the answer is stored as it comes.
Blobs are put before the row that names them. Every step is a change of the turn, seen on the change
feed, and a span.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Any

import msgspec

from holdfast.blobs import BlobId, Blobs, blob_url
from holdfast.execution.chain import Chain, find_chain
from holdfast.execution.completing import complete
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
        files = await self._files(chain)
        chunks = await self._chunks(chain)
        item = user_item(self.asked.mode, self.asked.instruction, files.sent, chunks)
        recipe = Recipe(
            parameters=await self._put(self.parameters.encoded()),
            provider=fingerprint,
            previous=chain.previous_response_id,
            compaction=chain.compaction,
        )
        voice = Voice(self.store, self.session, self.turn, self.tell)
        try:
            answer = await self._ask(chain, recipe, item, voice)
            await voice.finish(answer.text)
        finally:
            await asyncio.shield(voice.end())
        kept_for = self.limits.kept_for if self.provider.chains else None
        ended = await complete(
            self.store,
            self.blobs,
            self.session,
            self.turn,
            answer,
            received=self.clock(),
            kept_for=kept_for,
        )
        return ended, answer.text

    async def _files(self, chain: Chain) -> FileAnalysis:
        with span("execution.files"):
            found = await asyncio.to_thread(
                analyse, self.asked.active_files, chain.files, self.read, limit=self.limits.max_file_bytes
            )
            await self._keep(file.text for file in found.sent)
        warnings = (*((chain.warning,) if chain.warning else ()), *found.warnings)
        if found.refs or warnings:
            await self._progress(TurnProgress(active_file_refs=found.refs, warnings=warnings))
        self.reached(Stage.FILES_ANALYSED, f"{len(found.refs)} files, {len(found.sent)} sent")
        return found

    async def _chunks(self, chain: Chain) -> list[SentChunk]:
        """What retrieval finds for the instruction and the chain has not seen."""
        if self.retrieval is None:
            return []
        self.reached(Stage.RAG_STARTED)
        with span("execution.retrieval"):
            seen = chain.chunks
            found = await self.retrieval.search(
                self.session.organization,
                self.asked.instruction,
                self.wanted,
                limit=min(MOST, self.limits.chunks + len(seen)),
            )
            new = [each for each in found.chunks if (each.id, each.content_hash) not in seen]
            chosen = [SentChunk(each.ref, each.text) for each in new[: self.limits.chunks]]
            await self._keep(chunk.text for chunk in chosen)
        if chosen or found.warnings:
            refs = tuple(chunk.ref for chunk in chosen)
            await self._progress(TurnProgress(chunk_refs=refs, warnings=found.warnings))
        self.reached(Stage.RAG_COMPLETED, f"{len(chosen)} chunks")
        return chosen

    async def _ask(self, chain: Chain, recipe: Recipe, item: dict[str, Any], voice: Voice) -> ModelAnswer:
        """The model's answer. A chain that the provider has lost is rebuilt from our own history, once."""
        conversation = chain.conversation_id or self.turn.id
        if recipe.previous is not None:
            try:
                return await self._send([item], recipe, conversation, voice)
            except ChainLost as error:
                warning = f"CHAIN_REBUILT: {error} Everything said before was sent again."
                self.reached(Stage.CHAIN_REBUILT, str(error))
                await self._progress(TurnProgress(warnings=(warning,)))
                recipe = msgspec.structs.replace(recipe, previous=None)
                conversation = self.turn.id
        history = await History(self.store, self.blobs, self.session).before(self.turn, chain.compaction)
        return await self._send([*history, item], recipe, conversation, voice)

    async def _send(
        self, items: list[dict[str, Any]], recipe: Recipe, conversation: str, voice: Voice
    ) -> ModelAnswer:
        body = self.parameters.body(items, recipe.previous)
        payload = await self._put(encoded(body))
        await self._progress(
            TurnProgress(
                openai_request_payload_url=blob_url(payload),
                openai_model=self.parameters.model,
                conversation_id=conversation,
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

    async def _keep(self, texts: Iterable[str]) -> None:
        """Keep texts under their own hashes, by which the turn refers to them."""
        await asyncio.gather(*(self._put(text.encode()) for text in texts))

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
