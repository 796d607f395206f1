"""Brief reads, done where they are asked for.

A few rows found by an index and still in the system's cache are read in less time than it takes to
wake a thread and be woken by it, so they are read on the event loop. That must not become waiting, or
work: whoever would wait for a lock is sent to the threads, and whoever meets a large value, and everybody
for a while after a read that waited for the disk or took long.
"""

from __future__ import annotations

import asyncio
import resource
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

import apsw

from holdfast.store.sqlite.connection import SqliteTransaction, as_ours, connect
from holdfast.store.transaction import Operation, run_through

T = TypeVar("T")

LARGE = 32 * 1024
"""Bytes of a value from which on it is read by the threads: few rows may be many bytes."""

LONG_SECONDS = 0.005
"""How long a read may take that was thought to be brief."""

REST_SECONDS, RESTS = 1.0, 20
"""How long the threads then read everything, and how many times as long as it took: the event loop waits at
most once in that time."""

TURN_SECONDS = 0.002
"""How long somebody may read on and on before the event loop has a turn: reading suspends nobody."""


def disk_reads() -> float:
    """How much this thread has had to read from the disk; always more, where the system does not tell."""
    if hasattr(resource, "RUSAGE_THREAD"):
        return resource.getrusage(resource.RUSAGE_THREAD).ru_inblock
    return time.monotonic()


class Elsewhere(Exception):
    """This read is for the threads."""


class BriefReader:
    def __init__(self, path: Path, durability: str, statements: Mapping[str, str]) -> None:
        self._path = path
        self._connection = connect(path, durability, read_only=True)
        self._connection.set_busy_timeout(0)
        self._connection.limit(apsw.SQLITE_LIMIT_LENGTH, LARGE)
        self._execute = self._connection.execute
        self._transaction = SqliteTransaction(self._connection, statements)
        self._resting_until = 0.0
        self._disk_reads = disk_reads()
        self._turn_until = 0.0
        self._closed = False

    async def read(self, operation: Operation[T]) -> T:
        """The operation's result, all of it of one state; `Elsewhere` where it might have to wait."""
        began = time.monotonic()
        if began > self._turn_until:
            self._turn_until = began + TURN_SECONDS  # before the others ask: one turn is enough for all
            await asyncio.sleep(0)
            began = time.monotonic()
        if self._closed or began < self._resting_until:
            raise Elsewhere
        worked = time.thread_time()
        try:
            return self._read(operation)
        finally:
            if (took := time.monotonic() - began) > LONG_SECONDS:
                self._consider_resting(took, time.thread_time() - worked)

    def close(self) -> None:
        self._closed = True
        self._connection.close()

    def _consider_resting(self, took: float, worked: float) -> None:
        """Rest after a read that waited for the disk or worked for long, not if it only had no processor."""
        before, self._disk_reads = self._disk_reads, disk_reads()
        if self._disk_reads > before or worked > LONG_SECONDS:
            self._resting_until = time.monotonic() + max(REST_SECONDS, took * RESTS)

    def _read(self, operation: Operation[T]) -> T:
        """In one transaction in any case: without it, every statement takes and gives back SQLite's lock."""
        try:
            self._execute("BEGIN")
            try:
                return run_through(operation(self._transaction))
            finally:
                if self._connection.in_transaction:  # SQLite may have ended it itself
                    self._execute("COMMIT")
        except (apsw.BusyError, apsw.TooBigError):
            raise Elsewhere from None
        except apsw.Error as error:
            raise as_ours(error, self._path) from error
