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


class Worker:
    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self.pid = process.pid
        self._process = process
        self._orders = process.stdin
        self._reports = process.stdout

    async def report(self) -> Report:
        async with asyncio.timeout(SECONDS):
            line = await self._reports.readline()
        assert line, "the worker ended by itself"
        report: Report = json.loads(line)
        return report

    async def is_ready(self) -> None:
        while await self.report() != {"ready": True}:
            pass

    def go(self) -> None:
        self._orders.write(b"go\n")

    async def finish(self) -> list[Report]:
        """Everything else it says, until it ends by itself and without an error."""
        rest = await self._rest()
        assert self._process.returncode == 0, f"it ended with {self._process.returncode}"
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
        return [json.loads(line) for line in text.splitlines() if line.endswith(b"}")]


@asynccontextmanager
async def worker(role: str, **arguments: Any) -> AsyncIterator[Worker]:
    """A worker that is ready to go, and does not outlive the block."""
    program = Path(__file__).with_name("worker.py")
    child = Worker(
        await asyncio.create_subprocess_exec(
            *(sys.executable, str(program), role, json.dumps(arguments)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
    )
    try:
        await child.is_ready()
        yield child
    finally:
        await child.kill()


async def together(role: str, several: list[dict[str, Any]]) -> list[Report]:
    """What workers had to say that began at the same moment and all ended well."""
    async with AsyncExitStack() as stack:
        starting = [stack.enter_async_context(worker(role, **arguments)) for arguments in several]
        workers = await asyncio.gather(*starting)
        for each in workers:
            each.go()
        return [report for each in workers for report in await each.finish()]
