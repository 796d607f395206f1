"""Threads that read, each with a connection of its own.

A read runs to its end inside its thread, so no snapshot is ever held while a caller does
something else, and the WAL can always be emptied.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import apsw

from holdfast.errors import StoreClosed
from holdfast.store.sqlite.connection import SqliteTransaction, as_ours, connect
from holdfast.store.transaction import Operation, run_through

COUNT = 3
"""Reading threads: one that waits for the disk must not hold up the others."""


class Readers:
    def __init__(self, path: Path, durability: str, statements: Mapping[str, str]) -> None:
        self._path = path
        self._statements = statements
        self._queue: SimpleQueue[tuple[Operation[Any], bool, asyncio.Future[Any]] | None] = SimpleQueue()
        self._loop = asyncio.get_running_loop()
        self._closed = False
        self._threads = [
            threading.Thread(
                target=self._run,
                args=(connect(path, durability, read_only=True),),
                name=f"holdfast-reader-{number}-{path.name}",
                daemon=True,
            )
            for number in range(COUNT)
        ]
        for thread in self._threads:
            thread.start()

    async def submit(self, operation: Operation[Any], *, snapshot: bool) -> Any:
        if self._closed:
            raise StoreClosed
        future: asyncio.Future[Any] = self._loop.create_future()
        self._queue.put((operation, snapshot, future))
        return await future

    async def close(self) -> None:
        self._closed = True
        for _ in self._threads:
            self._queue.put(None)
        for thread in self._threads:
            await asyncio.to_thread(thread.join)

    def _run(self, connection: apsw.Connection) -> None:
        transaction = SqliteTransaction(connection, self._statements)
        while (job := self._queue.get()) is not None:
            operation, snapshot, future = job
            try:
                if snapshot:
                    with connection:
                        result = run_through(operation(transaction))
                else:
                    result = run_through(operation(transaction))
            except apsw.Error as error:
                self._loop.call_soon_threadsafe(_fail, future, as_ours(error, self._path))
            except Exception as error:  # whatever it is, it belongs to the caller
                self._loop.call_soon_threadsafe(_fail, future, error)
            else:
                self._loop.call_soon_threadsafe(_answer, future, result)
        connection.close()


def _answer(future: asyncio.Future[Any], result: Any) -> None:
    if not future.done():
        future.set_result(result)


def _fail(future: asyncio.Future[Any], error: Exception) -> None:
    if not future.done():
        future.set_exception(error)
