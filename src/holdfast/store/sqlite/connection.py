"""Opening a SQLite file the one right way, and saying in one sentence what went wrong."""

from __future__ import annotations

import errno
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import apsw

from holdfast.errors import (
    Conflict,
    HoldfastError,
    InvalidInput,
    NotADatabase,
    StoreError,
    StoreFull,
    StoreReadOnly,
    StoreUnavailable,
)
from holdfast.store.transaction import Row

BUSY_MS = 30_000
"""How long a writer waits for another process's transaction before it says that the file is busy."""

STATEMENT_CACHE = 256

_TAKEN = (apsw.SQLITE_CONSTRAINT_UNIQUE, apsw.SQLITE_CONSTRAINT_PRIMARYKEY, apsw.SQLITE_CONSTRAINT_ROWID)

FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""What systems answer when there is no more room: on the disk, for the user, in the file."""


def peek(path: Path) -> apsw.Connection:
    """A connection that only looks, and leaves no file behind where there was none."""
    in_use = path.with_name(f"{path.name}-wal").exists()
    # Without a WAL, the file alone is the database; SQLite would otherwise make one just to read.
    name = str(path) if in_use else f"file:{quote(str(path))}?immutable=1"
    with reported(path):
        connection = apsw.Connection(name, flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)
    connection.set_busy_timeout(BUSY_MS)  # the last connection to close locks the file for a moment
    return connection


def connect(path: Path, durability: str, *, read_only: bool = False) -> apsw.Connection:
    """A connection with every setting that matters made explicit."""
    flags = apsw.SQLITE_OPEN_READONLY if read_only else apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
    with reported(path):
        connection = apsw.Connection(str(path), flags=flags, statementcachesize=STATEMENT_CACHE)
        try:
            connection.set_busy_timeout(BUSY_MS)
            # A plan may otherwise depend on the values of parameters, as it does where a table has a partial
            # index, and then SQLite prepares the statement anew each time a value is bound: a session's row
            # took 60 µs to read, and takes 8.
            connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
            if not read_only:
                # Before the first table, or it has no effect: deleted space is given back step by step.
                connection.pragma("auto_vacuum", 2)
                connection.pragma("journal_mode", "wal")
                connection.pragma("journal_size_limit", 16 * 1024 * 1024)
                # The writer checkpoints by itself, where it can see whether it succeeded.
                connection.wal_autocheckpoint(0)
            connection.pragma("synchronous", durability)
            connection.pragma("foreign_keys", 1)
        except BaseException:
            connection.close()
            raise
    return connection


class SqliteTransaction:
    """Named statements on one connection. Nothing here ever waits."""

    def __init__(self, connection: apsw.Connection, statements: Mapping[str, str]) -> None:
        self._execute = connection.execute
        self._executemany = connection.executemany
        self._statements = statements
        self.advanced: set[int] = set()

    def text(self, statement: str) -> str:
        return self._statements[statement]

    async def one(self, statement: str, *parameters: Any) -> Row | None:
        # Run to the end: a statement left in the middle would keep its snapshot open.
        rows = self._execute(self._statements[statement], parameters).fetchall()
        return rows[0] if rows else None

    async def all(self, statement: str, *parameters: Any) -> Sequence[Row]:
        return self._execute(self._statements[statement], parameters).fetchall()

    async def run(self, statement: str, *parameters: Any) -> None:
        self._execute(self._statements[statement], parameters)

    async def many(self, statement: str, rows: Sequence[Sequence[Any]]) -> None:
        self._executemany(self._statements[statement], rows)

    async def query(self, sql: str, *parameters: Any) -> Sequence[Row]:
        return self._execute(sql, parameters).fetchall()


@contextmanager
def reported(path: Path) -> Iterator[None]:
    """Turn SQLite's errors into ours."""
    try:
        yield
    except apsw.Error as error:
        raise as_ours(error, path) from error


def as_ours(error: apsw.Error, path: Path, system_error: int = 0) -> HoldfastError:
    """Our error for one of SQLite's, with the system's number where it has been asked for."""
    if isinstance(error, apsw.NotADBError | apsw.CorruptError):
        return NotADatabase(
            f"{path} is not a SQLite database, or it is damaged; restore a backup, or give another path."
        )
    if isinstance(error, apsw.ReadOnlyError):
        return StoreReadOnly(
            f"{path} cannot be written; give this user write permission on it and on its directory."
        )
    if isinstance(error, apsw.FullError) or (isinstance(error, apsw.IOError) and system_error in FULL):
        return StoreFull(
            f"The disk that holds {path} is full; nothing of this call was saved. Free some space."
        )
    if isinstance(error, apsw.CantOpenError):
        return StoreError(f"{path} cannot be opened; check that its directory exists and may be written.")
    if isinstance(error, apsw.BusyError | apsw.LockedError):
        return StoreUnavailable(
            f"{path} was locked by another program for {BUSY_MS // 1000} seconds; try again."
        )
    if isinstance(error, apsw.ConstraintError):
        if getattr(error, "extendedresult", 0) in _TAKEN:
            return Conflict(f"There is already a row with that id or key ({error}).")
        return InvalidInput(f"A value is not one that can be stored there ({error}).")
    if isinstance(error, apsw.TooBigError):
        return InvalidInput("The value is larger than SQLite can hold; store it as a blob.")
    if isinstance(error, apsw.IOError):
        return StoreError(f"{path} could not be read or written ({error}); nothing of this call was saved.")
    return StoreError(f"SQLite refused: {error}. Nothing of this call was saved.")
