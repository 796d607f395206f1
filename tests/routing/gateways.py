"""Gateways with runners that a test controls."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator

from holdfast import Message, Store, TokenUsage
from holdfast.routing.bindings import Bindings
from holdfast.routing.events import MessageEnded, Outgoing, TextAdded, TurnEnded
from holdfast.routing.gateway import Gateway
from holdfast.routing.incoming import Incoming
from holdfast.routing.runner import Exchange, Piece


class Slow:
    """Says a word, then waits to be told to end; remembers what it was asked, and how many ran at once."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.histories: list[list[str]] = []
        self.begun = asyncio.Event()
        self.go_on = asyncio.Event()
        self.at_once = 0
        self.most_at_once = 0

    async def __call__(self, exchange: Exchange) -> AsyncGenerator[Piece, None]:
        self.asked.append(exchange.text)
        self.histories.append([message.text for message in exchange.history])
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            yield "well "
            self.begun.set()
            await self.go_on.wait()
            yield f"({exchange.text})"
            yield TokenUsage(3, 5)
        finally:
            self.at_once -= 1


async def echo(exchange: Exchange) -> AsyncIterator[Piece]:
    yield "you said "
    yield exchange.text
    yield TokenUsage(10, 2)


async def remembers(exchange: Exchange) -> str:
    return f"{exchange.session.agent}: {len(exchange.history)} before this"


def gateway(store: Store, runner: object, **options: object) -> Gateway:
    return Gateway(store, Bindings(agents=["main"]), {"main": runner}, **options)  # type: ignore[dict-item,arg-type]


async def events(gateway: Gateway, message: Incoming, told: list[Outgoing] | None = None) -> list[Outgoing]:
    """All that a message is told; `told` has it as it comes."""
    told = [] if told is None else told
    async for event in gateway.receive(message):
        told.append(event)
    return told


async def until_heard(told: list[Outgoing]) -> None:
    """Wait until some of the answer was told."""
    while not text_of(told):  # noqa: ASYNC110  # a condition, not an event
        await asyncio.sleep(0.01)


def text_of(told: list[Outgoing]) -> str:
    return "".join(event.text for event in told if isinstance(event, TextAdded))


def messages_of(told: list[Outgoing]) -> list[Message]:
    return [event.message for event in told if isinstance(event, MessageEnded)]


def end_of(told: list[Outgoing]) -> TurnEnded:
    assert isinstance(told[-1], TurnEnded)
    return told[-1]
