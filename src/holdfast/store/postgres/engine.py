"""The PostgreSQL engine: one writing connection, a small pool for reading."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Self, TypeVar, cast

import asyncpg

from holdfast.errors import Conflict, NotADatabase
from holdfast.store import schema, statements
from holdfast.store.engine import Committed
from holdfast.store.postgres.connection import (
    COMMAND_SECONDS,
    CONNECT_SECONDS,
    PostgresTransaction,
    connect,
    prepare,
    reported,
)
from holdfast.store.postgres.dump import dump
from holdfast.store.postgres.ownership import Ownership
from holdfast.store.postgres.writer import IN_USE_LOCK, WRITING_LOCK, Writer
from holdfast.store.transaction import Operation

T = TypeVar("T")

READERS = 4

TABLES = """
SELECT relname FROM pg_class t WHERE relnamespace = to_regnamespace(current_schema())
AND relkind IN ('r', 'v', 'm', 'p', 'f')
AND NOT EXISTS (SELECT 1 FROM pg_depend d WHERE d.objid = t.oid AND d.deptype = 'e')
"""
"""What is in the schema, without what extensions of PostgreSQL have put there."""

MIGRATION_LOCK = 0x686F6C64
"""The advisory lock that lets one node migrate at a time."""


class PostgresEngine:
    def __init__(self, url: str, writer: Writer, pool: asyncpg.Pool, ownership: Ownership) -> None:
        self.owner = ownership.owner
        self._ownership = ownership
        self._url = url
        self._writer = writer
        self._pool = pool
        self._statements = statements.load("postgres")

    @classmethod
    async def open(cls, url: str, durability: str) -> Self:
        await migrate(url)
        async with AsyncExitStack() as opened:
            ownership = Ownership()
            opened.callback(ownership.release)
            writer = await Writer.open(url, ownership.lock, durability, statements.load("postgres"))
            opened.push_async_callback(writer.close)
            with reported():
                pool = await asyncpg.create_pool(
                    url,
                    min_size=1,
                    max_size=READERS,
                    init=prepare,
                    timeout=CONNECT_SECONDS,
                    command_timeout=COMMAND_SECONDS,
                    statement_cache_size=512,
                )
            opened.pop_all()
        return cls(url, writer, pool, ownership)

    def listen(self, committed: Committed) -> None:
        self._writer.committed = committed

    async def read(self, operation: Operation[T], *, snapshot: bool = False, brief: bool = False) -> T:
        async with self._reader(snapshot) as tx:
            return await operation(tx)

    async def write(self, operation: Operation[T]) -> T:
        return cast(T, await self._writer.submit(operation))

    async def dead(self, owners: Iterable[str]) -> set[str]:
        with reported():
            async with self._pool.acquire() as connection:
                return await self._ownership.dead(connection, owners)

    async def ready(self) -> None:
        with reported():
            async with self._pool.acquire() as connection:
                recorded = await recorded_revision(connection)
        schema.require_head(recorded)

    async def problems(self) -> list[str]:
        with reported():
            rows = await self._pool.fetch(
                "SELECT indexrelid::regclass::text FROM pg_index WHERE NOT indisvalid OR NOT indisready"
            )
        return [f"index {name} is not usable; run REINDEX INDEX {name}" for (name,) in rows]

    async def backup(self, target: Path) -> None:
        await dump(self._url, target)

    async def vacuum(self) -> None:
        connection = await connect(self._url, patient=True)
        try:
            with reported():
                await connection.execute("VACUUM (ANALYZE)")
        finally:
            await connection.close()

    async def close(self) -> None:
        await self._writer.close()
        await self._pool.close()
        self._ownership.release()

    @asynccontextmanager
    async def _reader(self, snapshot: bool) -> AsyncIterator[PostgresTransaction]:
        with reported():
            async with self._pool.acquire() as connection:
                tx = PostgresTransaction(connection, self._statements)
                if not snapshot:
                    yield tx
                    return
                async with connection.transaction(isolation="repeatable_read", readonly=True):
                    yield tx


async def recorded_revision(connection: Any) -> str | None:
    """The schema revision of a database; None of an empty one."""
    listed = await connection.fetch(TABLES)
    names = {name for (name,) in listed}
    if not names:
        return None
    if not names >= {"alembic_version", schema.OURS}:
        raise NotADatabase(
            "That database has tables of another program; give another one, or a schema of its own."
        )
    return schema.recorded(await connection.fetchval("SELECT version_num FROM alembic_version"))


async def migrate(url: str, target: str | None = None) -> tuple[str | None, str | None]:
    """Bring the schema to `target`, or up to date; the revisions before and after."""
    connection = await connect(url, patient=True)
    try:
        with reported():
            async with connection.transaction():
                await connection.execute("SELECT pg_advisory_xact_lock($1)", MIGRATION_LOCK)
                before = await recorded_revision(connection)
                if target is not None and schema.is_down(before, target):
                    await _require_no_node(connection)
                if script := schema.script("postgresql", before, target):
                    # Tables are locked in another order than writers do it, so nobody writes meanwhile.
                    await connection.execute("SELECT pg_advisory_xact_lock($1)", WRITING_LOCK)
                    await connection.execute(script)
                return before, await recorded_revision(connection)
    finally:
        await connection.close()


async def _require_no_node(connection: Any) -> None:
    if not await connection.fetchval("SELECT pg_try_advisory_xact_lock($1)", IN_USE_LOCK):
        raise Conflict("A server or another program has this database open; stop all of them first.")


async def revision(url: str) -> str | None:
    connection = await connect(url)
    try:
        with reported():
            return await recorded_revision(connection)
    finally:
        await connection.close()
