"""Looking into a store: through its own methods for what it promises, past them for what it hides."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import apsw
import asyncpg

from holdfast import HistoryOptions, Message, Store, Turn
from holdfast.model.session import SessionRef
from holdfast.store import dialect, sqlite_path


async def history(store: Store, ref: SessionRef) -> list[Message]:
    """Every message of a session."""
    messages: list[Message] = []
    cursor: int | None = 0
    while cursor is not None:
        page = await store.get_history(ref, HistoryOptions(after=cursor, limit=10_000))
        messages += page.messages
        cursor = page.newer
    return messages


async def turns(store: Store, ref: SessionRef) -> list[Turn]:
    """Every turn of a session."""
    found = list(await store.list_turns(ref, limit=10_000))
    assert len(found) < 10_000
    return found


async def rows(url: str, query: str) -> list[tuple[Any, ...]]:
    """What the database itself answers."""
    if dialect(url) == "sqlite":
        connection = apsw.Connection(str(sqlite_path(url)), flags=apsw.SQLITE_OPEN_READONLY)
        try:
            return connection.execute(query).fetchall()
        finally:
            connection.close()
    server = await asyncpg.connect(url)
    try:
        return [tuple(row) for row in await server.fetch(query)]
    finally:
        await server.close()


async def changed(url: str, statement: str) -> None:
    """Change a database past the store."""
    if dialect(url) == "sqlite":
        connection = apsw.Connection(str(sqlite_path(url)))
        try:
            connection.execute(statement)
        finally:
            connection.close()
        return
    server = await asyncpg.connect(url)
    try:
        await server.execute(statement)
    finally:
        await server.close()


@asynccontextmanager
async def holding(url: str, table: str) -> AsyncIterator[None]:
    """Keep a table of PostgreSQL from everybody else."""
    connection = await asyncpg.connect(url)
    try:
        async with connection.transaction():
            await connection.execute(f"LOCK TABLE {table}")
            yield
    finally:
        await connection.close()


async def assert_counts_are_true(store: Store, ref: SessionRef) -> None:
    """The header of a session says what its rows say, and their numbers have no gap."""
    session = await store.get_session(ref)
    assert [message.seq for message in await history(store, ref)] == [*range(1, session.message_count + 1)]
    assert [turn.sequence_number for turn in await turns(store, ref)] == [*range(1, session.turn_count + 1)]


def assert_one_sentence(text: str) -> None:
    """What a person reads when something failed: one line, in prose, without the insides of a program."""
    assert text == text.strip()
    assert "\n" not in text
    assert text[0].isupper() or text.startswith(("/", "'", "pg_dump "))
    assert text.endswith((".", "'"))
    assert "Traceback" not in text
