"""Opening a store: addresses, missing extras, the cost of an import."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast import Message, SessionKey, Store, open_store
from holdfast.errors import InvalidInput, NotADatabase, StoreError, StoreUnavailable
from holdfast.store import migrate, sqlite_path
from holdfast.store.ids import new_id
from holdfast.store.statements import checked, load
from tests.store.faults.contents import rows
from tests.waiting import until


@pytest.mark.parametrize(
    "url", ["mysql://x/y", "holdfast.db", "", "sqlite://holdfast.db", "sqlite:///:memory:"]
)
async def test_an_address_that_names_no_store_is_refused(url: str) -> None:
    with pytest.raises(InvalidInput, match="sqlite:///"):
        async with open_store(url):
            pass


async def test_an_unknown_durability_is_refused(sqlite_url: str) -> None:
    with pytest.raises(InvalidInput, match="full or normal"):
        async with open_store(sqlite_url, durability="maybe"):
            pass


@pytest.mark.parametrize("durability", ["full", "normal"])
async def test_both_durabilities_keep_what_was_said(store_url: str, key: SessionKey, durability: str) -> None:
    async with open_store(store_url, durability=durability) as store:
        await store.get_or_create(key)
        await store.append_messages(key, [Message.user("kept")])
    async with open_store(store_url, durability=durability) as store:
        assert (await store.get_history(key))[0].text == "kept"


def test_relative_and_absolute_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert sqlite_path("sqlite:///a%20b.db") == tmp_path / "a b.db"
    assert sqlite_path("sqlite:////var/x.db") == Path("/var/x.db")


async def test_a_missing_directory_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no directory"):
        async with open_store(f"sqlite:///{tmp_path}/missing/x.db"):
            pass
    assert list(tmp_path.iterdir()) == []


async def test_a_server_that_is_not_there_is_a_retriable_sentence(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match="PostgreSQL did not answer") as refusal:
        async with open_store(f"postgresql://nobody@/nothing?host={tmp_path}"):
            pass
    assert refusal.value.retriable


async def test_a_store_that_cannot_get_all_its_connections_keeps_none(
    postgres_server: str, postgres_url: str
) -> None:
    """A role that may have one connection gets as far as the writer's."""
    role = f"lonely_{new_id()[-12:]}"
    database = postgres_url.partition("?")[0].rpartition("/")[2]
    await rows(postgres_url, f"CREATE ROLE {role} LOGIN CONNECTION LIMIT 1")
    try:
        await rows(postgres_url, f"ALTER DATABASE {database} OWNER TO {role}")
        with pytest.raises(StoreUnavailable, match="too many connections"):
            async with open_store(postgres_url.replace("postgres@", f"{role}@")):
                pass
        assert "holdfast-writer" not in {task.get_name() for task in asyncio.all_tasks()}
        await until(lambda: _is_alone(postgres_url))
    finally:
        await rows(postgres_url, f"ALTER DATABASE {database} OWNER TO postgres")
        await rows(postgres_url, f"REASSIGN OWNED BY {role} TO postgres")
        await rows(postgres_server, f"DROP ROLE {role}")


async def _is_alone(url: str) -> bool:
    query = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
    return await rows(url, query) == [(1,)]


async def test_a_database_that_does_not_exist_is_named(postgres_url: str) -> None:
    with pytest.raises(StoreError, match="does not let us in"):
        async with open_store(postgres_url.replace("/test_", "/missing_")):
            pass


async def test_another_programs_tables_are_left_alone(postgres_url: str) -> None:
    import asyncpg

    raw = await asyncpg.connect(postgres_url)
    await raw.execute("CREATE TABLE sessions (x int)")
    with pytest.raises(NotADatabase, match="another program"):
        async with open_store(postgres_url):
            pass
    assert await raw.fetchval("SELECT to_regclass('messages')") is None
    await raw.close()


async def test_a_closed_store_says_so(sqlite_url: str, key: SessionKey) -> None:
    async with open_store(sqlite_url) as store:
        await store.get_or_create(key)
    with pytest.raises(StoreError, match="closed"):
        await store.get_session(key)
    with pytest.raises(StoreError, match="closed"):
        await store.append_messages(key, [Message.user("x")])


async def test_what_is_committed_while_a_store_closes_starts_nothing_in_it(
    store_url: str, key: SessionKey
) -> None:
    async with open_store(store_url) as store:
        await store.get_or_create(key)
        appends = [
            asyncio.create_task(store.append_messages(key, [Message.user(f"word {number}")]))
            for number in range(200)
        ]
        await appends[0]
    ended = await asyncio.gather(*appends, return_exceptions=True)
    assert all(isinstance(each, list | StoreError) for each in ended)
    assert store._runtime.catching_up._timer is None
    async with open_store(store_url) as again:
        assert (await again.get_session(key)).message_count == sum(isinstance(each, list) for each in ended)


async def test_a_store_is_closed_whole_although_its_user_is_cancelled(
    store_url: str, key: SessionKey
) -> None:
    opened: asyncio.Future[Store] = asyncio.get_running_loop().create_future()

    async def use() -> None:
        async with open_store(store_url) as store:
            await store.get_or_create(key)
            stream = await store.open_stream(key, Message.agent("", partial=True))
            stream.write("a word")
            opened.set_result(store)

    using = asyncio.create_task(use())
    store = await opened
    assert not using.done()  # it has begun to close
    using.cancel()
    with pytest.raises(asyncio.CancelledError):
        await using
    with pytest.raises(StoreError, match="closed"):
        await store.get_session(key)
    async with open_store(store_url) as again:
        (message,) = await again.get_history(key)
        assert (message.text, message.open) == ("a word", False)


def python(code: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.strip()


@pytest.mark.usefixtures("process")
@pytest.mark.parametrize("module", ["holdfast", "holdfast.api"])
def test_importing_loads_nothing_heavy(module: str) -> None:
    heavy = {"alembic", "sqlalchemy", "asyncpg", "pydantic", "typer", "rich", "sqlite3"}
    loaded = python(
        f"import sys, {module}; print(*{{name.partition('.')[0] for name in sys.modules}})"
    ).split()
    assert heavy & set(loaded) == set()


@pytest.mark.usefixtures("process")
async def test_only_a_store_that_is_behind_loads_the_migrations(sqlite_url: str) -> None:
    code = f"""
import asyncio, sys, holdfast
async def main():
    async with holdfast.open_store({sqlite_url!r}):
        pass
asyncio.run(main())
print("alembic" in sys.modules)
"""
    assert [python(code), python(code)] == ["False", "False"]
    await migrate(sqlite_url, "0009")
    assert [python(code), python(code)] == ["True", "False"]


@pytest.mark.usefixtures("process")
@pytest.mark.parametrize(
    ("package", "module", "extra"),
    [
        ("httpx2", "holdfast.client", "client"),
        ("platformdirs", "holdfast.config", "cli"),
        ("psutil", "holdfast.agents.supervisor", "agents"),
        ("hypothesis", "holdfast.testing.compaction", "testing"),
    ],
)
def test_what_needs_an_extra_says_so_when_it_is_imported(package: str, module: str, extra: str) -> None:
    code = f"""
import sys
sys.modules[{package!r}] = None
from holdfast.errors import MissingExtra
try:
    import {module}
except MissingExtra as error:
    print(error.extra)
"""
    assert python(code) == extra


@pytest.mark.usefixtures("process")
def test_the_client_needs_nothing_that_stores_blobs() -> None:
    code = """
import sys
sys.modules["zstandard"] = None
import holdfast.client
from holdfast.blobs.packing import packed
from holdfast.errors import MissingExtra
try:
    packed(b"")
except MissingExtra as error:
    print(error.extra)
"""
    assert python(code) == "blobs"


@pytest.mark.usefixtures("process")
def test_a_missing_extra_says_which_one_to_install() -> None:
    code = """
import sys
sys.modules["asyncpg"] = None
from holdfast.errors import MissingExtra
from holdfast.store import dialect
try:
    dialect("postgresql://x/y")
except MissingExtra as error:
    print(error)
"""
    assert python(code) == (
        "A PostgreSQL store needs an extra that is not installed: pip install 'holdfast[postgres]'"
    )


@pytest.mark.parametrize("engine", ["sqlite", "postgres"])
def test_every_statement_takes_its_parameters_in_order(engine: str) -> None:
    assert len(load(engine)) > 50
    with pytest.raises(ValueError, match="not in order"):
        checked("SELECT $2, $1")
