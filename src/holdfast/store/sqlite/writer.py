"""The one writer of a process: takes everything that waits, commits it once, then answers.

Under load, a hundred appends share one fsync. An operation that fails is taken back alone:
unless it had already written, nothing needs to be; else the batch is rolled back and run again
without it, which is rare and right.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Mapping, Set
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

import apsw

from holdfast.errors import StoreClosed, StoreReplaced
from holdfast.store.engine import Committed
from holdfast.store.sqlite.connection import BUSY_MS, SqliteTransaction, as_ours
from holdfast.store.transaction import Operation, run_through

log = logging.getLogger("holdfast.store")

MAX_BATCH = 1024
"""Operations in one transaction: enough to share an fsync, few enough not to make other processes wait."""

CHECKPOINT_PAGES = 1000
"""WAL pages after which what can be copied into the database is."""

TRUNCATE_PAGES = 4 * CHECKPOINT_PAGES
"""WAL pages after which readers are waited for, briefly, so that the file can shrink."""

TRUNCATE_WAIT_MS = 250

LARGE_PAGES = 16 * CHECKPOINT_PAGES
"""WAL pages, 64 MB of them, from which on somebody should know who keeps it from shrinking."""

VACUUM_STEP = 500
"""Free pages given back at once while nobody waits."""

QUIET_SECONDS = 0.02
"""How long nobody must have written before free pages are looked for."""


class Job:
    __slots__ = ("error", "future", "operation", "result")

    def __init__(self, operation: Operation[Any], future: asyncio.Future[Any]) -> None:
        self.operation = operation
        self.future = future
        self.result: Any = None
        self.error: BaseException | None = None


class Place:
    """The files of a database as they were opened. One that is deleted or replaced is still open here."""

    def __init__(self, path: Path) -> None:
        self._files = {each: _identity(each) for each in (path, path.with_name(f"{path.name}-wal"))}

    def check(self) -> None:
        for path, opened in self._files.items():
            if opened is not None and _identity(path) != opened:
                raise StoreReplaced(
                    f"{path} was deleted or replaced while it was open, so nothing is saved any more. Put "
                    "the file back, or accept what is there now, and start again."
                )


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


class Writer:
    def __init__(self, connection: apsw.Connection, path: Path, statements: Mapping[str, str]) -> None:
        self._connection = connection
        self._path = path
        self.place = Place(path)
        self._transaction = SqliteTransaction(connection, statements)
        self._queue: SimpleQueue[Job | None] = SimpleQueue()
        self._loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._run, name=f"holdfast-writer-{path.name}", daemon=True)
        self._closed = False
        self.committed: Committed | None = None
        self._wal_pages = 0
        self._checkpoint_at = CHECKPOINT_PAGES
        self._wait_at = TRUNCATE_PAGES
        self._complain_at = LARGE_PAGES
        connection.set_wal_hook(self._note_wal)
        self._thread.start()

    async def submit(self, operation: Operation[Any]) -> Any:
        if self._closed:
            raise StoreClosed
        future: asyncio.Future[Any] = self._loop.create_future()
        self._queue.put(Job(operation, future))
        return await future

    async def close(self) -> None:
        """Commit what waits, then stop."""
        self._closed = True
        self._queue.put(None)
        await asyncio.to_thread(self._thread.join)

    def _run(self) -> None:
        closing = False
        while not closing:
            batch, closing = self._take()
            if batch:
                self._commit(batch)
                self._loop.call_soon_threadsafe(self._answer, batch, self._transaction.advanced)
                self._checkpoint()
        self._connection.close()

    def _take(self) -> tuple[list[Job], bool]:
        """Everything that waits, or the first thing to come; and whether it was the last."""
        batch: list[Job] = []
        job = self._wait()
        while job is not None:
            batch.append(job)
            if len(batch) == MAX_BATCH:
                return batch, False
            try:
                job = self._queue.get_nowait()
            except Empty:
                return batch, False
        return batch, True

    def _wait(self) -> Job | None:
        """The first thing to come. While nothing comes, free space is given back."""
        quiet: float | None = QUIET_SECONDS
        while True:
            try:
                return self._queue.get(timeout=quiet)
            except Empty:
                quiet = 0 if self._give_back_space() else None

    def _commit(self, batch: list[Job]) -> None:
        try:
            self.place.check()
            while not self._attempt(batch):
                pass
        except StoreReplaced as error:
            for job in batch:
                job.error = error
        except apsw.Error as error:
            for job in batch:
                job.error = job.error or as_ours(error, self._path, self._connection.system_errno)

    def _attempt(self, batch: list[Job]) -> bool:
        """Run and commit what has not failed; False when one failed half-way and the rest must run again."""
        connection = self._connection
        self._transaction.advanced = set()
        connection.execute("BEGIN IMMEDIATE")
        try:
            for job in batch:
                if job.error is None and not self._ran(job):
                    connection.execute("ROLLBACK")
                    return False
            connection.execute("COMMIT")
            return True
        finally:
            if connection.in_transaction:
                connection.execute("ROLLBACK")

    def _ran(self, job: Job) -> bool:
        """Run one operation; False when it failed after it had written."""
        before = self._connection.total_changes()
        try:
            job.result = run_through(job.operation(self._transaction))
        except apsw.Error as error:
            if not self._connection.in_transaction:
                raise  # SQLite took the whole batch back
            job.error = as_ours(error, self._path, self._connection.system_errno)
        except Exception as error:  # whatever it is, it belongs to the caller
            job.error = error
        return job.error is None or self._connection.total_changes() == before

    def _answer(self, batch: list[Job], advanced: Set[int]) -> None:
        for job in batch:
            if job.future.done():
                continue  # its caller was cancelled and does not wait any more
            if job.error is not None:
                job.future.set_exception(job.error)
            else:
                job.future.set_result(job.result)
        if self.committed is not None:
            self.committed(advanced)

    def _note_wal(self, connection: apsw.Connection, database: str, pages: int) -> int:
        if pages < self._wal_pages:  # it was written from its start again
            self._checkpoint_at = CHECKPOINT_PAGES
        self._wal_pages = pages
        return apsw.SQLITE_OK

    def _checkpoint(self) -> None:
        """Keep the WAL small. A reader in the middle of something delays this, and never stops the writer."""
        if self._wal_pages < self._checkpoint_at:
            return
        self._checkpoint_at = self._wal_pages + CHECKPOINT_PAGES
        try:
            pages, copied = self._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
            if copied == pages and self._wal_pages >= TRUNCATE_PAGES:
                self._truncate(0)
            elif self._wal_pages >= self._wait_at:
                # Somebody reads on an old snapshot; waiting again is worth it once there is more to gain.
                self._wait_at = self._wal_pages + TRUNCATE_PAGES
                self._truncate(TRUNCATE_WAIT_MS)
                self._complain()
        except apsw.BusyError:
            log.debug("another process writes back the WAL of %s", self._path)
        except apsw.Error as error:
            log.warning("the WAL of %s stays as it is for now: %s", self._path, error)

    def _complain(self) -> None:
        """Say once that somebody reads on and on; the log of what is written meanwhile only grows."""
        if self._wal_pages >= self._complain_at:
            self._complain_at = 4 * self._wal_pages
            megabytes = self._wal_pages * 4096 // 1_000_000
            log.warning(
                "the WAL of %s has grown to %d MB, because a program has been reading it all the time; "
                "it shrinks when that program ends its transaction",
                *(self._path, megabytes),
            )

    def _truncate(self, wait_ms: int) -> None:
        """Empty the WAL, waiting that long for readers who are in the middle of it."""
        self._connection.set_busy_timeout(wait_ms)
        try:
            self._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
            self._wait_at = TRUNCATE_PAGES
        except apsw.BusyError:
            log.debug("the WAL of %s is being read", self._path)
        finally:
            self._connection.set_busy_timeout(BUSY_MS)

    def _give_back_space(self) -> bool:
        """Return some free pages to the file system, while nobody waits; whether there are more."""
        try:
            if self._connection.pragma("freelist_count") <= VACUUM_STEP:
                return False
            self._connection.execute(f"PRAGMA incremental_vacuum({VACUUM_STEP})").fetchall()
            if self._connection.pragma("freelist_count") <= VACUUM_STEP:
                self._checkpoint_at = 0  # the file itself shrinks only then
        except apsw.Error as error:
            log.warning("free space of %s is not given back for now: %s", self._path, error)
            return False
        self._checkpoint()
        return True
