"""A message that is being said, seen by readers while it grows and ends: it never becomes less."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import msgspec
import pytest

from holdfast import Message, SessionKey, Store

STREAMS = 12
PIECES = 4

Look = Callable[[Store, SessionKey], Awaitable[Sequence[Message]]]


async def in_the_history(store: Store, key: SessionKey) -> Sequence[Message]:
    return (await store.get_history(key)).messages


async def by_id(store: Store, key: SessionKey) -> Sequence[Message]:
    return [
        await store.get_message(key, message.id)
        for message in (await store.get_history(key)).messages[-2:]
        if message.id is not None
    ]


async def as_json(store: Store, key: SessionKey) -> Sequence[Message]:
    whole = b"".join([piece async for piece in store.history_json(key)])
    return msgspec.json.decode(whole, type=list[Message])


async def in_the_changes(store: Store, key: SessionKey) -> Sequence[Message]:
    return (await store.changes(key, 0)).messages


@pytest.mark.parametrize("look", [in_the_history, by_id, as_json, in_the_changes])
async def test_what_a_reader_has_seen_of_a_message_never_becomes_less(
    store: Store, key: SessionKey, look: Look
) -> None:
    await store.get_or_create(key)
    over = asyncio.Event()

    async def speak() -> None:
        for _ in range(STREAMS):
            stream = await store.open_stream(key, Message.agent("", partial=True))
            for number in range(PIECES):
                stream.write(f"{number} ")
                await stream.drain()
            await stream.end()

    async def watch() -> None:
        seen: dict[str, Message] = {}
        while not over.is_set():
            for message in await look(store, key):
                before = seen.setdefault(str(message.id), message)
                assert message.text.startswith(before.text)
                assert before.open or not message.open
                assert message.rev >= before.rev
                assert message.open or message.text == "0 1 2 3 "
                seen[str(message.id)] = message

    async with asyncio.TaskGroup() as group:
        watchers = [group.create_task(watch()) for _ in range(2)]
        await asyncio.gather(*(speak() for _ in range(2)))
        over.set()
    assert all(watcher.done() for watcher in watchers)
