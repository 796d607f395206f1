"""Gateways in several processes: a turn outlives nobody who is killed."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from holdfast import TurnStatus, open_store
from holdfast.routing.bindings import Bindings
from holdfast.routing.events import TurnJoined
from holdfast.routing.gateway import Busy
from tests.routing.gateways import echo, events, gateway, text_of
from tests.routing.messages import said
from tests.waiting import SECONDS

ROOT = Path(__file__).parents[2]

BEGUN = {"open", "TurnStarted", "begun holder", "TextAdded"}
"""What a holder says until it stops half-way."""


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
    async with asyncio.timeout(SECONDS):
        return (await process.stdout.readline()).decode().strip()


@pytest.mark.usefixtures("process")
async def test_the_turn_of_a_killed_process_ends_and_the_next_message_is_answered(store_url: str) -> None:
    async with worker(store_url, "holder") as holder:
        assert {await line(holder) for _ in range(4)} == BEGUN
        async with worker(store_url, "answerer") as answerer, open_store(store_url) as store:
            key = Bindings(agents=["main"]).decide(said("group:g1")).key
            assert await store.lease_seconds(key) > 0
            assert await line(answerer) == "open"
            holder.kill()
            told = [await line(answerer) for _ in range(5)]
            assert told[-1] == "TurnEnded"
            first, second = await store.list_turns(key)
            assert (first.status, first.stop_reason) == (TurnStatus.FAILED, "abandoned")
            assert (second.status, second.agent_answer_summary) == (
                TurnStatus.COMPLETED,
                "answer to answerer",
            )
            assert [(message.text, message.open) for message in await store.get_history(key)] == [
                *(("holder", False), ("half an", False), ("answerer", False), ("answer to answerer", False)),
            ]


@pytest.mark.usefixtures("process")
async def test_who_joined_a_killed_process_is_answered_with_the_next_message(store_url: str) -> None:
    async with worker(store_url, "holder") as holder, open_store(store_url) as store:
        assert {await line(holder) for _ in range(4)} == BEGUN
        door = gateway(store, echo, busy=Busy.JOIN)
        (joined,) = await events(door, said("group:g1", "q2"))
        assert isinstance(joined, TurnJoined)
        holder.kill()
        await holder.wait()
        assert text_of(await events(door, said("group:g1", "q3"))) == "you said q2you said q3"
        first, *answered = await store.list_turns(door.bindings.decide(said("group:g1")).key)
        assert first.stop_reason == "abandoned"
        assert [turn.status for turn in answered] == [TurnStatus.COMPLETED] * 2
