"""The PostgreSQL engine: one writing connection, a small pool for reading."""

from __future__ import annotations

import asyncio
import secrets
import shutil
import subprocess
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Self, TypeVar, cast

import asyncpg

from holdfast.errors import NotADatabase, StoreError
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
from holdfast.store.postgres.writer import Writer
from holdfast.store.transaction import Operation

T = TypeVar("T")

READERS = 4

MIGRATION_LOCK = 0x686F6C64
"""The advisory lock that lets one node migrate at a time."""


class PostgresEngine:
    def __init__(self, url: str, writer: Writer, pool: asyncpg.Pool, owner: int) -> None:
        self.owner = str(owner)
        self._url = url
        self._writer = writer
        self._pool = pool
        self._statements = statements.load("postgres")

    @classmethod
    async def open(cls, url: str, durability: str) -> Self:
        await migrate(url)
        owner = secrets.randbits(62)
        writer = Writer(url, owner, durability, statements.load("postgres"))
        await writer.connect()
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
        return cls(url, writer, pool, owner)

    def listen(self, committed: Committed) -> None:
        self._writer.committed = committed

    async def read(self, operation: Operation[T], *, snapshot: bool = False) -> T:
        async with self._reader(snapshot) as tx:
            return await operation(tx)

    async def write(self, operation: Operation[T]) -> T:
        return cast(T, await self._writer.submit(operation))

    async def dead(self, owners: Iterable[str]) -> set[str]:
        """An owner whose lock can be taken has no connection any more."""
        dead = set()
        with reported():
            async with self._pool.acquire() as connection:
                for owner in set(owners) - {self.owner}:
                    if await connection.fetchval("SELECT pg_try_advisory_lock($1)", int(owner)):
                        await connection.fetchval("SELECT pg_advisory_unlock($1)", int(owner))
                        dead.add(owner)
        return dead

    async def problems(self) -> list[str]:
        with reported():
            rows = await self._pool.fetch(
                "SELECT indexrelid::regclass::text FROM pg_index WHERE NOT indisvalid OR NOT indisready"
            )
        return [f"index {name} is not usable; run REINDEX INDEX {name}" for (name,) in rows]

    async def backup(self, target: Path) -> None:
        """PostgreSQL's own dump, which is consistent while writers run."""
        await asyncio.to_thread(_dump, self._url, target)

    async def vacuum(self) -> None:
        with reported():
            await self._pool.execute("VACUUM (ANALYZE)", timeout=None)

    async def close(self) -> None:
        await self._writer.close()
        await self._pool.close()

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


def _dump(url: str, target: Path) -> None:
    if target.exists():
        raise StoreError(f"{target} already exists; a backup never overwrites.")
    program = shutil.which("pg_dump")
    if program is None:
        raise StoreError(
            "pg_dump is not installed here; install PostgreSQL's client programs to make a backup."
        )
    command = [program, "--format=custom", f"--file={target}", f"--dbname={url}"]
    dump = subprocess.run(command, capture_output=True, text=True, check=False)
    if dump.returncode != 0:
        target.unlink(missing_ok=True)
        complaint = " ".join(dump.stderr.split()).rstrip(".")
        raise StoreError(f"pg_dump failed: {complaint}.")


async def recorded_revision(connection: Any) -> str | None:
    """The schema revision of a database; None of an empty one."""
    if await connection.fetchval("SELECT to_regclass('alembic_version')") is None:
        if await connection.fetchval("SELECT to_regclass('sessions')") is not None:
            raise NotADatabase("That database belongs to another program; give another one.")
        return None
    revision = await connection.fetchval("SELECT version_num FROM alembic_version")
    return None if revision is None else str(revision)


async def migrate(url: str, target: str | None = None) -> tuple[str | None, str | None]:
    """Bring the schema to `target`, or up to date; the revisions before and after."""
    connection = await connect(url)
    try:
        with reported():
            async with connection.transaction():
                await connection.execute("SELECT pg_advisory_xact_lock($1)", MIGRATION_LOCK)
                before = await recorded_revision(connection)
                if script := schema.script("postgresql", before, target):
                    await connection.execute(script)
                return before, await recorded_revision(connection)
    finally:
        await connection.close()


async def revision(url: str) -> str | None:
    connection = await connect(url)
    try:
        with reported():
            return await recorded_revision(connection)
    finally:
        await connection.close()
