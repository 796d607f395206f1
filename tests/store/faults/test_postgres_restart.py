"""PostgreSQL stopped and started under load, crashed, or rid of its connections: callers wait or are told."""

import asyncio
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Literal

import asyncpg
import pytest

from holdfast import HoldfastError, Message, SessionKey, Store, open_store
from holdfast.errors import StoreUnavailable
from holdfast.model.ids import MessageId
from holdfast.store import runtime
from holdfast.store.ids import new_id
from holdfast.store.postgres import ownership
from tests.conftest import PostgresServer
from tests.store.faults.contents import assert_one_sentence, history, rows
from tests.store.faults.processes import worker
from tests.store.faults.worker import shared_key
from tests.waiting import until

CALLERS = 16


class Load:
    """Callers that never give up: each repeats what failed until it is stored, and then says more."""

    def __init__(self, store: Store, key: SessionKey) -> None:
        self._store = store
        self._key = key
        self._over = False
        self.acknowledged: dict[MessageId, tuple[int, str]] = {}
        self.refused = [0] * (CALLERS + 2)
        """How often each of them was told that the store is away: the writers, a reader, a stream."""
        self.text = ""

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for number in range(CALLERS):
                group.create_task(self._append(number))
            group.create_task(self._read())
            group.create_task(self._stream())

    def stop(self) -> None:
        self._over = True

    async def _append(self, number: int) -> None:
        while not self._over:
            message = Message.user(f"{number}: {new_id()}", id=MessageId(new_id()))
            while True:
                try:
                    (stored,) = await self._store.append_messages(self._key, [message])
                    break
                except HoldfastError as error:
                    await self._refuse(number, error)
            assert stored.id is not None
            self.acknowledged[stored.id] = (stored.seq, stored.text)

    async def _read(self) -> None:
        while not self._over:
            try:
                await self._store.get_history(self._key)
            except HoldfastError as error:
                await self._refuse(CALLERS, error)

    async def _stream(self) -> None:
        opening = Message.agent("", partial=True, id=MessageId(new_id()))
        while True:
            try:
                stream = await self._store.open_stream(self._key, opening)
                break
            except HoldfastError as error:
                await self._refuse(CALLERS + 1, error)
        while not self._over:
            piece = f"{len(self.text)} "
            stream.write(piece)
            self.text += piece
            try:
                await stream.drain()
            except HoldfastError as error:
                await self._refuse(CALLERS + 1, error)
        message = await stream.end()
        assert message.id is not None
        self.acknowledged[message.id] = (message.seq, self.text)

    async def _refuse(self, number: int, error: HoldfastError) -> None:
        assert isinstance(error, StoreUnavailable), error
        assert error.retriable
        assert_one_sentence(str(error))
        self.refused[number] += 1
        await asyncio.sleep(0.01)  # a caller that waits before it tries again


@pytest.mark.parametrize("mode", ["immediate", "fast"])
async def test_callers_outlast_a_restart_and_what_was_acknowledged_outlasts_it_too(
    own_postgres_server: PostgresServer, key: SessionKey, mode: Literal["immediate", "fast"]
) -> None:
    async with open_store(own_postgres_server.url()) as store:
        await store.get_or_create(key)
        load = Load(store, key)
        async with asyncio.TaskGroup() as group:
            group.create_task(load.run())
            for _ in range(3):
                await _more_is_acknowledged(load)
                await asyncio.to_thread(own_postgres_server.stop, mode)
                load.refused = [0] * len(load.refused)
                await until(lambda: all(load.refused))
                await asyncio.to_thread(own_postgres_server.start)
            await _more_is_acknowledged(load)
            load.stop()
        stored = {message.id: (message.seq, message.text) for message in await history(store, key)}
        assert stored == load.acknowledged
        assert await store.problems() == []


async def test_while_the_server_is_away_every_call_says_so_in_one_sentence(
    own_postgres_server: PostgresServer, key: SessionKey, tmp_path: Path
) -> None:
    url = own_postgres_server.url()
    async with open_store(url) as store:
        session = await store.get_or_create(key)
        stream = await store.open_stream(key, Message.agent("", partial=True))
        own_postgres_server.stop()
        stream.write("said to nobody")
        calls: list[Callable[[], Awaitable[object]]] = [
            lambda: store.get_or_create(key),
            lambda: store.get_session(session.id),
            lambda: store.list(),
            lambda: store.get_history(key),
            lambda: store.append_messages(key, [Message.user("lost")]),
            lambda: store.changes(key, 0),
            lambda: store.delete(key),
            store.problems,
            store.vacuum,
            stream.drain,
            stream.end,
            open_store(url).__aenter__,
        ]
        for call in calls:
            with pytest.raises(StoreUnavailable) as refusal:
                await call()
            assert refusal.value.retriable
            assert_one_sentence(str(refusal.value))
        with pytest.raises(HoldfastError) as no_backup:
            await store.backup(tmp_path / "backup.dump")
        assert_one_sentence(str(no_backup.value))
        assert list(tmp_path.iterdir()) == []
        own_postgres_server.start()
        assert (await stream.end()).text == "said to nobody"
        assert [message.text for message in await history(store, key)] == ["said to nobody"]


async def test_a_store_that_is_closed_while_the_server_is_away_closes(
    own_postgres_server: PostgresServer, key: SessionKey
) -> None:
    async with open_store(own_postgres_server.url()) as store:
        await store.get_or_create(key)
        stream = await store.open_stream(key, Message.agent("", partial=True))
        own_postgres_server.stop("immediate")
        stream.write("never heard")
    own_postgres_server.start()
    async with open_store(own_postgres_server.url()) as store:
        (message,) = await history(store, key)
        assert (message.text, message.open, message.metadata) == ("", False, {"interrupted": True})


async def test_connections_that_an_administrator_ends_are_made_anew(
    postgres_url: str, key: SessionKey
) -> None:
    async with open_store(postgres_url) as store:
        await store.get_or_create(key)
        load = Load(store, key)
        async with asyncio.TaskGroup() as group:
            group.create_task(load.run())
            for _ in range(5):
                await _more_is_acknowledged(load)
                await _end_all_connections(postgres_url)
            await _more_is_acknowledged(load)
            load.stop()
        stored = {message.id: (message.seq, message.text) for message in await history(store, key)}
        assert stored == load.acknowledged


@pytest.mark.parametrize("elsewhere", [False, True])
async def test_a_node_that_lost_its_connection_for_a_moment_keeps_its_streams(
    own_postgres_server: PostgresServer,
    key: SessionKey,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    elsewhere: bool,
) -> None:
    url = own_postgres_server.url()
    async with open_store(url) as cut_off:
        await cut_off.get_or_create(key)
        stream = await cut_off.open_stream(key, Message.agent("", partial=True))
        stream.write("before")
        await stream.drain()
        own_postgres_server.stop()
        own_postgres_server.start()
        if elsewhere:
            monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))  # where marks are, on another machine
        async with open_store(url) as other:
            (seen,) = await history(other, key)
            assert (seen.text, seen.open) == ("before", True)
            stream.write(" and after")
            assert (await stream.end()).text == "before and after"
            assert [message.text for message in await history(other, key)] == ["before and after"]


async def test_a_node_takes_its_lock_back_although_it_has_nothing_to_write(postgres_url: str) -> None:
    async with open_store(postgres_url):
        await _end_all_connections(postgres_url)
        await until(lambda: _a_lock_is_held(postgres_url))


async def test_the_streams_of_a_node_elsewhere_that_does_not_come_back_are_closed(
    postgres_url: str, key: SessionKey, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ownership, "RETURN_SECONDS", 0.2)
    monkeypatch.setattr(runtime, "RECOVERY_SECONDS", 0.2)
    async with worker("live", postgres_url, tasks=8, sessions=1, seed=1) as victim:
        while "stream" not in (await victim.report() or {}):
            pass
        await victim.kill()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    async with open_store(postgres_url) as store:

        async def all_are_closed() -> bool:
            return not any(message.open for message in await history(store, shared_key()))

        await until(all_are_closed)
        assert any(message.metadata for message in await history(store, shared_key()))
        assert await store.problems() == []


async def _a_lock_is_held(url: str) -> bool:
    query = (
        "SELECT pid FROM pg_locks JOIN pg_database ON oid = database "
        "WHERE datname = current_database() AND locktype = 'advisory' AND mode = 'ShareLock'"
    )
    return bool(await rows(url, query))


async def _more_is_acknowledged(load: Load) -> None:
    enough = len(load.acknowledged) + 5 * CALLERS
    await until(lambda: len(load.acknowledged) >= enough)


async def _end_all_connections(url: str) -> None:
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(
            "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
    finally:
        await connection.close()
