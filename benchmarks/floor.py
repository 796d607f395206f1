"""The floor: the least that any store must do, written by hand for one purpose.

No threads, no ids to look up, no rights to check, no rows made into objects: a session's row (its next
sequence number and its time of change, with the two indexes that listings need) and the message, in
one transaction per append. The message's key packs its session and its sequence number into one
integer, so that no second index is needed.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import apsw
import asyncpg
import msgspec

SCHEMA = """
CREATE TABLE sessions (
    pk INTEGER PRIMARY KEY,
    id BLOB NOT NULL UNIQUE,
    title TEXT,
    status TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    next_seq INTEGER NOT NULL
);
CREATE INDEX sessions_updated ON sessions (updated_at);
CREATE INDEX sessions_updated_by_status ON sessions (status, updated_at);
CREATE TABLE messages (key INTEGER PRIMARY KEY, body TEXT NOT NULL);
CREATE TABLE chunks (pk INTEGER PRIMARY KEY, message INTEGER NOT NULL, text TEXT NOT NULL);
"""

TOUCH = "UPDATE sessions SET next_seq = next_seq + 1, updated_at = ? WHERE pk = ? RETURNING next_seq"
INSERT = "INSERT INTO messages (key, body) VALUES (?, ?)"
LATEST = "SELECT body FROM messages WHERE key BETWEEN ? AND ? ORDER BY key DESC LIMIT ?"
WHOLE = "SELECT body FROM messages WHERE key BETWEEN ? AND ? ORDER BY key"
PAGE = """SELECT id, title, status, created_at, updated_at, next_seq FROM sessions
ORDER BY updated_at DESC LIMIT ?"""
WIDE_PAGE = "SELECT * FROM wide ORDER BY updated_at DESC LIMIT ?"

encode = msgspec.json.Encoder().encode
decode = msgspec.json.Decoder().decode


class SqliteFloor:
    """A SQLite file, used directly. `connect_apsw` and `connect_stdlib` open one.

    One process must not open one file with both: each would give up the other's locks.
    """

    def __init__(self, connection: apsw.Connection | sqlite3.Connection, durability: str) -> None:
        self._connection = connection
        self._execute: Callable[..., Any] = connection.execute
        for setting in ("journal_mode = WAL", f"synchronous = {durability}", "busy_timeout = 5000"):
            connection.execute(f"PRAGMA {setting}").fetchall()
        for statement in SCHEMA.split(";"):
            connection.execute(statement)

    def append(self, session: int, message: dict[str, Any]) -> int:
        """One message, durable when this returns; its sequence number."""
        body = encode(message).decode()
        self._execute("BEGIN IMMEDIATE")
        ((seq,),) = self._execute(TOUCH, (_now(), session)).fetchall()
        self._execute(INSERT, (session << 32 | seq, body))
        self._execute("COMMIT")
        return int(seq)

    def latest(self, session: int, count: int) -> list[Any]:
        rows = self._execute(LATEST, (session << 32, (session + 1) << 32, count)).fetchall()
        return [decode(body) for (body,) in reversed(rows)]

    def whole_history(self, session: int) -> bytes:
        rows = self._execute(WHOLE, (session << 32, (session + 1) << 32)).fetchall()
        return f"[{','.join([body for (body,) in rows])}]".encode()

    def page(self, count: int) -> Sequence[Any]:
        rows: Sequence[Any] = self._execute(PAGE, (count,)).fetchall()
        return rows

    def copy_listing(self, database: Path) -> None:
        """Take over the sessions of one of our databases, every column, with the index that lists them."""
        self._execute("ATTACH ? AS ours", (str(database),))
        self._execute("CREATE TABLE wide AS SELECT * FROM ours.sessions")
        self._execute("CREATE INDEX wide_updated ON wide (updated_at)")
        self._execute("DETACH ours")

    def wide_page(self, count: int) -> Sequence[Any]:
        """A page of the sessions that were taken over."""
        rows: Sequence[Any] = self._execute(WIDE_PAGE, (count,)).fetchall()
        return rows

    def write_chunks(self, chunks: Iterable[tuple[int, str]]) -> None:
        """Pieces of streaming messages, in one transaction."""
        self._execute("BEGIN IMMEDIATE")
        self._connection.executemany("INSERT INTO chunks (message, text) VALUES (?, ?)", chunks)
        self._execute("COMMIT")

    def add_sessions(self, count: int) -> None:
        """Sessions 1 to `count`, changed in another order than they were created."""
        now = _now()
        rows = (
            (pk, pk.to_bytes(16, "big"), f"Session {pk}", "active", now + pk, now + pk * 7919 % count, 0)
            for pk in range(1, count + 1)
        )
        self._fill("INSERT INTO sessions VALUES (?, ?, ?, ?, ?, ?, ?)", rows)

    def add_messages(self, places: Iterable[tuple[int, int]], message: dict[str, Any]) -> None:
        """A message at each `(session, seq)`, in that order, in one transaction."""
        body = encode(message).decode()
        self._fill(INSERT, ((session << 32 | seq, body) for session, seq in places))

    def close(self) -> None:
        self._connection.close()

    def _fill(self, statement: str, rows: Iterable[tuple[Any, ...]]) -> None:
        self._execute("BEGIN IMMEDIATE")
        self._connection.executemany(statement, rows)
        self._execute("COMMIT")


def connect_apsw(path: Path, durability: str = "FULL") -> SqliteFloor:
    return SqliteFloor(apsw.Connection(str(path)), durability)


def connect_stdlib(path: Path, durability: str = "FULL") -> SqliteFloor:
    return SqliteFloor(sqlite3.connect(path, isolation_level=None), durability)


POSTGRES_SCHEMA = """
CREATE TABLE sessions (
    pk bigint PRIMARY KEY,
    status text NOT NULL,
    updated_at bigint NOT NULL,
    next_seq bigint NOT NULL
);
CREATE INDEX sessions_updated ON sessions (updated_at);
CREATE INDEX sessions_updated_by_status ON sessions (status, updated_at);
CREATE TABLE messages (session bigint, seq bigint, body text NOT NULL, PRIMARY KEY (session, seq));
"""

POSTGRES_APPEND = """
WITH head AS (
    UPDATE sessions SET next_seq = next_seq + 1, updated_at = $2 WHERE pk = $1 RETURNING next_seq
)
INSERT INTO messages (session, seq, body) SELECT $1, next_seq, $3 FROM head RETURNING seq
"""


class PostgresFloor:
    """A pool of connections, and one statement per message."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool

    async def append(self, session: int, message: dict[str, Any]) -> int:
        seq = await self._pool.fetchval(POSTGRES_APPEND, session, _now(), encode(message).decode())
        return int(seq)

    async def add_sessions(self, count: int) -> None:
        await self._pool.execute(POSTGRES_SCHEMA)
        rows = [(pk, "active", _now(), 0) for pk in range(1, count + 1)]
        await self._pool.executemany("INSERT INTO sessions VALUES ($1, $2, $3, $4)", rows)


def _now() -> int:
    return time.time_ns() // 1_000_000
