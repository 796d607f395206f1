"""W7: many messages that are written while they are being said."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from statistics import median, quantiles
from typing import NamedTuple, Protocol

from benchmarks.floor import SqliteFloor, connect_apsw
from benchmarks.measure import Meter, Result, Run, Spread
from holdfast import Message, NewSession, open_store
from holdfast.store.streams import FLUSH_SECONDS

STREAMS = 64
PERIOD = 0.02
"""Seconds between the chunks of one stream."""

CHUNK = "twelve bytes"
SAMPLED = 10
"""Of how many chunks one is timed until it is durable. Timing all of them would be a load of its own."""


class Stream(Protocol):
    def write(self, text: str) -> None: ...

    async def drain(self) -> None: ...


class Paced(NamedTuple):
    """What 64 streams at 50 chunks a second cost."""

    core: float
    """Percent of one core."""
    lags: list[float]
    """Milliseconds from handing a chunk in to its commit."""
    amplification: float
    """Bytes written per byte of text."""


async def paced_streams(run: Run) -> list[Result]:
    """W7: 64 streams of 50 chunks a second, 12 bytes each, durable.

    Counted is what the streaming itself costs, with the load's own timers; opening and ending a message
    is an append and a change like any other, and its bytes are given apart. The floor gathers for as
    long as ours does and writes all chunks of that time to one table in one transaction.
    """
    chunks = run.size(150, 25)
    floor = connect_apsw(run.directory / "w7-apsw.db")
    around: list[float] = []

    async def nothing() -> Paced:
        return await _paced([Discarded() for _ in range(STREAMS)], chunks)

    async def raw() -> Paced:
        log = RawLog(floor)
        paced = await _paced([RawStream(log, number) for number in range(STREAMS)], chunks)
        await log.task
        return paced

    async with open_store(f"sqlite:///{run.directory}/w7.db") as store:
        sessions = [(await store.create_session(NewSession())).id for _ in range(STREAMS)]

        async def ours() -> Paced:
            with Meter() as opening:
                streams = [
                    await store.open_stream(session, Message.agent("", partial=True)) for session in sessions
                ]
            paced = await _paced(streams, chunks)
            with Meter() as ending:
                ended = await asyncio.gather(*(stream.end() for stream in streams))
            around.append((opening.written + ending.written) / STREAMS)
            assert all(message.text == CHUNK * chunks for message in ended)
            return paced

        taken = await run.interleaved({"nothing": nothing, "floor": raw, "ours": ours})
        found = await store.problems()
        assert not found, found
    floor.close()

    mine, theirs = taken["ours"], taken["floor"]
    load = median(paced.core for paced in taken["nothing"])
    lag, their_lag = ([median(paced.lags) for paced in side] for side in (mine, theirs))
    p99, their_p99 = (median(quantiles(paced.lags, n=100)[98] for paced in side) for side in (mine, theirs))
    written = Spread.of([paced.amplification for paced in mine])
    return [
        Result(
            "W7",
            f"CPU of 64 streams × 50 chunks/s, of which the load itself {load:.0f} %",
            f"{median(paced.core for paced in mine):.1f} %",
            f"{median(paced.core for paced in theirs):.1f} %",
            Spread.of([paced.core for paced in mine]),
            unit=" %",
            at_most=25.0,
        ),
        Result(
            "W7",
            "from write to durable (p50)",
            f"{median(lag):.1f}, p99 {p99:.1f} ms",
            f"{median(their_lag):.1f}, p99 {their_p99:.1f} ms",
            Spread.of(lag),
            unit=" ms",
            at_most=25.0,
        ),
        Result(
            "W7",
            "bytes written per byte of text",
            f"{written.median:.1f}, and {median(around) / 1e3:.1f} kB to open and end a message",
            f"{median(paced.amplification for paced in theirs):.1f}",
            written,
            at_most=20.0,
        ),
    ]


async def _paced(streams: Sequence[Stream], chunks: int) -> Paced:
    """Write `chunks` chunks to every stream, the streams evenly spread over the period."""
    lags: list[float] = []
    begin = time.perf_counter() + PERIOD

    async def time_until_durable(stream: Stream) -> None:
        written = time.perf_counter()
        await stream.drain()
        lags.append((time.perf_counter() - written) * 1e3)

    async def produce(number: int, stream: Stream) -> None:
        first = begin + number * PERIOD / STREAMS
        for chunk in range(chunks):
            await asyncio.sleep(first + chunk * PERIOD - time.perf_counter())
            stream.write(CHUNK)
            if (number + chunk) % SAMPLED == 0:
                group.create_task(time_until_durable(stream))

    with Meter() as meter:
        async with asyncio.TaskGroup() as group:
            for number, stream in enumerate(streams):
                group.create_task(produce(number, stream))
    payload = STREAMS * chunks * len(CHUNK)
    return Paced(meter.cpu / meter.seconds * 100, lags, meter.written / payload)


class Discarded:
    """A stream that goes nowhere: what is left is the cost of the load."""

    def write(self, text: str) -> None:
        pass

    async def drain(self) -> None:
        pass


class RawLog:
    """Gathers chunks for as long as our store does, then commits them together, on the event loop."""

    def __init__(self, floor: SqliteFloor) -> None:
        self._floor = floor
        self._pending: list[tuple[int, str]] = []
        self.task: asyncio.Task[None] = asyncio.create_task(asyncio.sleep(0))

    def add(self, stream: int, text: str) -> None:
        if not self._pending:
            self.task = asyncio.create_task(self._flush())
        self._pending.append((stream, text))

    async def _flush(self) -> None:
        await asyncio.sleep(FLUSH_SECONDS)
        pending, self._pending = self._pending, []
        self._floor.write_chunks(pending)


class RawStream:
    def __init__(self, log: RawLog, number: int) -> None:
        self._log = log
        self._number = number

    def write(self, text: str) -> None:
        self._log.add(self._number, text)

    async def drain(self) -> None:
        await asyncio.shield(self._log.task)
