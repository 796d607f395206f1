"""Whoever answers: any async function, or something that keeps its own record of the turn.

`calling(function)` makes a runner of a function that takes an `Exchange` and gives its answer as a
text, or piece by piece as an async generator: texts, which become one streamed message; whole
messages, such as tool calls and their results; and the tokens that were used. The turn, what was
asked and everything that comes back are stored as they come.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import Protocol, TypeAlias, runtime_checkable

import msgspec

from holdfast.errors import InvalidInput
from holdfast.model.ids import TurnId
from holdfast.model.lease import LeaseLost
from holdfast.model.message import Message
from holdfast.model.session import NewSession, Session
from holdfast.model.text import readable
from holdfast.model.turn import CHAT, NewTurn, Turn, TurnAnswer, TurnFailure, TurnStatus, summary
from holdfast.model.usage import TokenUsage
from holdfast.routing.bindings import Decision
from holdfast.routing.events import MessageEnded, Outgoing, TextAdded, TurnEnded, TurnStarted
from holdfast.store.ending import to_its_end
from holdfast.store.store import Store
from holdfast.store.streams import MessageStream

log = logging.getLogger("holdfast.routing")

AHEAD = 1000
"""How many pieces a function may be ahead of what is stored."""


class Exchange(msgspec.Struct, frozen=True, kw_only=True):
    """What a runner is given."""

    decision: Decision
    session: Session
    history: Sequence[Message]
    """What was said before, oldest first."""
    asked: Sequence[Message]
    """What is to be answered: one message, or those that joined while another was answered."""
    stored: bool
    """Whether what was asked is in the session already, and must not be stored again."""
    store: Store
    """The agent's view, under the turn's lease."""

    @property
    def text(self) -> str:
        return "\n\n".join(message.text for message in self.asked)


@runtime_checkable
class Runner(Protocol):
    opening: NewSession | None
    """What a session that begins with this runner is given."""
    joins: bool
    """Whether it answers messages that are in the session already, and opens their turn as the one that
    answers those who `joined`; if not, one that would join waits."""

    def run(self, exchange: Exchange) -> AsyncGenerator[Outgoing, None]:
        """Take the turn, and store it. Closed or cancelled, it leaves the turn ended."""


Piece: TypeAlias = str | Message | TokenUsage
Function: TypeAlias = Callable[[Exchange], AsyncIterator[Piece] | Awaitable[str]]


def calling(function: Function) -> Runner:
    return FunctionRunner(function)


class FunctionRunner:
    opening: NewSession | None = None
    joins = True

    def __init__(self, function: Function) -> None:
        self._function = function

    async def run(self, exchange: Exchange) -> AsyncGenerator[Outgoing, None]:
        store, session = exchange.store, exchange.session
        turn = await to_its_end(_begin(exchange))
        if turn.status is not TurnStatus.PENDING:
            yield TurnEnded(turn)
            return
        yield TurnStarted(exchange.decision, session, turn)
        answer = _Answer(store, session, turn)
        try:
            async with aclosing(_pieces(self._function, exchange)) as batches:
                async for batch in batches:
                    for event in await to_its_end(answer.take(batch)):
                        yield event
            for event in await to_its_end(answer.end_message()):
                yield event
            turn = await answer.complete()
        except (asyncio.CancelledError, GeneratorExit):
            await asyncio.shield(answer.fail("The turn was interrupted.", "interrupted"))
            raise
        except LeaseLost:
            raise
        except Exception as error:  # the function is anybody's code; that it failed is the turn's result
            log.warning("session %s: the runner failed", session.id, exc_info=True)
            turn = await answer.fail(_told(error), "error")
        yield TurnEnded(turn)


async def _begin(exchange: Exchange) -> Turn:
    """The pending turn; one that has ended when this very message was answered before."""
    (first, *_) = exchange.asked
    new = NewTurn(
        id=TurnId(first.id) if first.id is not None and not exchange.stored else None,
        instruction_summary=summary(exchange.text),
        mode=CHAT,
    )
    said = () if exchange.stored else exchange.asked
    joined = [message.id for message in exchange.asked if exchange.stored and message.id is not None]
    return await exchange.store.add_turn(exchange.session.id, new, said=said, joined=joined)


class _Answer:
    """What comes back in a turn, as it is stored."""

    def __init__(self, store: Store, session: Session, turn: Turn) -> None:
        self._store = store
        self._session = session
        self._turn = turn
        self._stream: MessageStream | None = None
        self._text: list[str] = []
        self._usage = TokenUsage()

    async def take(self, batch: Sequence[Piece]) -> list[Outgoing]:
        events: list[Outgoing] = []
        texts: list[str] = []
        for piece in batch:
            if isinstance(piece, str):
                texts.append(piece)
                continue
            events += await self._write("".join(texts))
            texts = []
            if isinstance(piece, TokenUsage):
                used = self._usage
                self._usage = TokenUsage(used.input + piece.input, used.output + piece.output)
            elif isinstance(piece, Message):
                events += await self.end_message()
                (stored,) = await self._store.append_messages(
                    self._session.id, [piece], turn_id=self._turn.id
                )
                events.append(MessageEnded(stored))
            else:
                raise InvalidInput(f"A runner gives texts, messages and token usage, not {piece!r}.")
        return events + await self._write("".join(texts))

    async def end_message(self) -> list[Outgoing]:
        if self._stream is None:
            return []
        message = await self._stream.end()
        self._stream = None
        return [MessageEnded(message)]

    async def complete(self) -> Turn:
        answer = TurnAnswer(agent_answer_summary=summary(readable("".join(self._text))), usage=self._usage)
        return await self._store.complete_turn(self._session.id, self._turn.id, answer)

    async def fail(self, why: str, stop_reason: str) -> Turn:
        await self.end_message()
        failure = TurnFailure(errors=(why,), usage=self._usage, stop_reason=stop_reason)
        return await self._store.fail_turn(self._session.id, self._turn.id, failure)

    async def _write(self, text: str) -> list[Outgoing]:
        if not text:
            return []
        if self._stream is None:
            opened = Message.agent("", partial=True)
            self._stream = await self._store.open_stream(self._session.id, opened, turn_id=self._turn.id)
        self._text.append(text)
        self._stream.write(text)
        await self._stream.drain()
        return [TextAdded(text)]


def _told(error: Exception) -> str:
    kind = type(error).__name__
    try:
        return f"{kind}: {error}"
    except Exception:  # its text is anybody's code, too
        return kind


async def _pieces(function: Function, exchange: Exchange) -> AsyncGenerator[list[Piece], None]:
    """What the function gives, in batches of what has come while the batch before was stored."""
    queue: asyncio.Queue[Piece] = asyncio.Queue(AHEAD)
    producing = asyncio.get_running_loop().create_task(_produce(function, exchange, queue))
    try:
        while True:
            waiting = asyncio.ensure_future(queue.get())
            await asyncio.wait({waiting, producing}, return_when=asyncio.FIRST_COMPLETED)
            if not waiting.done():
                waiting.cancel()
                await producing
                return
            batch = [waiting.result()]
            while not queue.empty():
                batch.append(queue.get_nowait())
            yield batch
    finally:
        producing.cancel()
        await asyncio.wait([producing])


async def _produce(function: Function, exchange: Exchange, queue: asyncio.Queue[Piece]) -> None:
    given = function(exchange)
    if inspect.isawaitable(given):
        await queue.put(await given)
        return
    async for piece in given:
        await queue.put(piece)
