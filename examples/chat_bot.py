"""A chat bot with two agents, on a transport that needs no account: lines of text over TCP.

Run it: `python examples/chat_bot.py`. Without a port it talks to itself: a server on loopback, two
people who connect to it, and what they read. With one (`python examples/chat_bot.py 6667`) it serves
until you stop it; connect with `nc 127.0.0.1 6667` and say who you are, for instance `ada`.

A line that begins with `#room ` is said in that room, and every other line is a direct message to the
bot. `librarian` answers in rooms called #books…, `clerk` answers everything else. Both are ordinary
async functions here; a real bot calls a model in them, which is why a long chat is compacted: they are
given what was folded as a summary. While it serves, whoever runs
`holdfast bindings add librarian --channel tcp --peer group:#garden --store sqlite:///chat.db` sends
what is said in that room to the librarian from then on.
"""

import asyncio
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from holdfast import Store, TokenUsage, open_store
from holdfast.compaction.background import BackgroundCompaction
from holdfast.compaction.policy import CompactionPolicy
from holdfast.routing.binding import Binding
from holdfast.routing.bindings import Bindings
from holdfast.routing.events import TextAdded, TurnEnded
from holdfast.routing.gateway import Gateway
from holdfast.routing.incoming import Incoming, Peer
from holdfast.routing.policy import RoutingPolicy
from holdfast.routing.runner import Exchange, Function, Piece
from holdfast.routing.scope import DmScope
from holdfast.routing.stored import following_bindings

POLICY = RoutingPolicy(
    default_agent="clerk",
    agents=("clerk", "librarian"),
    dm_scope=DmScope.PER_PEER,
    bindings=(Binding(agent="librarian", channel="tcp", peer="group:#books*"),),
)

COMPACTION = CompactionPolicy(window=8_000)  # the tokens that the agents' model takes in


async def librarian(exchange: Exchange) -> AsyncIterator[Piece]:
    yield f"About {exchange.text!r} I have "
    yield f"{len(exchange.text) * 7} books."
    yield TokenUsage(input=len(exchange.history) + 1, output=5)


async def clerk(exchange: Exchange) -> str:
    return f"That is your question number {exchange.session.turn_count + 1}: {exchange.text}"


def incoming(sender: str, line: str) -> Incoming:
    room, _, text = line.partition(" ")
    if room.startswith("#"):
        return Incoming(channel="tcp", peer=Peer.parse(f"group:{room}"), sender=sender, text=text)
    return Incoming(channel="tcp", peer=Peer.parse(f"dm:{sender}"), text=line)


class Bot:
    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One person's connection, who may hang up at any time."""
        with suppress(ConnectionError):
            await self._talk(reader, writer)

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """The first line is their name; without one there is nobody to talk to."""
        sender = (await reader.readline()).decode().strip()
        while sender and (line := (await reader.readline()).decode().strip()):
            answer: list[str] = []
            async for event in self._gateway.receive(incoming(sender, line)):
                if isinstance(event, TextAdded):
                    answer.append(event.text)
                elif isinstance(event, TurnEnded):
                    writer.write(f"{''.join([*answer, *event.turn.errors])}\n".encode())
                    await writer.drain()
                    answer.clear()
        writer.close()
        await writer.wait_closed()


@asynccontextmanager
async def listening(store: Store, port: int) -> AsyncIterator[asyncio.Server]:
    runners: dict[str, Function] = {"clerk": clerk, "librarian": librarian}
    async with BackgroundCompaction(store, lambda _: COMPACTION) as compaction:
        gateway = Gateway(store, Bindings(policy=POLICY), runners, compaction=compaction)
        async with (
            following_bindings(gateway, store, POLICY),
            await asyncio.start_server(Bot(gateway).talk, "127.0.0.1", port) as server,
        ):
            yield server


async def serve(port: int) -> None:
    async with open_store("sqlite:///chat.db") as store, listening(store, port) as server:
        print(f"listening on 127.0.0.1:{port}; what is said is kept in chat.db")
        await server.serve_forever()


async def person(port: int, name: str, *lines: str) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"{name}\n".encode())
    for line in lines:
        writer.write(f"{line}\n".encode())
        print(f"{name}: {line}")
        print(f"  bot: {(await reader.readline()).decode().strip()}")
    writer.write(b"\n")
    await reader.read()
    writer.close()
    await writer.wait_closed()


async def demo(directory: Path) -> None:
    async with open_store(f"sqlite:///{directory / 'chat.db'}") as store:
        async with listening(store, 0) as server:
            port = server.sockets[0].getsockname()[1]
            await person(port, "ada", "hello", "#books-old looms", "and again")
            await person(port, "bob", "hello", "#books-old engines", "#garden roses")
            await person(port, "ada", "still there?")
        print("\nwhat is kept:")
        for session in sorted(await store.list(), key=lambda each: each.key_text):
            used = session.token_usage
            print(f"  {session.key_text}: {session.message_count} messages, {used.output} tokens out")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        with suppress(KeyboardInterrupt):
            asyncio.run(serve(int(sys.argv[1])))
    else:
        with tempfile.TemporaryDirectory() as temporary:
            asyncio.run(demo(Path(temporary)))
