"""Does anything pile up? `python -m benchmarks.soak --minutes 10`

People create sessions with the demo agent, prompt it, listen and are cut off, while agents end, crash, are
cancelled and resumed, and now and then a prompt is cancelled half-way. Every ten seconds, in a moment in
which nobody does anything, the server's memory, file descriptors, threads and child processes are written
down. What the first fifth of the time took is warming up; afterwards nothing may grow, and when all
sessions have ended no process of an agent may be left.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import aclosing, suppress
from pathlib import Path
from statistics import median
from typing import NamedTuple

import psutil

from holdfast.client import Client, Refused
from tests.server.servers import Served, owner_of

PEOPLE = 8
PLACES = 2 * PEOPLE
"""More than people, since an agent that has crashed takes its place until that is stored."""
ROUND_SECONDS = 10.0
MEGABYTE = 1024 * 1024
GROWTH = 1.10
"""How much more memory the last fifth may take than the second: pages that a longer database keeps."""


class Reading(NamedTuple):
    memory: float
    """Megabytes that are only the server's own."""
    files: int
    threads: int
    children: int


async def main(minutes: float, seed: int) -> bool:
    with tempfile.TemporaryDirectory(prefix="holdfast-soak-") as home:
        served = Served(Path(home), AGENT_MAX_SESSIONS=str(PLACES), HOLDFAST_SERVER_REQUESTS_PER_SECOND="0")
        served.repository()
        await asyncio.to_thread(served.start)
        try:
            readings, done = await soaked(served, minutes, seed)
        finally:
            code = await asyncio.to_thread(served.stop)
        print(f"{done:,} sessions and prompts; the server ended with {code}")
        return verdict(readings) and code == 0 and "Traceback" not in served.complaints()


async def soaked(served: Served, minutes: float, seed: int) -> tuple[list[Reading], int]:
    assert served.process is not None
    process = psutil.Process(served.process.pid)
    ends_at = time.monotonic() + minutes * 60
    readings: list[Reading] = []
    done = 0
    while time.monotonic() < ends_at:
        until = time.monotonic() + ROUND_SECONDS
        chances = (random.Random(f"{seed} {len(readings)} {number}") for number in range(PEOPLE))
        done += sum(await asyncio.gather(*(person(served, chance, until) for chance in chances)))
        readings.append(await at_rest(process))
        print(_shown(readings[-1]), flush=True)
    return readings, done


async def person(served: Served, chance: random.Random, until: float) -> int:
    """One who works with sessions until then; how often something was asked for."""
    done = 0
    owner = owner_of(served)
    async with Client(owner.url, owner.secret) as client:
        repo = (await client.scan_repos())[0]
        while time.monotonic() < until:
            session = await client.create_session(repo.id, agent="demo")
            for _ in range(chance.randint(1, 4)):
                prompt = chance.choice(
                    ["say hello there", "flood 2000", "think so\nplan a; b", "wait", "crash"]
                )
                with suppress(Refused):  # the agent has crashed before, and may be resumed or not
                    await client.prompt(session.id, prompt)
                    done += 1
                    await heard(client, session.id, chance)
                    if prompt == "wait":
                        await client.cancel_turn(session.id)
                    if chance.random() < 0.3:
                        await client.cancel_session(session.id)
                        await client.resume_session(session.id)
            with suppress(Refused):
                await client.cancel_session(session.id)
            done += 1
    return done


async def heard(client: Client, session_id: str, chance: random.Random) -> None:
    """Listen for a moment, and be gone in the middle."""
    async with aclosing(client.follow(session_id)) as changes:
        with suppress(TimeoutError):
            async with asyncio.timeout(chance.random()):
                for _ in range(chance.randint(1, 20)):
                    await anext(changes)


async def at_rest(process: psutil.Process) -> Reading:
    """What the server takes once its agents are gone."""
    async with asyncio.timeout(60):
        while process.children(recursive=True):  # noqa: ASYNC110  # nothing tells that the last one has ended
            await asyncio.sleep(0.05)
    return Reading(
        process.memory_full_info().uss / MEGABYTE,
        process.num_fds(),
        process.num_threads(),
        len(process.children(recursive=True)),
    )


def verdict(readings: Sequence[Reading]) -> bool:
    """Whether what comes late takes no more than what came early, once all was warm."""
    fifth = max(1, len(readings) // 5)
    early, late = readings[fifth : 2 * fifth] or readings[:1], readings[-fifth:]

    def grew(name: str, allowed: float) -> bool:
        before, after = (median(getattr(each, name) for each in part) for part in (early, late))
        print(f"{name}: {before:.1f} → {after:.1f}")
        return bool(after > before * allowed)

    return not any([grew("memory", GROWTH), grew("files", 1), grew("threads", 1), grew("children", 1)])


def _shown(reading: Reading) -> str:
    return f"{reading.memory:.1f} MB, {reading.files} files, {reading.threads} threads"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="benchmarks.soak", description=__doc__.split("\n")[0])
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=1)
    flat = asyncio.run(main(**vars(parser.parse_args())))
    print("flat" if flat else "something grew")
    sys.exit(not flat)
