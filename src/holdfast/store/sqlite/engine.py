"""The SQLite engine: one writer, a few readers, one file."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self, TypeVar, cast

import apsw

from holdfast.errors import NotADatabase, StoreError, StoreReadOnly
from holdfast.store import schema, statements
from holdfast.store.backup import published
from holdfast.store.engine import Committed
from holdfast.store.sqlite.brief import BriefReader, Elsewhere
from holdfast.store.sqlite.connection import connect, peek, reported
from holdfast.store.sqlite.ownership import Ownership, opening
from holdfast.store.sqlite.readers import Readers
from holdfast.store.sqlite.writer import Writer
from holdfast.store.transaction import Operation

T = TypeVar("T")


class SqliteEngine:
    def __init__(
        self,
        path: Path,
        writer: Writer,
        readers: Readers,
        brief: BriefReader,
        ownership: Ownership,
        durability: str,
    ) -> None:
        self.owner = ownership.owner
        self._path = path
        self._writer = writer
        self._readers = readers
        self._brief = brief
        self._ownership = ownership
        self._durability = durability

    @classmethod
    async def open(cls, path: Path, durability: str) -> Self:
        connection, ownership = await asyncio.to_thread(_open, path, durability)
        texts = statements.load("sqlite")
        readers = Readers(path, durability, texts)
        brief = BriefReader(path, durability, texts)
        return cls(path, Writer(connection, path, texts), readers, brief, ownership, durability)

    def listen(self, committed: Committed) -> None:
        self._writer.committed = committed

    async def read(self, operation: Operation[T], *, snapshot: bool = False, brief: bool = False) -> T:
        if brief:
            try:
                return await self._brief.read(operation)
            except Elsewhere:
                pass  # a lock, or a slow disk: the threads wait for it
        return cast(T, await self._readers.submit(operation, snapshot=snapshot))

    async def write(self, operation: Operation[T]) -> T:
        return cast(T, await self._writer.submit(operation))

    async def dead(self, owners: Iterable[str]) -> set[str]:
        return await asyncio.to_thread(self._ownership.dead, owners)

    async def ready(self) -> None:
        self._writer.place.check()
        schema.require_head(await asyncio.to_thread(revision, self._path))

    async def problems(self) -> list[str]:
        return await asyncio.to_thread(self._problems)

    async def backup(self, target: Path) -> None:
        await asyncio.to_thread(self._backup, target)

    async def vacuum(self) -> None:
        await asyncio.to_thread(self._vacuum)

    async def close(self) -> None:
        await self._readers.close()
        self._brief.close()
        await self._writer.close()
        self._ownership.release()

    def _problems(self) -> list[str]:
        with reported(self._path):
            connection = connect(self._path, self._durability, read_only=True)
            try:
                found = [
                    str(row[0]) for row in connection.execute("PRAGMA integrity_check") if row[0] != "ok"
                ]
                broken = connection.execute("PRAGMA foreign_key_check").fetchall()
                return found + [
                    f"row {row} of {table} refers to a missing {parent}" for table, row, parent, _ in broken
                ]
            finally:
                connection.close()

    def _backup(self, target: Path) -> None:
        with published(target) as file, reported(target):
            connection = connect(self._path, self._durability, read_only=True)
            try:
                connection.execute("VACUUM INTO $1", (str(file),))
            finally:
                connection.close()

    def _vacuum(self) -> None:
        with reported(self._path):
            connection = connect(self._path, self._durability)
            try:
                # Deleted words are only marked as deleted until their index is written anew.
                connection.execute("INSERT INTO message_words (message_words) VALUES ('optimize')")
                connection.execute("VACUUM")
                connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
            finally:
                connection.close()


def recorded_revision(connection: apsw.Connection, path: Path) -> str | None:
    """The schema revision of a database; None of an empty one."""
    listed = connection.execute(
        "SELECT name FROM sqlite_schema WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite_%'"
    )
    names = {name for (name,) in listed}
    if not names:
        return None
    if not names >= {"alembic_version", schema.OURS}:
        raise NotADatabase(f"{path} is the database of another program; give another path.")
    row = connection.execute("SELECT version_num FROM alembic_version").fetchone()
    return schema.recorded(row and row[0])


def migrate(path: Path, target: str | None = None) -> tuple[str | None, str | None]:
    """Bring the schema to `target`, or up to date; the revisions before and after."""
    with _one_at_a_time(path):
        _look(path)
        _own(path)
        connection = connect(path, "full")
        try:
            return _migrate(connection, path, target)
        finally:
            connection.close()


def revision(path: Path) -> str | None:
    if not _exists(path):
        return None
    connection = peek(path)
    try:
        with reported(path):
            return recorded_revision(connection, path)
    finally:
        connection.close()


def _open(path: Path, durability: str) -> tuple[apsw.Connection, Ownership]:
    with _one_at_a_time(path):
        _look(path)
        _own(path)
        connection = connect(path, durability)
        try:
            _migrate(connection, path, None)
            return connection, Ownership(path)
        except BaseException:
            connection.close()
            raise


def _look(path: Path) -> None:
    """Refuse a file that is not ours before anything of it is changed: opening for writing does."""
    schema.behind(revision(path))


def _own(path: Path) -> None:
    """A new file is its owner's alone, as the files beside it then are: all that was said is in it."""
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))


def _exists(path: Path) -> bool:
    try:
        return path.stat().st_size > 0
    except FileNotFoundError:
        return False
    except OSError as error:
        raise _unusable(path, error) from error


@contextmanager
def _one_at_a_time(path: Path) -> Iterator[None]:
    if not path.parent.is_dir():
        raise StoreError(f"There is no directory {path.parent}; create it, or give another path.")
    try:
        with opening(path):
            yield
    except OSError as error:
        raise _unusable(path, error) from error


def _unusable(path: Path, error: OSError) -> StoreError:
    if isinstance(error, PermissionError):
        return StoreReadOnly(
            f"{path.parent} cannot be used; give this user write permission on that directory."
        )
    return StoreError(f"{path} cannot be opened: {error.strerror}.")


def _migrate(connection: apsw.Connection, path: Path, target: str | None) -> tuple[str | None, str | None]:
    with reported(path):
        before = recorded_revision(connection, path)
        if script := schema.script("sqlite", before, target):
            connection.execute("BEGIN IMMEDIATE")
            try:
                connection.execute(script).fetchall()
                connection.execute("COMMIT")
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
        return before, recorded_revision(connection, path)
