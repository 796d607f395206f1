"""Several processes at one new database, or at one schema: all of them succeed, and there is one schema."""

import asyncio

import pytest

from holdfast import Message, SessionKey, open_store
from holdfast.errors import StoreError
from holdfast.store import migrate, revision
from holdfast.store.migrations import HEAD
from holdfast.store.postgres import connection, engine
from tests.store.faults.contents import assert_one_sentence, history, holding, rows
from tests.store.faults.processes import together, worker
from tests.store.faults.worker import shared_key
from tests.waiting import until

pytestmark = pytest.mark.usefixtures("process")

PROCESSES = 6
VISITS = 10
"""One opens the store while another closes it, which SQLite allows only one at a time."""


@pytest.mark.req("STO-15", "STO-01")
async def test_six_processes_that_create_one_store_at_once_share_it(store_url: str) -> None:
    reports = await together(PROCESSES, "visit", store_url, times=VISITS)
    assert [report for report in reports if "error" in report] == []
    assert len({report["session"] for report in reports}) == 1
    assert await rows(store_url, "SELECT version_num FROM alembic_version") == [(HEAD,)]
    async with open_store(store_url) as store:
        assert {message.id for message in await history(store, shared_key())} == {
            report["message"] for report in reports
        }
        assert await store.problems() == []


@pytest.mark.req("STO-15")
async def test_six_processes_that_upgrade_one_store_at_once_keep_its_data(
    store_url: str, key: SessionKey
) -> None:
    async with open_store(store_url) as store:
        await store.get_or_create(key)
        (kept,) = await store.append_messages(key, [Message.user("from before")])
    await migrate(store_url, "0001")
    reports = await together(PROCESSES, "visit", store_url)
    assert len({report["session"] for report in reports}) == 1
    assert await rows(store_url, "SELECT version_num FROM alembic_version") == [(HEAD,)]
    async with open_store(store_url) as store:
        assert await history(store, key) == [kept]
        assert (await store.list()).total == 2
        assert await store.problems() == []


async def test_a_migration_and_a_vacuum_may_take_longer_than_any_other_statement(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "COMMAND_SECONDS", 0.001)
    assert await migrate(postgres_url) == (None, HEAD)
    monkeypatch.setattr(engine, "COMMAND_SECONDS", 2)
    monkeypatch.setattr(connection, "COMMAND_SECONDS", 2)
    async with open_store(postgres_url) as store, holding(postgres_url, "messages"):
        vacuuming = asyncio.ensure_future(store.vacuum())
        await until(lambda: _has_waited_three_seconds(postgres_url, "VACUUM (ANALYZE)"))
        assert not vacuuming.done()
    await vacuuming


async def _has_waited_three_seconds(url: str, statement: str) -> bool:
    query = (
        "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock' "
        f"AND query = '{statement}' AND query_start < clock_timestamp() - interval '3 seconds'"
    )
    return bool(await rows(url, query))


@pytest.mark.req("STO-15")
async def test_a_writer_whose_schema_is_taken_back_and_forth_is_told_and_loses_nothing(
    sqlite_url: str, key: SessionKey
) -> None:
    """An older schema has no place for what this program writes, so its calls may be refused meanwhile.

    PostgreSQL's is not taken back while anybody has it open.
    """
    async with open_store(sqlite_url) as store, worker("remigrate", sqlite_url, times=5) as migrating:
        await store.get_or_create(key)
        over = asyncio.Event()
        said: list[str] = []

        async def write(number: int) -> None:
            while not over.is_set():
                text = f"{number}.{len(said)}"
                try:
                    await store.append_messages(key, [Message.user(text)])
                except StoreError as error:
                    assert_one_sentence(str(error))
                else:
                    said.append(text)

        await migrating.is_ready()
        async with asyncio.TaskGroup() as group:
            for number in range(4):
                group.create_task(write(number))
            migrating.go()
            steps = await migrating.finish()
            before = len(said)
            await until(lambda: len(said) > before)
            over.set()
        assert [step["revisions"] for step in steps] == [["0002", HEAD]] * 5
        assert await revision(sqlite_url) == HEAD
        assert sorted(message.text for message in await history(store, key)) == sorted(said)
        assert (await store.list()).total == 1
        assert await store.problems() == []
