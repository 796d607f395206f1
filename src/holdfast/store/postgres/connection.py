"""Connecting to PostgreSQL, and saying in one sentence what went wrong."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import asyncpg

from holdfast.errors import (
    Conflict,
    HoldfastError,
    InvalidInput,
    StoreError,
    StoreFull,
    StoreReadOnly,
    StoreUnavailable,
)
from holdfast.store.transaction import Row

CONNECT_SECONDS = 10
COMMAND_SECONDS = 60
"""No statement of ours takes this long; a connection that does not answer by then is given up."""

LOST = (
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,  # what it says when a connection dies between two of its own steps
    asyncpg.CannotConnectNowError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.TooManyConnectionsError,
    asyncio.TimeoutError,
    OSError,
)
"""What asyncpg raises when the server is not there, or goes away."""

Connection = asyncpg.Connection | asyncpg.pool.PoolConnectionProxy


async def connect(url: str, *, patient: bool = False) -> asyncpg.Connection:
    """A connection; a `patient` one is for work that takes as long as it takes, such as a migration."""
    with reported():
        connection = await asyncpg.connect(
            url,
            timeout=CONNECT_SECONDS,
            command_timeout=None if patient else COMMAND_SECONDS,
            statement_cache_size=512,
        )
        await prepare(connection)
    return connection


async def prepare(connection: Connection) -> None:
    """Ids are sixteen bytes on our side, whatever the engine."""
    await connection.set_type_codec(
        "uuid", schema="pg_catalog", format="binary", encoder=bytes, decoder=bytes
    )


class PostgresTransaction:
    """Named statements on one connection, in a transaction that its owner began."""

    def __init__(self, connection: Connection, statements: Mapping[str, str]) -> None:
        self._connection = connection
        self._statements = statements
        self.advanced: set[int] = set()
        self.wrote = False
        """Whether anything was changed since this was last set to False."""

    def text(self, statement: str) -> str:
        return self._statements[statement]

    async def one(self, statement: str, *parameters: Any) -> Row | None:
        sql = self._statements[statement]
        row: Row | None = await self._connection.fetchrow(sql, *parameters)
        if row is not None:
            self._note(sql)
        return row

    async def all(self, statement: str, *parameters: Any) -> Sequence[Row]:
        rows: Sequence[Row] = await self._connection.fetch(self._sql(statement), *parameters)
        return rows

    async def run(self, statement: str, *parameters: Any) -> None:
        await self._connection.execute(self._sql(statement), *parameters)

    async def many(self, statement: str, rows: Sequence[Sequence[Any]]) -> None:
        await self._connection.executemany(self._sql(statement), rows)

    async def query(self, sql: str, *parameters: Any) -> Sequence[Row]:
        self._note(sql)
        rows: Sequence[Row] = await self._connection.fetch(sql, *parameters)
        return rows

    def _sql(self, statement: str) -> str:
        sql = self._statements[statement]
        self._note(sql)
        return sql

    def _note(self, sql: str) -> None:
        if sql.startswith(("INSERT", "UPDATE", "DELETE")):
            self.wrote = True


@contextmanager
def reported() -> Iterator[None]:
    """Turn PostgreSQL's errors into ours."""
    try:
        yield
    except (asyncpg.PostgresError, *LOST) as error:
        raise as_ours(error) from error


def as_ours(error: Exception) -> HoldfastError:
    said = (str(error).splitlines() or [""])[0].rstrip(".") or type(error).__name__
    if isinstance(error, asyncpg.InvalidAuthorizationSpecificationError | asyncpg.InvalidCatalogNameError):
        return StoreError(
            f"PostgreSQL does not let us in: {said}. Check the user, password and database in the address."
        )
    if isinstance(error, asyncpg.DeadlockDetectedError | asyncpg.SerializationError):
        return StoreUnavailable("Other programs kept changing the same rows in PostgreSQL; try again.")
    if isinstance(error, asyncpg.DiskFullError):
        return StoreFull("PostgreSQL's disk is full; nothing of this call was saved. Free some space.")
    if isinstance(error, asyncpg.ReadOnlySQLTransactionError):
        return StoreReadOnly(
            "PostgreSQL takes no changes at the moment, as a standby does; nothing of this call was saved."
        )
    if isinstance(error, LOST):
        return StoreUnavailable(
            f"PostgreSQL did not answer ({said}); is it running? The call may be repeated."
        )
    if isinstance(error, asyncpg.UniqueViolationError):
        return Conflict(f"There is already a row with that id or key ({said}).")
    if isinstance(error, asyncpg.DataError | asyncpg.IntegrityConstraintViolationError):
        return InvalidInput(f"PostgreSQL cannot hold that value: {said}.")
    return StoreError(f"PostgreSQL refused: {said}. Nothing of this call was saved.")
