"""A child process that works on question sets: `worker.py ROLE JSON`.

It says `{"ready": true}`, begins when it is told to go, and reports one JSON object a line.
"""

import asyncio
import json
import os
import sys
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

from holdfast.errors import HoldfastError
from holdfast.model.question import Answer, NewQuestionSet, Option, Question
from holdfast.questions import QuestionBox
from holdfast.questions.errors import QuestionsRejected
from holdfast.questions.files import read_json, write_json
from holdfast.questions.locks import file_lock, guard

QUESTION = Question(title="Q", prompt="Yes or no?", options=(Option("yes"), Option("no")))
YES = Answer(question_index=0, selected_option="yes")


def report(**facts: Any) -> None:
    print(json.dumps(facts), flush=True)


def is_told_to_go() -> None:
    report(ready=True)
    sys.stdin.readline()


def hold(path: str) -> None:
    """Hold the lock of a file until killed."""
    with file_lock(Path(path)):
        is_told_to_go()


def hold_guard(path: str) -> None:
    with guard(Path(path)):
        is_told_to_go()


def try_lock(path: str, seconds: float, stranger: bool = False) -> None:
    if stranger and os.getuid() == 0:
        os.setuid(65534)  # a user who may not signal other users' processes, which root may
    is_told_to_go()
    try:
        with file_lock(Path(path), seconds):
            report(locked=True)
    except HoldfastError as error:
        report(refused=str(error))


def count(path: str, times: int) -> None:
    """Add one to the number in a file, so many times; without its lock, sums would get lost."""
    is_told_to_go()
    file = Path(path)
    for _ in range(times):
        with file_lock(file, 30):
            file.write_text(str(int(file.read_text() or 0) + 1))
    report(done=times)


def write(path: str, size: int) -> None:
    """Write one of two contents after the other, until killed."""
    is_told_to_go()
    turn = 0
    while True:
        turn += 1
        write_json(Path(path), {"turn": turn, "filling": [turn] * size})


def read_all(path: str, times: int) -> None:
    is_told_to_go()
    for _ in range(times):
        content = read_json(Path(path), tries=1)
        assert content is not None
        assert set(content["filling"]) == {content["turn"]}
    report(read=times)


async def ask(directory: str, times: int, limit: int = 100) -> None:
    """Ask so many times at once."""
    box = QuestionBox(Path(directory), limit=limit)
    is_told_to_go()

    async def one() -> None:
        try:
            report(asked=(await box.ask(NewQuestionSet(questions=(QUESTION,)))).id)
        except HoldfastError as error:
            report(refused=str(error))

    await asyncio.gather(*(one() for _ in range(times)))


async def settle(directory: str, ids: list[str], name: str, tasks: int) -> None:
    """Answer and reject the same sets, from many tasks at once."""
    box = QuestionBox(Path(directory))
    is_told_to_go()

    async def one(set_id: str, number: int) -> None:
        who = f"{name}.{number}"
        try:
            if number % 2:
                await box.reject(set_id, who, by=who, door="test")
            else:
                await box.answer(set_id, [Answer(question_index=0, custom_text=who)], by=who, door="test")
            report(set=set_id, won=who, how="rejected" if number % 2 else "completed")
        except HoldfastError as error:
            report(set=set_id, lost=who, told=str(error))

    for set_id in ids:
        await asyncio.gather(*(one(set_id, number) for number in range(tasks)))


async def ask_and_hear(directory: str, times: int, limit: int) -> None:
    """Ask one set after the other, and report what each was answered."""
    box = QuestionBox(Path(directory), limit=limit)
    is_told_to_go()
    for _ in range(times):
        asked = await box.ask(NewQuestionSet(questions=(QUESTION,)))
        try:
            answered = await box.wait(asked.id)
            report(set=asked.id, heard=answered.answers[0].custom_text if answered.answers else None)
        except QuestionsRejected as rejection:
            report(set=asked.id, heard=rejection.reason)
        await box.mark_read(asked.id)


async def settle_all(directory: str, name: str) -> None:
    """Answer or reject whatever is open, again and again, until killed."""
    box = QuestionBox(Path(directory))
    is_told_to_go()
    async for changed in box.changes():
        for set_id in changed:
            with suppress(HoldfastError):  # somebody else was faster
                if set_id < "8":
                    await box.reject(set_id, name, by=name, door="test")
                else:
                    said = Answer(question_index=0, custom_text=name)
                    await box.answer(set_id, [said], by=name, door="test")
                report(set=set_id, won=name)


async def turmoil(directory: str) -> None:
    """Ask, wait, answer, reject and clean up, until killed."""
    box = QuestionBox(Path(directory), limit=1000, retention=timedelta(days=1))
    is_told_to_go()
    while True:
        asked = await box.ask(NewQuestionSet(questions=(QUESTION,)))
        report(set=asked.id, state="pending")
        waiting = asyncio.create_task(box.wait(asked.id))
        await box.answer(asked.id, [YES], by="turmoil", door="test")
        report(set=asked.id, state="completed")
        await waiting
        await box.mark_read(asked.id)
        other = await box.ask(NewQuestionSet(questions=(QUESTION,)))
        report(set=other.id, state="pending")
        await box.reject(other.id, "no", by="turmoil", door="test")
        report(set=other.id, state="rejected")
        await box.sweep()


ROLES = {
    each.__name__: each
    for each in (
        *(hold, hold_guard, try_lock, count, write, read_all),
        *(ask, settle, ask_and_hear, settle_all, turmoil),
    )
}

if __name__ == "__main__":
    outcome = ROLES[sys.argv[1]](**json.loads(sys.argv[2]))
    if asyncio.iscoroutine(outcome):
        asyncio.run(outcome)
