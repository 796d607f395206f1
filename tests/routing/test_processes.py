"""Gateways in several processes: a turn outlives nobody who is killed."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from holdfast import TurnStatus, open_store
from holdfast.routing.bindings import Bindings
from tests.routing.messages import said

ROOT = Path(__file__).parents[2]


@asynccontextmanager
async def worker(url: str, role: str) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.routing.worker", url, role, stdout=asyncio.subprocess.PIPE, cwd=ROOT
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def line(process: asyncio.subprocess.Process) -> str:
    assert process.stdout is not None
    async with asyncio.timeout(100):
        return (await process.stdout.readline()).decode().strip()


async def test_the_turn_of_a_killed_process_ends_and_the_next_message_is_answered(store_url: str) -> None:
    async with worker(store_url, "holder") as holder:
        assert {await line(holder), await line(holder)} == {"TurnStarted", "begun holder"}
        async with worker(store_url, "answerer") as answerer, open_store(store_url) as store:
            key = Bindings(agents=["main"]).decide(said("group:g1")).key
            assert await store.lease_seconds(key) > 0
            holder.kill()
            told = [await line(answerer) for _ in range(5)]
            assert told[-1] == "TurnEnded"
            first, second = await store.list_turns(key)
            assert (first.status, first.stop_reason) == (TurnStatus.FAILED, "abandoned")
            assert (second.status, second.agent_answer_summary) == (
                TurnStatus.COMPLETED,
                "answer to answerer",
            )
            assert [message.text for message in await store.get_history(key)] == [
                *("holder", "answerer", "answer to answerer"),
            ]
