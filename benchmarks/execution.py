"""Execution: what a turn costs around the model's own time, and many at once.

The floor is the same question to the same model through the `openai` library alone, with nothing
kept. The model answers by rule, in a process of its own; what it takes is in both.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import holdfast
from benchmarks.measure import Result, Run, Spread, Suite, latencies
from holdfast.blobs import open_blobs
from holdfast.config import Settings
from holdfast.execution.answer import AnswerKind
from holdfast.execution.contexts import ContextSource
from holdfast.execution.input import ActiveFile, ExecutionInput
from holdfast.execution.orchestrator import Orchestrator
from holdfast.execution.responses import Provider
from holdfast.model.ids import SessionId
from holdfast.retrieval import open_retrieval
from holdfast.store.store import Store

KEY_VARIABLE = "BENCHMARK_KEY"
QUESTION = "Where is it decided which response a request goes on from?"
CALLERS = 64


async def overhead(run: Run) -> list[Result]:
    """Overhead: one instruction after another in one session, with a file and chunks of an index."""
    async with _executing(run.directory) as (orchestrator, store, url):
        first = await orchestrator.execute(store, _asked(0))
        numbers = iter(range(1, 1_000_000))

        async def ours() -> list[float]:
            return await latencies(lambda: _execute(orchestrator, store, first.session_id, next(numbers)), 5)

        client = _client(url)

        async def alone() -> list[float]:
            return await latencies(lambda: _ask_alone(client), 5)

        taken = await run.p50({"floor": alone, "ours": ours}, rounds=run.size(4, 1))
        await client.close()
    mine, floor = (Spread.of([1000 * each for each in taken[name]]) for name in ("ours", "floor"))
    around = Spread.of(
        [1000 * (own - theirs) for own, theirs in zip(taken["ours"], taken["floor"], strict=True)]
    )
    return [
        Result(
            "overhead",
            "a turn around the model's time (p50)",
            f"{mine.median:.1f} ms",
            f"{floor.median:.1f} ms asked directly",
            around,
            unit=" ms",
            at_most=30,
        )
    ]


async def many(run: Run) -> list[Result]:
    """Many: 64 callers at once, half of them in one session, half with sessions of their own."""
    callers = run.size(CALLERS, 8)
    async with _executing(run.directory) as (orchestrator, store, _):
        shared = (await orchestrator.execute(store, _asked(0))).session_id
        begin = time.perf_counter()
        answers = await asyncio.gather(
            *(
                _execute(orchestrator, store, shared if number % 2 else None, number)
                for number in range(callers)
            )
        )
        seconds = time.perf_counter() - begin
        turns = await store.list_turns(shared, limit=1000)
    errors = sum(answer is not AnswerKind.ANSWER for answer in answers)
    gaps = sum(turn.sequence_number != place for place, turn in enumerate(turns, 1))
    rate = f"{callers / seconds:.0f} turns/s"
    return [
        Result("many", f"{callers} at once: errors", f"{errors}", "0", Spread.of([errors]), "", at_most=0),
        Result(
            "many", f"{callers} at once: gaps in sequences", f"{gaps}", "0", Spread.of([gaps]), "", at_most=0
        ),
        Result("many", f"{callers} at once: time", rate, "", Spread.of([seconds]), " s"),
    ]


def _asked(number: int, session_id: SessionId | None = None) -> ExecutionInput:
    changed = ActiveFile(path="notes.md", content=f"note {number}\n" * 100, is_touched=True)
    return ExecutionInput(
        instruction=QUESTION, repository="holdfast", session_id=session_id, active_files=(changed,)
    )


async def _execute(
    orchestrator: Orchestrator, store: Store, session_id: SessionId | None, number: int
) -> AnswerKind:
    answer = await orchestrator.execute(store, _asked(number, session_id))
    return answer.kind


@asynccontextmanager
async def _executing(directory: Path) -> AsyncIterator[tuple[Orchestrator, Store, str]]:
    """An orchestrator with an index of this package, and the address of its model."""
    os.environ[KEY_VARIABLE] = "none"
    command = [sys.executable, "-m", "holdfast", "demo-model", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as model:  # noqa: ASYNC220
        assert model.stdout is not None
        url = next(word for line in model.stdout for word in line.split() if "URL=" in word).partition("=")[2]
        settings = Settings(data_dir=directory)
        try:
            async with (
                holdfast.open_store(f"sqlite:///{directory / 'execution.db'}") as store,
                await open_retrieval(settings) as retrieval,
                Orchestrator(
                    store,
                    open_blobs((directory / "blobs").as_uri()),
                    ContextSource({}, {}, "demo"),
                    {"default": Provider(base_url=url, api_key_env=KEY_VARIABLE, chains=True)},
                    retrieval=retrieval,
                ) as orchestrator,
            ):
                await retrieval.index("local", Path(holdfast.__file__).parent, repository="holdfast")
                yield orchestrator, store, url
        finally:
            model.kill()


def _client(url: str) -> Any:
    from openai import AsyncOpenAI

    return AsyncOpenAI(base_url=url, api_key="none", max_retries=0)


async def _ask_alone(client: Any) -> None:
    item = {"role": "user", "content": [{"type": "input_text", "text": QUESTION}]}
    async with await client.responses.create(model="demo", input=[item], stream=True) as events:
        async for _ in events:
            pass


SUITE = Suite("execution", {"overhead": overhead, "many": many}, plot="performance-execution.png")
