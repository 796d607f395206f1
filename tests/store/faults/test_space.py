"""Space: deleted data gives it back, and the WAL stays small, or becomes small again, whoever reads."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from holdfast import Message, SessionKey, Store, open_store
from holdfast.store import sqlite_path
from tests.store.faults.contents import history, rows
from tests.store.faults.processes import worker
from tests.waiting import SECONDS, until

MEGABYTE = 1 << 20

WAL_LIMIT = 20 * MEGABYTE
"""What the WAL may keep: 16 MB, and a batch."""


class Files:
    """The sizes of a database's files."""

    def __init__(self, url: str) -> None:
        self._path = sqlite_path(url)

    @property
    def database(self) -> int:
        return self._path.stat().st_size

    @property
    def wal(self) -> int:
        path = Path(f"{self._path}-wal")
        return path.stat().st_size if path.exists() else 0


@pytest.fixture
def files(sqlite_url: str) -> Files:
    return Files(sqlite_url)


@pytest.fixture
async def store(sqlite_url: str, key: SessionKey) -> AsyncIterator[Store]:
    async with open_store(sqlite_url) as opened:
        await opened.get_or_create(key)
        yield opened
        assert await opened.problems() == []


@pytest.mark.req("STO-06")
async def test_deleting_a_big_session_gives_its_space_back(
    store: Store, files: Files, key: SessionKey
) -> None:
    big = SessionKey("main", "irc", "bot", key.peer_kind, "#big")
    await store.get_or_create(big)
    await store.append_messages(key, [Message.user("small and kept")])
    await _say(store, big, 40 * MEGABYTE)
    assert files.database > 30 * MEGABYTE
    await store.delete(big)
    await until(lambda: files.database < 5 * MEGABYTE)
    assert files.wal < WAL_LIMIT
    assert [message.text for message in await history(store, key)] == ["small and kept"]


async def test_a_store_that_is_closed_leaves_no_wal(sqlite_url: str, files: Files, key: SessionKey) -> None:
    async with open_store(sqlite_url) as store:
        await store.get_or_create(key)
        await _say(store, key, 10 * MEGABYTE)
    assert files.wal == 0


async def test_the_wal_stays_small_while_many_read_and_write_without_a_pause(
    store: Store, files: Files, key: SessionKey
) -> None:
    await store.append_messages(key, [Message.user("x" * 100) for _ in range(2500)])
    halfway = [store.history_json(key) for _ in range(8)]
    for pieces in halfway:
        await anext(pieces)  # a reader who never comes back for the rest
    largest = 0
    over = asyncio.Event()

    async def read() -> None:
        nonlocal largest
        while not over.is_set():
            await store.get_history(key)
            await store.list()
            largest = max(largest, files.wal)

    async with asyncio.TaskGroup() as group:
        for _ in range(4):
            group.create_task(read())
        await _say(store, key, 48 * MEGABYTE)
        over.set()
    assert 0 < largest < 2 * WAL_LIMIT
    async with asyncio.timeout(SECONDS):
        while files.wal >= WAL_LIMIT:  # a reader may have kept the last one who tidied up from it
            await store.append_messages(key, [Message.user("one more")])
    for pieces in halfway:
        rest = [piece async for piece in pieces]
        assert rest[-1] == b"]"


@pytest.mark.usefixtures("process")
async def test_a_foreign_reader_pins_the_wal_and_neither_stops_a_writer_nor_keeps_it_large_for_ever(
    store: Store, files: Files, sqlite_url: str, key: SessionKey
) -> None:
    async with worker("pin", sqlite_url) as foreign:
        await foreign.is_ready()
        await _say(store, key, 40 * MEGABYTE)
        assert files.wal > 40 * MEGABYTE  # it was really in the way
        foreign.go()
        assert await foreign.finish() == [{"unchanged": True}]
    await _say(store, key, 10 * MEGABYTE)
    assert files.wal < WAL_LIMIT
    (count,) = await rows(sqlite_url, "SELECT count(*) FROM messages")
    assert count == (50 * 16,)


async def _say(store: Store, key: SessionKey, size: int) -> None:
    """Append messages of 64 kB from eight tasks, until that many bytes are written."""
    each = 64 * 1024

    async def talk() -> None:
        for _ in range(size // each // 8):
            await store.append_messages(key, [Message.user("x" * each)])

    async with asyncio.TaskGroup() as group:
        for _ in range(8):
            group.create_task(talk())
