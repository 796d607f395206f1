"""Starting workers (worker.py), hearing them out, and killing them."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from tests.waiting import SECONDS

Report = dict[str, Any]

ROOT = Path(__file__).parents[3]


class Worker:
    """A child process that uses a store."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._process = process
        self._orders = process.stdin
        self._reports = process.stdout

    async def report(self) -> Report | None:
        """The next thing it says; None when it has ended."""
        async with asyncio.timeout(SECONDS):
            line = await self._reports.readline()
        return json.loads(line) if line else None

    async def is_ready(self) -> None:
        assert await self.report() == {"ready": True}

    def go(self) -> None:
        self._orders.write(b"go\n")

    async def finish(self) -> list[Report]:
        """Everything else it says, until it ends by itself and without an error."""
        rest = await self._rest()
        assert self._process.returncode == 0
        return rest

    async def kill(self) -> list[Report]:
        """End it as a power cut would, and return what it had still said before."""
        if self._process.returncode is None:
            self._process.kill()
        return await self._rest()

    async def _rest(self) -> list[Report]:
        async with asyncio.timeout(SECONDS):
            text = await self._reports.read()
            await self._process.wait()
        return [json.loads(line) for line in text.splitlines()]


@asynccontextmanager
async def worker(role: str, url: str, **arguments: Any) -> AsyncIterator[Worker]:
    """A worker in its role, which does not outlive the block."""
    child = Worker(
        await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.store.faults.worker", role, url, json.dumps(arguments)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            cwd=ROOT,
        )
    )
    try:
        yield child
    finally:
        await child.kill()


async def together(count: int, role: str, url: str, **arguments: Any) -> list[Report]:
    """What `count` workers had to say that began at the same moment and all ended well."""
    async with AsyncExitStack() as stack:
        workers = [await stack.enter_async_context(worker(role, url, **arguments)) for _ in range(count)]
        for each in workers:
            await each.is_ready()
        for each in workers:
            each.go()
        return [report for each in workers for report in await each.finish()]
