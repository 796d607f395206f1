"""How much disk a message takes, and how much CPU the import."""

from __future__ import annotations

import asyncio
import resource
import sys
from pathlib import Path
from statistics import median

from benchmarks.floor import connect_apsw
from benchmarks.measure import Result, Run, Slice, Spread
from benchmarks.messages import LARGE, SMALL, Sample
from holdfast import NewSession, open_store

BATCH = 1000
IMPORTS = 9


async def disk(run: Run) -> list[Result]:
    """Disk: the closed database file per byte of payload, sessions and all.

    Once with 1,000 sessions that grow in turns, so that no two neighbouring messages are of one session,
    and once with a single session. The size does not vary, so it is taken once.
    """
    many = run.size(1_000, 100)
    results = []
    for name, sample, limit, each in (("500 B", SMALL, 1.35, 100), ("4 KB", LARGE, 1.1, 20)):
        total = many * each
        payload = total * sample.size
        for what, sessions in ((f"{many:,} sessions in turns", many), ("one session", 1)):
            ours = await _stored(run.directory, sample, sessions, total)
            floor = _stored_by_floor(run.directory, sample, sessions, total)
            results.append(
                Result(
                    "disk",
                    f"file bytes per payload byte, {name} messages, {what}",
                    f"{ours / total:,.0f} B each",
                    f"{floor / total:,.0f} B each ({floor / payload:.2f}×)",
                    Spread.of([ours / payload]),
                    at_most=limit,
                )
            )
    return results


async def _stored(directory: Path, sample: Sample, sessions: int, total: int) -> int:
    """The size of our database of `total` messages."""
    path = directory / f"disk-{sample.size}-{sessions}.db"
    batch = [sample.message] * (1 if sessions > 1 else BATCH)
    async with open_store(f"sqlite:///{path}", durability="normal") as store:
        created = await asyncio.gather(*(store.create_session(NewSession()) for _ in range(sessions)))
        for _ in range(total // (sessions * len(batch))):
            await asyncio.gather(*(store.append_messages(session.id, batch) for session in created))
    return _size(path)


def _stored_by_floor(directory: Path, sample: Sample, sessions: int, total: int) -> int:
    path = directory / f"disk-{sample.size}-{sessions}-apsw.db"
    floor = connect_apsw(path, "NORMAL")
    floor.add_sessions(sessions)
    places = ((session, seq) for seq in range(1, total // sessions + 1) for session in range(1, sessions + 1))
    floor.add_messages(places, sample.plain)
    floor.close()
    return _size(path)


def _size(path: Path) -> int:
    """The size of a closed database. Closing writes the log back and removes it."""
    assert not path.with_name(f"{path.name}-wal").exists()
    return path.stat().st_size


async def import_cost(run: Run) -> list[Result]:
    """Import: CPU of `python -c "import holdfast"` over that of a Python that imports nothing."""

    def program(source: str) -> Slice[float]:
        async def cpu() -> float:
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            process = await asyncio.create_subprocess_exec(sys.executable, "-c", source)
            assert await process.wait() == 0
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1e3

        return cpu

    programs = {
        "pass": program("pass"),
        "import holdfast": program("import holdfast"),
        "from holdfast import open_store, Message": program("from holdfast import open_store, Message"),
    }
    for warm in programs.values():
        await warm()
    taken = await run.interleaved(programs, run.size(IMPORTS, run.repetitions))
    bare = taken.pop("pass")
    results = []
    for name, cpu in taken.items():
        over = Spread.of([mine - theirs for mine, theirs in zip(cpu, bare, strict=True)])
        limit = 100.0 if name == "import holdfast" else None
        ours, floor = f"{median(cpu):.0f} ms", f"{median(bare):.0f} ms bare"
        results.append(Result("import", f"CPU of `{name}`", ours, floor, over, unit=" ms", at_most=limit))
    return results
