"""Taking measurements, and saying what several repetitions of one show.

Two things are compared by measuring both in every repetition, one right after the other and in
alternating order, and by dividing the two figures of the same repetition. Whatever else the machine
does meanwhile then mostly hits both.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import NamedTuple, Self, TypeAlias, TypeVar

K = TypeVar("K")
T = TypeVar("T")

Slice: TypeAlias = Callable[[], Awaitable[T]]
"""One contender's turn, which gives what it measured."""


class Spread(NamedTuple):
    """The middle of several measurements, with the least and the greatest."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Self:
        return cls(median(values), min(values), max(values))

    @classmethod
    def ratio(cls, ours: Sequence[float], floor: Sequence[float]) -> Self:
        """Ours to the floor's, repetition by repetition."""
        return cls.of([mine / theirs for mine, theirs in zip(ours, floor, strict=True)])


@dataclass(frozen=True)
class Result:
    """One row of the table: a figure of ours, and what it is held against."""

    workload: str
    what: str
    ours: str
    floor: str
    value: Spread
    """What is judged: usually the ratio of ours to the floor's."""
    unit: str = "×"
    at_most: float | None = None
    at_least: float | None = None

    @property
    def met(self) -> bool | None:
        """Whether the target is reached; None where there is none."""
        if self.at_most is not None:
            return self.value.median <= self.at_most
        if self.at_least is not None:
            return self.value.median >= self.at_least
        return None


class Meter:
    """What happens between `with` and its end: time, CPU of all threads, bytes written.

    `stop_clock` ends the time early. What a store still does afterwards because of the work that was
    timed, such as bringing its listings up to date, then costs CPU and bytes, and not speed.
    """

    def __enter__(self) -> Self:
        gc.collect()
        self.seconds = 0.0
        self._written = bytes_written()
        self._cpu = time.process_time()
        self._clock = time.perf_counter()
        return self

    def stop_clock(self) -> None:
        self.seconds = time.perf_counter() - self._clock

    def __exit__(self, *_: object) -> None:
        if not self.seconds:
            self.stop_clock()
        self.cpu = time.process_time() - self._cpu
        self.written = bytes_written() - self._written


class Run:
    """What a workload needs to know of the run it is part of."""

    def __init__(self, directory: Path, *, quick: bool, advance: Callable[[], None]) -> None:
        self.directory = directory
        self.quick = quick
        self.repetitions = 2 if quick else 7
        self._advance = advance

    def size(self, full: int, quick: int) -> int:
        return quick if self.quick else full

    async def interleaved(
        self, contenders: Mapping[K, Slice[T]], repetitions: int | None = None
    ) -> dict[K, list[T]]:
        """What each contender measured, one measurement per repetition, taken in turns."""
        taken: dict[K, list[T]] = {name: [] for name in contenders}
        for number in range(repetitions or self.repetitions):
            for name in _order(contenders, number):
                taken[name].append(await contenders[name]())
            self._advance()
        return taken

    async def p50(self, contenders: Mapping[K, Slice[list[float]]], rounds: int) -> dict[K, list[float]]:
        """The median latency of each contender, one per repetition, out of several short turns in each."""
        taken: dict[K, list[float]] = {name: [] for name in contenders}
        for number in range(self.repetitions):
            latencies: dict[K, list[float]] = {name: [] for name in contenders}
            for _ in range(rounds):
                for name in _order(contenders, number):
                    latencies[name] += await contenders[name]()
            for name in contenders:
                taken[name].append(median(latencies[name]))
            self._advance()
        return taken


Workload: TypeAlias = Callable[[Run], Awaitable[list[Result]]]


@dataclass(frozen=True)
class Suite:
    """Workloads that belong together: a section of docs/performance.md."""

    name: str
    workloads: Mapping[str, Workload]
    plot: str
    """The name of its picture in docs/."""


def _order(names: Iterable[K], repetition: int) -> list[K]:
    """Every other repetition goes backwards, so that nobody always comes first."""
    return list(names)[:: -1 if repetition % 2 else 1]


async def latencies(action: Callable[[], Awaitable[object]], count: int) -> list[float]:
    """How long each of `count` calls took, one after the other, in seconds."""
    taken = []
    for _ in range(count):
        begin = time.perf_counter()
        await action()
        taken.append(time.perf_counter() - begin)
    return taken


async def blocking_latencies(action: Callable[[], object], count: int) -> list[float]:
    """The same of calls that do their work where they stand."""
    taken = []
    for _ in range(count):
        begin = time.perf_counter()
        action()
        taken.append(time.perf_counter() - begin)
    return taken


def bytes_written() -> int:
    """What this process has handed to the kernel to write so far. Only Linux tells; elsewhere it is 0."""
    try:
        counters = Path("/proc/self/io").read_text()
    except FileNotFoundError:
        return 0
    return int(dict(line.split(": ") for line in counters.splitlines())["wchar"])


def microseconds(seconds: float) -> str:
    return f"{seconds * 1e6:,.0f} µs"
