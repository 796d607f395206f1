"""W1 and W3: what an append costs, and how many there are in a second."""

from __future__ import annotations

import asyncio
import multiprocessing
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from queue import SimpleQueue
from statistics import median

import apsw

from benchmarks.floor import SqliteFloor, connect_apsw, connect_stdlib
from benchmarks.measure import Meter, Result, Run, Slice, Spread, blocking_latencies, latencies, microseconds
from benchmarks.messages import SMALL
from holdfast import HoldfastError, NewSession, Store, open_store
from holdfast.model.ids import SessionId
from holdfast.store.runtime import CATCH_UP_SECONDS

TASKS = 64
PROCESSES = 4
HISTORY = 100
"""Messages that the session of W1 starts with."""

SLOW_COMMIT = 0.004
"""Seconds that a commit takes longer on the slow disk of W3."""

Timed = tuple[Meter, list[float]]
"""A measurement, and how long each of its appends took."""

Counted = tuple[Meter, int]
"""A measurement, and how many appends it is of."""


async def one_at_a_time(run: Run) -> list[Result]:
    """W1: one task appends one message to one session, waits until it is durable, and goes on.

    Judged by CPU, not by time: a single append waits for the disk most of the time. What our store puts
    off until after the append (`updated_at` in the listings) is counted, the waiting for it is not.
    """
    full = await _one_at_a_time(run, "full", run.size(300, 40))
    normal = await _one_at_a_time(run, "normal", run.size(300, 40))

    def cpu(what: str, mine: str, floor: str, limit: float | None = None) -> Result:
        ours, theirs = ([meter.cpu / len(each) for meter, each in full[name]] for name in (mine, floor))
        texts = microseconds(median(ours)), microseconds(median(theirs))
        return Result("W1", what, *texts, Spread.ratio(ours, theirs), at_most=limit)

    p50, their_p50 = ([median(each) for _, each in normal[name]] for name in ("ours", "apsw"))
    written, theirs = ([m.written / len(each) for m, each in full[name]] for name in ("ours", "apsw"))
    return [
        cpu("one append at a time: CPU per message", "ours", "apsw", 2.0),
        cpu("the same against the stdlib's sqlite3", "ours", "stdlib"),
        cpu("what a second thread costs: the floor in one", "threaded", "apsw"),
        Result(
            "W1",
            "time per append (p50), durability normal",
            microseconds(median(p50)),
            microseconds(median(their_p50)),
            Spread.ratio(p50, their_p50),
        ),
        Result(
            "W1",
            "bytes written per append",
            f"{median(written):,.0f} B",
            f"{median(theirs):,.0f} B",
            Spread.ratio(written, theirs),
        ),
    ]


async def _one_at_a_time(run: Run, durability: str, count: int) -> dict[str, list[Timed]]:
    def opened(name: str, connect: Callable[..., SqliteFloor]) -> SqliteFloor:
        floor = connect(run.directory / f"w1-{durability}-{name}.db", durability)
        floor.add_sessions(1)
        for _ in range(HISTORY):
            floor.append(1, SMALL.plain)
        stack.callback(floor.close)
        return floor

    def direct(floor: SqliteFloor) -> Slice[Timed]:
        async def timed() -> Timed:
            with Meter() as meter:
                taken = await blocking_latencies(lambda: floor.append(1, SMALL.plain), count)
            return meter, taken

        return timed

    with ExitStack() as stack:
        contenders = {
            "apsw": direct(opened("apsw", connect_apsw)),
            "stdlib": direct(opened("stdlib", connect_stdlib)),
        }
        append = stack.enter_context(_in_a_thread(opened("threaded", connect_apsw)))

        async def threaded() -> Timed:
            with Meter() as meter:
                taken = await latencies(append, count)
            return meter, taken

        async with open_store(
            f"sqlite:///{run.directory}/w1-{durability}.db", durability=durability
        ) as store:
            session = (await store.create_session(NewSession())).id
            for _ in range(HISTORY):
                await store.append_messages(session, [SMALL.message])
            await settled(run)

            async def ours() -> Timed:
                with Meter() as meter:
                    taken = await latencies(lambda: store.append_messages(session, [SMALL.message]), count)
                    meter.stop_clock()
                    await settled(run)
                return meter, taken

            return await run.interleaved(contenders | {"threaded": threaded, "ours": ours})


@contextmanager
def _in_a_thread(floor: SqliteFloor) -> Iterator[Callable[[], Awaitable[None]]]:
    """The floor's append, awaited on the event loop and done in another thread."""
    loop = asyncio.get_running_loop()
    queue: SimpleQueue[asyncio.Future[None] | None] = SimpleQueue()

    def work() -> None:
        while (future := queue.get()) is not None:
            floor.append(1, SMALL.plain)
            loop.call_soon_threadsafe(future.set_result, None)

    async def append() -> None:
        future: asyncio.Future[None] = loop.create_future()
        queue.put(future)
        await future

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield append
    finally:
        queue.put(None)
        thread.join()


async def many_at_once(run: Run) -> list[Result]:
    """W3: 64 tasks, each with a session of its own, each appending one message after the other.

    The floor commits every message by itself; ours commits together what waits together. How much that
    gains depends on how long the disk takes to make a commit durable, so it is measured twice: on this
    disk, and with every commit of both sides 4 ms longer, as on a disk without a write cache. Then four
    processes append to the same sessions of one file.
    """
    stdlib = connect_stdlib(run.directory / "w3-stdlib.db")
    here, errors = await _many_at_once(run, "w3", {"stdlib": stdlib})
    stdlib.close()
    with _slow_commits():
        slow, more_errors = await _many_at_once(run, "w3-slow", {})
    cpu, their_cpu = ([meter.cpu / count for meter, count in here[name]] for name in ("ours", "apsw"))
    total = sum(count for _, count in here["ours"] + slow["ours"])
    return [
        rates("W3", "64 tasks at once: messages per second", here["ours"], here["apsw"], 20.0),
        rates("W3", "the same against the stdlib's sqlite3", here["ours"], here["stdlib"]),
        rates("W3", "the same with commits 4 ms slower", slow["ours"], slow["apsw"]),
        Result(
            "W3",
            "CPU per message, 64 tasks at once",
            microseconds(median(cpu)),
            microseconds(median(their_cpu)),
            Spread.ratio(cpu, their_cpu),
        ),
        faults("W3", "errors, 64 tasks at once", errors + more_errors, total),
        await _processes(run),
    ]


async def _many_at_once(
    run: Run, name: str, others: dict[str, SqliteFloor]
) -> tuple[dict[str, list[Counted]], int]:
    def slice_of(floor: SqliteFloor) -> Slice[Counted]:
        floor.add_sessions(TASKS)

        async def append(task: int) -> None:
            floor.append(task, SMALL.plain)
            await asyncio.sleep(0)

        return lambda: appended_by_tasks(append, run.size(6, 1))

    apsw_floor = connect_apsw(run.directory / f"{name}-apsw.db")
    floors = {floor: slice_of(opened) for floor, opened in (others | {"apsw": apsw_floor}).items()}
    errors: list[HoldfastError] = []
    async with open_store(f"sqlite:///{run.directory}/{name}.db") as store:
        sessions = [(await store.create_session(NewSession())).id for _ in range(TASKS)]

        async def append(task: int) -> None:
            try:
                await store.append_messages(sessions[task - 1], [SMALL.message])
            except HoldfastError as error:
                errors.append(error)

        async def ours() -> Counted:
            return await appended_by_tasks(append, run.size(100, 10), partial(settled, run))

        await ours()
        taken = await run.interleaved(floors | {"ours": ours})
        wrong = len(errors) + len(await store.problems())
    apsw_floor.close()
    return taken, wrong


@contextmanager
def _slow_commits() -> Iterator[None]:
    """Let every commit of connections opened from now on take longer."""

    def wait() -> bool:
        time.sleep(SLOW_COMMIT)
        return False  # True would turn the commit into a rollback

    def slow(connection: apsw.Connection) -> None:
        connection.set_commit_hook(wait)

    apsw.connection_hooks.append(slow)
    try:
        yield
    finally:
        apsw.connection_hooks.remove(slow)


async def _processes(run: Run) -> Result:
    """Four processes of 16 tasks on one file, every session written by all of them."""
    url = f"sqlite:///{run.directory}/w3-processes.db"
    async with open_store(url) as store:
        sessions = [(await store.create_session(NewSession())).id for _ in range(TASKS // PROCESSES)]
        begin, seconds = time.time() + 3, run.size(5, 1)
        loop = asyncio.get_running_loop()
        with ProcessPoolExecutor(PROCESSES, multiprocessing.get_context("spawn")) as pool:
            workers = [
                loop.run_in_executor(pool, append_in_process, url, sessions, begin, seconds)
                for _ in range(PROCESSES)
            ]
            answers = await asyncio.gather(*workers)
        wrong = sum(errors for _, errors in answers) + len(await store.problems())
        for number, session in enumerate(sessions):
            acknowledged = sorted(seq for seqs, _ in answers for seq in seqs[number])
            stored = (await store.get_session(session)).message_count
            wrong += acknowledged != list(range(1, stored + 1))
    total = sum(len(seqs) for answer, _ in answers for seqs in answer)
    return faults("W3", "errors, doubles and gaps, 4 processes × 16 tasks on one file", wrong, total)


def append_in_process(
    url: str, sessions: Sequence[SessionId], begin: float, seconds: float
) -> tuple[list[list[int]], int]:
    """Append to each of `sessions` from a task of its own; the sequence numbers given, and the errors."""

    async def append(store: Store, session: SessionId, seqs: list[int]) -> int:
        errors = 0
        while time.time() < begin + seconds:
            try:
                (stored,) = await store.append_messages(session, [SMALL.message])
                seqs.append(stored.seq)
            except HoldfastError:
                errors += 1
        return errors

    async def run() -> tuple[list[list[int]], int]:
        seqs: list[list[int]] = [[] for _ in sessions]
        async with open_store(url) as store:
            await asyncio.sleep(begin - time.time())
            errors = await asyncio.gather(*map(append, [store] * len(sessions), sessions, seqs))
        return seqs, sum(errors)

    return asyncio.run(run())


async def appended_by_tasks(
    append: Callable[[int], Awaitable[None]], each: int, afterwards: Slice[None] | None = None
) -> Counted:
    """Messages appended by 64 tasks, `each` by every one; what is done `afterwards` costs no time."""

    async def work(task: int) -> None:
        for _ in range(each):
            await append(task)

    with Meter() as meter:
        async with asyncio.TaskGroup() as group:
            for task in range(1, TASKS + 1):
                group.create_task(work(task))
        meter.stop_clock()
        if afterwards is not None:
            await afterwards()
    return meter, TASKS * each


async def settled(run: Run) -> None:
    """Wait until our store has done what it puts off."""
    await asyncio.sleep(0 if run.quick else CATCH_UP_SECONDS + 0.1)


def rates(
    workload: str, what: str, ours: list[Counted], floor: list[Counted], least: float | None = None
) -> Result:
    mine, theirs = ([count / meter.seconds for meter, count in side] for side in (ours, floor))
    texts = f"{median(mine):,.0f}/s", f"{median(theirs):,.0f}/s"
    return Result(workload, what, *texts, Spread.ratio(mine, theirs), at_least=least)


def faults(workload: str, what: str, count: int, messages: int) -> Result:
    value = Spread(count, count, count)
    return Result(workload, what, f"{count} in {messages:,} messages", "", value, unit="", at_most=0)
