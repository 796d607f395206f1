"""Brief reads on SQLite: done on the event loop, but never waiting there."""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import apsw
import pytest

from holdfast import HistoryOptions, Message, NewSession, Session, Store, open_store
from holdfast.errors import StoreError
from holdfast.store.sqlite import brief
from holdfast.store.transaction import Transaction


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    async with open_store(f"sqlite:///{tmp_path}/brief.db") as opened:
        yield opened


@pytest.fixture
async def session(store: Store) -> Session:
    return await store.create_session(NewSession(title="one"))


async def reading_thread(store: Store) -> str:
    """The name of the thread that a brief read is done in."""

    async def name(tx: Transaction) -> str:
        assert await tx.all("session_totals")
        return threading.current_thread().name

    return await store._engine.read(name, brief=True)


async def test_a_brief_read_is_done_on_the_event_loop(store: Store, session: Session) -> None:
    assert await reading_thread(store) == threading.current_thread().name


async def test_who_reads_without_end_lets_the_others_write(store: Store, session: Session) -> None:
    appending = asyncio.create_task(store.append_messages(session.id, [Message.user("hello")]))
    while not await store.get_history(session.id):  # nothing here waits for anything but the read
        pass
    assert [message.text for message in await appending] == ["hello"]


async def test_whoever_would_wait_for_a_lock_waits_in_a_thread(store: Store, session: Session) -> None:
    loop_thread = threading.current_thread()

    async def locked_here(tx: Transaction) -> str:
        if threading.current_thread() is loop_thread:
            raise apsw.BusyError("database is locked")
        return threading.current_thread().name

    assert (await store._engine.read(locked_here, brief=True)).startswith("holdfast-reader-")


def test_a_page_of_a_time_range_is_not_brief() -> None:
    """Messages that came late are looked through for it, and there may be many."""
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    assert HistoryOptions(limit=5).brief
    assert not HistoryOptions(limit=5, since=moment).brief
    assert not HistoryOptions(limit=5, until=moment).brief


async def test_after_a_long_read_the_threads_read_for_a_while(
    store: Store, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(brief, "LONG_SECONDS", 0.0)  # every read is a long one
    await store.get_session(session.id)
    assert (await reading_thread(store)).startswith("holdfast-reader-")
    assert (await store.get_session(session.id)).title == "one"


async def test_so_they_do_after_a_wait_for_the_disk_but_not_for_a_processor(
    store: Store, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def waits(tx: Transaction) -> None:
        time.sleep(4 * brief.LONG_SECONDS)  # noqa: ASYNC251  # as a read does that the disk lets wait

    await store._engine.read(waits, brief=True)
    assert await reading_thread(store) == threading.current_thread().name
    monkeypatch.setattr(brief, "disk_reads", itertools.count(10**9).__next__)
    await store._engine.read(waits, brief=True)
    assert (await reading_thread(store)).startswith("holdfast-reader-")


async def test_a_large_message_is_read_by_the_threads(store: Store, session: Session) -> None:
    text = "large " * 20_000
    await store.append_messages(session.id, [Message.user("small"), Message.user(text)])
    read_in = []

    async def read(tx: Transaction) -> int:
        read_in.append(threading.current_thread().name)
        return len(await tx.all("history_after", 1, 0, 10))

    assert await store._engine.read(read, brief=True) == 2
    assert read_in[-1].startswith("holdfast-reader-")
    assert [message.text for message in await store.get_history(session.id)] == ["small", text]


async def test_what_sqlite_ended_itself_is_told_as_it_was(store: Store, session: Session) -> None:
    async def fails(tx: Transaction) -> None:
        await tx.query("ROLLBACK")
        raise apsw.IOError("disk I/O error")

    with pytest.raises(StoreError, match="could not be read or written"):
        await store._engine.read(fails, brief=True)


async def test_what_a_brief_read_raises_is_the_callers(store: Store, session: Session) -> None:
    async def fails(tx: Transaction) -> None:
        await tx.all("session_totals")
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await store._engine.read(fails, brief=True)
    assert (await store.get_session(session.id)).title == "one"
