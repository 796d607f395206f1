"""The one writing connection of a process: takes everything that waits, commits it once, then answers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from contextlib import suppress
from itertools import groupby
from typing import Any, Self

import asyncpg

from holdfast.errors import HoldfastError, StoreClosed, StoreError
from holdfast.store.engine import Committed
from holdfast.store.messages import Append
from holdfast.store.postgres.append import append_many
from holdfast.store.postgres.connection import LOST, PostgresTransaction, as_ours, connect, reported
from holdfast.store.transaction import Operation

log = logging.getLogger("holdfast.store")

MAX_BATCH = 1024

RACES = (asyncpg.DeadlockDetectedError, asyncpg.SerializationError)
"""What another node's transaction may do to ours. Run again, ours sees what the other one did."""

RACE_ATTEMPTS = 10

RECONNECT_SECONDS = 1
"""How often to try, when there is nothing to write, to get a lost connection back."""

WRITING_LOCK = 0x68662077
"""The advisory lock of a node that writes."""


IN_USE_LOCK = 0x686F6C65
"""The advisory lock that all nodes share: while one is up, the schema is not brought down."""


class Job:
    __slots__ = ("alone", "error", "future", "operation", "raced", "result")

    def __init__(self, operation: Operation[Any]) -> None:
        self.operation = operation
        self.future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.result: Any = None
        self.error: BaseException | None = None
        self.raced = False
        self.alone = False


class Writer:
    def __init__(self, url: str, lock: int, durability: str, statements: Mapping[str, str]) -> None:
        self._url = url
        self._lock = lock
        self._durability = durability
        self._statements = statements
        self._connection: asyncpg.Connection | None = None
        self._waiting: list[Job] = []
        self._wake = asyncio.Event()
        self._closed = False
        self.committed: Committed | None = None
        self._task: asyncio.Task[None] | None = None

    @classmethod
    async def open(cls, url: str, lock: int, durability: str, statements: Mapping[str, str]) -> Self:
        writer = cls(url, lock, durability, statements)
        await writer._connect()
        writer._task = asyncio.get_running_loop().create_task(writer._run(), name="holdfast-writer")
        return writer

    async def submit(self, operation: Operation[Any]) -> Any:
        if self._closed:
            raise StoreClosed
        job = Job(operation)
        self._waiting.append(job)
        self._wake.set()
        return await job.future

    async def close(self) -> None:
        """Commit what waits, then stop."""
        self._closed = True
        self._wake.set()
        if self._task is not None:
            await self._task
        if self._connection is not None and not self._connection.is_closed():
            await self._connection.close()

    async def _connect(self) -> asyncpg.Connection:
        """The connection, made anew where it was lost; it holds the lock that says we are alive."""
        if self._connection is None or self._connection.is_closed():
            connection = await connect(self._url)
            try:
                with reported():
                    # Shared, so as not to wait for a connection of ours that the server has not yet missed.
                    await connection.execute("SELECT pg_advisory_lock_shared($1)", self._lock)
                    await connection.execute("SELECT pg_advisory_lock_shared($1)", IN_USE_LOCK)
                    if self._durability == "normal":
                        await connection.execute("SET synchronous_commit = off")
            except BaseException:
                connection.terminate()
                raise
            connection.add_termination_listener(lambda _: self._wake.set())
            self._connection = connection
        return self._connection

    async def _run(self) -> None:
        while self._waiting or not self._closed:
            if not self._waiting:
                self._wake.clear()
                await self._idle()
                continue
            batch, self._waiting = self._waiting[:MAX_BATCH], self._waiting[MAX_BATCH:]
            await self._commit(batch)
            for job in batch:
                if job.future.done():
                    continue  # its caller was cancelled and does not wait any more
                if job.error is not None:
                    job.future.set_exception(job.error)
                else:
                    job.future.set_result(job.result)

    async def _idle(self) -> None:
        """Wait for something to do, and meanwhile get back a connection that was lost."""
        patience = None
        try:
            await self._connect()
        except HoldfastError as error:
            log.debug("no connection yet: %s", error)
            patience = RECONNECT_SECONDS
        with suppress(TimeoutError):
            async with asyncio.timeout(patience):
                await self._wake.wait()

    async def _commit(self, batch: list[Job]) -> None:
        races = 0
        try:
            while True:
                try:
                    if await self._attempt(batch):
                        return
                except RACES:
                    races += 1
                    if len(batch) > 1:
                        break
                    if races == RACE_ATTEMPTS:
                        raise
        except (asyncpg.PostgresError, *LOST) as error:
            self._fail(batch, as_ours(error))
            if isinstance(error, LOST) and self._connection is not None:
                self._connection.terminate()
        except HoldfastError as error:  # no connection
            self._fail(batch, error)
        except Exception as error:
            log.exception("a batch of %d writes failed", len(batch))
            self._fail(batch, StoreError(f"The write failed: {error}. Nothing of this call was saved."))
        if races and len(batch) > 1:
            # Another program locks what we share in another order; one call by itself locks one session.
            for job in batch:
                if job.error is None:
                    job.alone = True
                    await self._commit([job])

    def _fail(self, batch: list[Job], error: HoldfastError) -> None:
        for job in batch:
            job.error = job.error or error

    async def _attempt(self, batch: list[Job]) -> bool:
        """Run and commit what has not failed; False when one failed half-way and the rest must run again."""
        connection = await self._connect()
        tx = PostgresTransaction(connection, self._statements)
        # Nodes that share sessions would lock them in different orders; a batch is short, so they take turns.
        await connection.execute(f"BEGIN; SELECT pg_advisory_xact_lock({WRITING_LOCK})")
        try:
            done = await self._run_all(tx, [job for job in batch if job.error is None])
        except BaseException:
            await _roll_back(connection)
            raise
        if done:
            await connection.execute("COMMIT")
            if self.committed is not None:
                self.committed(tx.advanced)
        else:
            await _roll_back(connection)
        return done

    async def _run_all(self, tx: PostgresTransaction, jobs: list[Job]) -> bool:
        for plain, group in groupby(jobs, _is_plain):
            if plain:
                if not await self._append(tx, list(group)):
                    return False
                continue
            for job in group:
                if not await self._ran(tx, job):
                    return False
        return True

    async def _ran(self, tx: PostgresTransaction, job: Job) -> bool:
        """Run one operation; False when it failed after it had written, or broke the transaction."""
        tx.wrote = False
        try:
            job.result = await job.operation(tx)
        except (*RACES, *LOST):
            raise
        except asyncpg.IntegrityConstraintViolationError as error:
            # Another node may have been faster; run again, the operation sees what that one did.
            if job.raced:
                job.error = as_ours(error)
            job.raced = True
            return False
        except asyncpg.PostgresError as error:
            job.error = as_ours(error)
            return False
        except Exception as error:  # whatever it is, it belongs to the caller
            job.error = error
        return job.error is None or not tx.wrote

    async def _append(self, tx: PostgresTransaction, jobs: list[Job]) -> bool:
        """Run plain appends as one statement; False when that broke the transaction."""
        try:
            outcomes = await append_many(tx, [job.operation for job in jobs])  # type: ignore[misc]
        except (*RACES, *LOST):
            raise
        except asyncpg.PostgresError:
            for job in jobs:
                job.alone = True  # one of them is at fault, and will be found by running each by itself
            return False
        for job, outcome in zip(jobs, outcomes, strict=True):
            if isinstance(outcome, HoldfastError):
                job.error = outcome
            elif outcome is not None:
                job.result = outcome
            elif not await self._ran(tx, job):
                return False
        return True


async def _roll_back(connection: asyncpg.Connection) -> None:
    """Take everything back; a connection that cannot even do that is given up."""
    try:
        await connection.execute("ROLLBACK")
    except (asyncpg.PostgresError, *LOST):
        connection.terminate()


def _is_plain(job: Job) -> bool:
    return not job.alone and isinstance(job.operation, Append) and job.operation.is_plain
