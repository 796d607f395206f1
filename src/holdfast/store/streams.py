"""Writing a message as it is being said.

Text handed to a stream becomes durable with that of all other streams, about every 20 ms: one
write for many streams costs what one write costs. A crash loses at most that window, and what
was stored of an unfinished message is folded into it by the next start.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from types import TracebackType
from typing import Any, Self, TypeAlias

from holdfast.errors import HoldfastError, MessageFinal, MessageTooLarge
from holdfast.model.ids import MessageId
from holdfast.model.lease import Lease, LeaseLost
from holdfast.model.message import Message
from holdfast.model.tokens import TokenCounter
from holdfast.store import chunks
from holdfast.store.chunks import Chunk
from holdfast.store.engine import Engine
from holdfast.store.pulse import Pulse
from holdfast.store.standing import escaped

FLUSH_SECONDS = 0.02
"""How long text is gathered before it is written. Shorter costs commits, longer costs delay."""


class MessageStream:
    """One streaming message. `write` never waits; `drain` waits until all of it is durable."""

    def __init__(
        self,
        flusher: StreamFlusher,
        message: Message,
        session_pk: int,
        message_pk: int,
        lease: Lease | None = None,
    ) -> None:
        assert message.id is not None
        self.message = message
        """The message as it was opened."""
        self.message_pk = message_pk
        self._id: MessageId = message.id
        self._session_pk = session_pk
        self._lease = lease
        self._flusher = flusher
        self._pending: list[str] = []
        self._size = 0
        self._bytes = len(message.content_json)
        """How long the message is by now, about: what is around its content counts little."""
        self._durable = 0
        """How much of the text is known to be stored."""
        self._uncertain = False
        """Whether more than that may be: a write was lost on its way, or on its way back."""
        self._round: Round | None = None
        self._ending: asyncio.Task[Message] | None = None
        self._ended = False

    def write(self, text: str) -> None:
        """Hand in the next piece of text."""
        if self._ended:
            raise MessageFinal(self._id)
        piece = escaped(text)
        size = self._bytes + len(piece.encode())
        if size > self._flusher.max_bytes:
            raise MessageTooLarge(
                f"The message would have over {self._flusher.max_bytes:,} bytes; end it and open another."
            )
        if piece:
            self._size += len(piece)
            self._bytes = size
            self._pending.append(piece)
            self._round = self._flusher.add(self)

    async def drain(self) -> None:
        """Wait until everything written so far is durable.

        When the store cannot write, this raises its error; the text is kept, and goes out with
        the next `write`, `drain` or `end`.
        """
        written = self._size
        while self._durable < written:
            if self._ended:
                raise MessageFinal(self._id)
            if self._ending is not None:
                await asyncio.shield(self._ending)
                continue
            if self._pending:
                self._round = self._flusher.add(self)
            assert self._round is not None
            if error := await asyncio.shield(self._round):
                raise error

    async def end(self) -> Message:
        """Make the message final and give it back. All of its text is durable then.

        After an error, or when the caller was cancelled, this may be called again.
        """
        if self._ended:
            raise MessageFinal(self._id)
        if self._ending is None:
            self._ending = self._flusher.own(self._end())
        try:
            message = await asyncio.shield(self._ending)
        except HoldfastError:
            self._ending = None
            raise
        self._ended = True
        return message

    async def _end(self) -> Message:
        await self._flusher.withdraw(self)
        again = self._uncertain
        chunk = self.take()
        try:
            message = await self._flusher.engine.write(
                partial(
                    chunks.end,
                    message_id=self._id,
                    chunk=chunk,
                    now=self._flusher.clock(),
                    again=again,
                    counter=self._flusher.counter,
                )
            )
        except HoldfastError:
            self.give_back(chunk)
            raise
        if message is None:
            assert self._lease is not None
            self.lose()
            raise LeaseLost(self._lease.session_id)
        self.stored(chunk)
        return message

    def take(self) -> Chunk:
        """What was not yet written, which then counts as taken."""
        after = self._durable if self._uncertain else None
        chunk = Chunk(self._session_pk, self.message_pk, "".join(self._pending), after, self._lease)
        self._pending.clear()
        return chunk

    def stored(self, chunk: Chunk) -> None:
        self._durable += len(chunk.text)
        self._uncertain = False

    def give_back(self, chunk: Chunk) -> None:
        """A chunk that could not be written, or may have been; to be written first next time."""
        self._pending.insert(0, chunk.text)
        self._uncertain = True

    def lose(self) -> None:
        """The message is final or gone: somebody else ended it, has the turn now, or deleted the session."""
        self._ended = True

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._ended:
            await self.end()


Round: TypeAlias = "asyncio.Future[HoldfastError | None]"
"""The end of one flush: its error, or None."""


class StreamFlusher:
    """Gathers the text of all streams of a store and writes it together."""

    def __init__(
        self,
        engine: Engine,
        clock: Callable[[], int],
        max_bytes: int,
        wrote: Callable[[], None],
        counter: TokenCounter | None = None,
    ) -> None:
        self.engine = engine
        self.clock = clock
        self.max_bytes = max_bytes
        self.counter = counter
        self._wrote = wrote
        self._waiting: dict[MessageStream, None] = {}
        self._gathering: Round | None = None
        self._writing: Round | None = None
        self._endings: set[asyncio.Task[Message]] = set()
        self._pulse = Pulse(FLUSH_SECONDS, self._flush)

    def own(self, ending: Coroutine[Any, Any, Message]) -> asyncio.Task[Message]:
        """Run the end of a stream, whether or not its caller goes on waiting."""
        task = asyncio.get_running_loop().create_task(ending)
        self._endings.add(task)
        task.add_done_callback(self._endings.discard)
        return task

    def add(self, stream: MessageStream) -> Round:
        """Include the stream in the next flush."""
        self._waiting[stream] = None
        if self._gathering is None:
            self._gathering = asyncio.get_running_loop().create_future()
        self._pulse.nudge()
        return self._gathering

    async def withdraw(self, stream: MessageStream) -> None:
        """Leave the stream's pending text to the caller, once a write that is under way has ended."""
        self._waiting.pop(stream, None)
        if self._writing is not None:
            await asyncio.shield(self._writing)

    async def close(self) -> None:
        await asyncio.gather(*self._endings, return_exceptions=True)
        await self._pulse.close()

    async def _flush(self) -> None:
        streams, self._waiting = list(self._waiting), {}
        self._writing, self._gathering = self._gathering, None
        error: HoldfastError | None = None
        try:
            if streams:
                error = await self._write(streams)
        finally:
            done, self._writing = self._writing, None
            if done is not None:
                done.set_result(error)

    async def _write(self, streams: list[MessageStream]) -> HoldfastError | None:
        taken = [stream.take() for stream in streams]
        try:
            revisions = await self.engine.write(partial(chunks.write, chunks=taken, now=self.clock()))
        except HoldfastError as error:
            for stream, chunk in zip(streams, taken, strict=True):
                stream.give_back(chunk)
            return error
        for stream, chunk in zip(streams, taken, strict=True):
            if stream.message_pk in revisions:
                stream.stored(chunk)
            else:
                stream.lose()
        self._wrote()
        return None
