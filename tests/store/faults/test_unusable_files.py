"""What cannot be a store, or cannot be written: one clear sentence, and not a byte of it changed."""

import os
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from holdfast import HoldfastError, Message, SessionKey, open_store
from holdfast.errors import (
    Conflict,
    InvalidInput,
    NotADatabase,
    SchemaTooNew,
    StoreError,
    StoreReplaced,
    StoreUnavailable,
)
from holdfast.store import migrate, revision
from holdfast.store.sqlite import ownership
from holdfast.store.sqlite.ownership import opening
from tests.store.faults.contents import assert_one_sentence, changed, history, rows
from tests.store.faults.processes import Report, worker


def not_a_database(path: Path) -> None:
    path.write_text("Dear diary, today I was taken for a database.\n" * 100)


def too_short_for_a_database(path: Path) -> None:
    path.write_bytes(b"SQLite format 3\0")


def zeros(path: Path) -> None:
    path.write_bytes(bytes(8192))


def of_another_program(path: Path) -> None:
    connection = apsw.Connection(str(path))
    connection.execute("CREATE TABLE recipes (name TEXT); INSERT INTO recipes VALUES ('soup')")
    connection.close()


def of_another_program_with_sessions(path: Path) -> None:
    connection = apsw.Connection(str(path))
    connection.execute("CREATE TABLE sessions (pk INTEGER PRIMARY KEY, cookie TEXT)")
    connection.close()


@pytest.mark.parametrize(
    "make",
    [not_a_database, too_short_for_a_database, zeros, of_another_program, of_another_program_with_sessions],
)
async def test_a_file_that_is_no_store_is_refused_and_left_as_it_is(
    tmp_path: Path, make: Callable[[Path], None]
) -> None:
    path = tmp_path / "file.db"
    make(path)
    await _assert_refused(path, NotADatabase)


@pytest.mark.req("SEC-21")
@pytest.mark.parametrize("replaced", [False, True])
@pytest.mark.parametrize("ending", ["", "-wal"])
async def test_nothing_is_saved_in_files_that_were_taken_away(
    tmp_path: Path, key: SessionKey, ending: str, *, replaced: bool
) -> None:
    path = tmp_path / "holdfast.db"
    async with open_store(f"sqlite:///{path}") as store:
        await store.get_or_create(key)
        await store.append_messages(key, [Message.user("saved")])
        await store.ready()
        file = path.with_name(path.name + ending)
        content = file.read_bytes()
        file.unlink()
        if replaced:
            (tmp_path / "another").write_bytes(content)  # so that the number of the old one is not used again
            file.write_bytes(content)
        with pytest.raises(StoreReplaced, match=f"{file.name} was deleted or replaced") as refused:
            await store.append_messages(key, [Message.user("gone")])
        assert refused.value.status == 503
        assert_one_sentence(str(refused.value).partition(". ")[0] + ".")
        with pytest.raises(StoreReplaced):
            await store.ready()


async def test_a_truncated_store_is_refused_and_left_as_it_is(tmp_path: Path, key: SessionKey) -> None:
    path = await _store(tmp_path, key)
    os.truncate(path, path.stat().st_size // 2)
    await _assert_refused(path, NotADatabase)


async def test_a_store_overwritten_with_garbage_is_refused_and_left_as_it_is(
    tmp_path: Path, key: SessionKey
) -> None:
    path = await _store(tmp_path, key)
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(100)
        file.write(b"\xa5" * (size - 100))
    await _assert_refused(path, NotADatabase)


async def test_a_schema_of_a_newer_program_is_refused_and_left_as_it_is(
    tmp_path: Path, key: SessionKey
) -> None:
    path = await _store(tmp_path, key)
    connection = apsw.Connection(str(path))
    connection.execute("UPDATE alembic_version SET version_num = '9999'")
    connection.close()
    await _assert_refused(path, SchemaTooNew, "9999")
    before = path.read_bytes()
    for target in (None, "0002", "base"):
        with pytest.raises(SchemaTooNew) as refusal:
            await migrate(f"sqlite:///{path}", target)
        assert_one_sentence(str(refusal.value))
    assert await revision(f"sqlite:///{path}") == "9999"
    assert path.read_bytes() == before


async def test_a_schema_of_a_newer_program_is_refused_by_postgres_and_left_as_it_is(
    postgres_url: str, key: SessionKey
) -> None:
    async with open_store(postgres_url) as store:
        await store.get_or_create(key)
    await rows(postgres_url, "UPDATE alembic_version SET version_num = '9999'")
    with pytest.raises(SchemaTooNew) as refusal:
        await open_store(postgres_url).__aenter__()
    assert_one_sentence(str(refusal.value))
    for target in (None, "0002", "base"):
        with pytest.raises(SchemaTooNew):
            await migrate(postgres_url, target)
    assert await revision(postgres_url) == "9999"
    assert await rows(postgres_url, "SELECT count(*) FROM sessions") == [(1,)]


async def test_a_postgres_database_of_another_program_is_refused_and_left_as_it_is(postgres_url: str) -> None:
    await rows(postgres_url, "CREATE TABLE sessions (cookie TEXT)")
    with pytest.raises(NotADatabase) as refusal:
        await open_store(postgres_url).__aenter__()
    assert_one_sentence(str(refusal.value))
    tables = "SELECT tablename FROM pg_tables WHERE schemaname = 'public'"
    assert await rows(postgres_url, tables) == [("sessions",)]


@pytest.mark.parametrize(
    ("place", "kind"),
    [
        ("missing/holdfast.db", StoreError),
        ("a-file/holdfast.db", StoreError),
        ("a-directory", HoldfastError),
        ("x" * 300, StoreError),
        ("nul%00byte.db", InvalidInput),
    ],
)
async def test_a_path_that_cannot_be_a_store_is_refused_and_nothing_is_made(
    tmp_path: Path, place: str, kind: type[HoldfastError]
) -> None:
    (tmp_path / "a-file").write_text("not a directory")
    (tmp_path / "a-directory").mkdir()
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(kind) as refusal:
        await open_store(f"sqlite:///{tmp_path}/{place}").__aenter__()
    assert_one_sentence(str(refusal.value))
    assert [path for path in sorted(tmp_path.rglob("*")) if not path.name.endswith("-lock")] == before


@pytest.mark.usefixtures("process")
async def test_a_read_only_file_refuses_writes_and_is_left_as_it_is(tmp_path: Path, key: SessionKey) -> None:
    path = await _store(tmp_path, key)
    path.chmod(0o444)
    before = path.read_bytes()
    report = await _visit_obeying_permissions(path)
    assert report["error"] == "StoreReadOnly"
    assert_one_sentence(report["sentence"])
    assert path.read_bytes() == before


@pytest.mark.usefixtures("process")
async def test_a_read_only_directory_refuses_writes_and_is_left_as_it_is(
    tmp_path: Path, key: SessionKey
) -> None:
    path = await _store(tmp_path, key)
    path.chmod(0o666)
    tmp_path.chmod(0o555)
    before = path.read_bytes(), sorted(tmp_path.iterdir())
    report = await _visit_obeying_permissions(path)
    assert report["error"] == "StoreReadOnly"
    assert_one_sentence(report["sentence"])
    assert (path.read_bytes(), sorted(tmp_path.iterdir())) == before


@pytest.mark.usefixtures("process")
async def test_a_read_only_directory_takes_no_new_store(tmp_path: Path) -> None:
    tmp_path.chmod(0o555)
    report = await _visit_obeying_permissions(tmp_path / "new.db")
    assert report["error"] == "StoreReadOnly"
    assert_one_sentence(report["sentence"])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("process")
async def test_an_unreadable_file_is_refused_and_left_as_it_is(tmp_path: Path, key: SessionKey) -> None:
    path = await _store(tmp_path, key)
    path.chmod(0o000)
    report = await _visit_obeying_permissions(path)
    assert report["error"] in ("StoreError", "StoreReadOnly")
    assert_one_sentence(report["sentence"])
    path.chmod(0o600)
    async with open_store(f"sqlite:///{path}") as store:
        assert [message.text for message in await history(store, key)] == ["kept"]


async def _store(directory: Path, key: SessionKey) -> Path:
    """A store with a message in it, closed."""
    path = directory / "holdfast.db"
    async with open_store(f"sqlite:///{path}") as store:
        await store.get_or_create(key)
        await store.append_messages(key, [Message.user("kept")])
    for name in directory.glob("*-lock"):
        name.unlink()
    return path


async def _assert_refused(path: Path, kind: type[HoldfastError], *words: str) -> None:
    before = path.read_bytes()
    with pytest.raises(kind) as refusal:
        await open_store(f"sqlite:///{path}").__aenter__()
    sentence = str(refusal.value)
    assert_one_sentence(sentence)
    assert all(word in sentence for word in words)
    assert path.read_bytes() == before
    left = {each.name.removeprefix(path.name) for each in path.parent.iterdir()}
    assert left <= {"", "-lock"}


async def _visit_obeying_permissions(path: Path) -> Report:
    async with worker("visit", f"sqlite:///{path}", obeying_permissions=True) as visitor:
        await visitor.is_ready()
        visitor.go()
        (report,) = await visitor.finish()
    return report


async def test_a_process_that_hangs_while_it_opens_a_store_does_not_hang_the_others(
    sqlite_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ownership, "OPENING_SECONDS", 0.1)
    with opening(tmp_path / "holdfast.db"):
        for attempt in (migrate(sqlite_url), open_store(sqlite_url).__aenter__()):
            with pytest.raises(StoreUnavailable, match=r"holdfast\.db-lock.*end it") as refusal:
                await attempt
            assert refusal.value.retriable
            assert_one_sentence(str(refusal.value))
    async with open_store(sqlite_url) as store:
        assert await store.problems() == []


@pytest.mark.req("SEC-22")
async def test_a_database_that_somebody_has_open_is_not_brought_down(postgres_url: str) -> None:
    async with open_store(postgres_url) as store:
        with pytest.raises(Conflict, match="has this database open"):
            await migrate(postgres_url, "0009")
        await store.ready()
    await migrate(postgres_url, "0009")


@pytest.mark.req("SEC-22")
async def test_a_schema_that_was_changed_all_the_same_is_noticed(store_url: str) -> None:
    async with open_store(store_url) as store:
        await store.ready()
        await changed(store_url, "UPDATE alembic_version SET version_num = '0009'")
        with pytest.raises(StoreReplaced, match="went from schema"):
            await store.ready()
