"""Questions: how soon an asker hears of an answer that was written to its files.

The answer is given by another box, as another process would: through the files alone. The floor is
the poll that works everywhere: an asker that looks at the answer's file every 200 ms.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from statistics import median

from benchmarks.measure import Result, Run, Spread, Suite
from holdfast.model.question import Answer, NewQuestionSet, Option, Question
from holdfast.questions import QuestionBox
from holdfast.questions.box import POLL_SECONDS

NEW = NewQuestionSet(
    questions=(Question(title="Go", prompt="Go on?", options=(Option("Yes"), Option("No"))),)
)
YES = [Answer(question_index=0, selected_option="Yes")]


async def noticed(run: Run) -> list[Result]:
    """Notice: from the moment an answer is in its file until the asker's wait has ended."""
    asker = QuestionBox(run.directory / "questions", limit=10_000)
    person = QuestionBox(run.directory / "questions", limit=10_000)
    count = run.size(20, 3)

    async def ours() -> float:
        return median([await _heard(asker, person) for _ in range(count)])

    async def polled() -> float:
        return median([await _polled(asker, person) for _ in range(count)])

    taken = await run.interleaved({"poll": polled, "ours": ours})
    mine, theirs = (Spread.of([value * 1000 for value in taken[name]]) for name in ("ours", "poll"))
    return [
        Result(
            "notice",
            "from an answer's file to its asker (p50)",
            f"{mine.median:.1f} ms",
            f"{theirs.median:.1f} ms by polling",
            mine,
            unit=" ms",
            at_most=25,
        )
    ]


async def _heard(asker: QuestionBox, person: QuestionBox) -> float:
    asked = await asker.ask(NEW)
    waiting = asyncio.create_task(asker.wait(asked.id))
    await asyncio.sleep(0.05)  # the wait has begun, and found nothing
    await person.answer(asked.id, YES, by="benchmark", door="test")
    await waiting
    return time.time() - _written(asker.directory / asked.id)


async def _polled(asker: QuestionBox, person: QuestionBox) -> float:
    asked = await asker.ask(NEW)
    answers = asker.directory / asked.id / "answers.json"

    async def poll() -> None:
        while not answers.exists():  # noqa: ASYNC110  # this is what is measured
            await asyncio.sleep(POLL_SECONDS)

    polling = asyncio.create_task(poll())
    await asyncio.sleep(0.05)
    await person.answer(asked.id, YES, by="benchmark", door="test")
    await polling
    return time.time() - _written(answers.parent)


def _written(folder: Path) -> float:
    """When the answer got its name: it was written before, under another one, and synced."""
    return (folder / "answers.json").stat().st_ctime


SUITE = Suite("questions", {"notice": noticed}, plot="performance-questions.png")
