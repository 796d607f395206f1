"""Several processes at the same sets: the first word stands, and kills leave nothing by halves."""

import asyncio
import threading
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager, nullcontext
from pathlib import Path

import pytest

from holdfast.model.question import Answer, QuestionStatus
from holdfast.questions import QuestionBox, locks
from tests.long_plugin import Trials
from tests.questions.processes import together, worker
from tests.questions.sets import NEW, names
from tests.waiting import returned, until

pytestmark = pytest.mark.usefixtures("process")

ROUNDS = 12


@pytest.mark.req("ASK-01")
async def test_eight_processes_ask_at_once_and_every_set_is_there_and_whole(directory: Path) -> None:
    reports = await together("ask", [{"directory": str(directory), "times": 10}] * 8)
    asked = [report["asked"] for report in reports]
    assert len(set(asked)) == 80
    box = QuestionBox(directory)
    assert {each.id for each in await box.list({QuestionStatus.PENDING})} == set(asked)
    assert {issue for set_id in asked for issue in await box.validate(set_id)} == set()
    assert names(directory / ".holdfast") == []


async def test_one_process_at_a_time_finds_room_for_a_new_set(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    box = QuestionBox(directory)
    await box.ask(NEW)
    async with worker("hold_guard", path=str(directory)) as holder:
        taken = returned(monkeypatch, locks, "_try_flock")
        asking = asyncio.create_task(box.ask(NEW))
        await until(lambda: False in taken)
        assert not asking.done()
        holder.go()
        await holder.finish()
        assert (await asking).status is QuestionStatus.PENDING


async def test_the_limit_holds_when_several_processes_ask_at_once(directory: Path) -> None:
    reports = await together("ask", [{"directory": str(directory), "times": 10, "limit": 3}] * 4)
    assert Counter(next(iter(report)) for report in reports) == {"asked": 3, "refused": 37}
    assert len(await QuestionBox(directory).list()) == 3


@pytest.mark.req("ASK-05", "ASK-06")
@pytest.mark.parametrize("locks_vanish", [False, True], ids=["", "locks vanish"])
async def test_of_fifty_who_answer_and_reject_in_five_processes_exactly_one_is_first(
    directory: Path, locks_vanish: bool
) -> None:
    """Also while another program deletes the lock files, as an AUQ program may that waited too long."""
    box = QuestionBox(directory)
    ids = [(await box.ask(NEW)).id for _ in range(5)]
    await box.abandon(ids[0])  # answerable all the same
    several = [{"directory": str(directory), "ids": ids, "name": f"p{n}", "tasks": 10} for n in range(5)]
    reports = defaultdict(list)
    with deleting_locks(directory) if locks_vanish else nullcontext():
        for report in await together("settle", several):
            reports[report["set"]].append(report)
    assert reports.keys() == set(ids)
    for set_id, told in reports.items():
        winners = [report for report in told if "won" in report]
        losers = [report for report in told if "lost" in report]
        assert (len(winners), len(losers)) == (1, 49)
        settled = await box.get(set_id)
        assert (settled.answered_by, settled.status) == (winners[0]["won"], winners[0]["how"])
        said = settled.answers[0].custom_text if settled.answers else settled.rejection_reason
        assert said == winners[0]["won"]
        assert all(f"by {winners[0]['won']} through test at " in report["told"] for report in losers)
        assert await box.validate(set_id) == ()
        assert names(directory / set_id)[-2:] == ["request.json", "status.json"]


@pytest.mark.req("ASK-16", "ASK-20")
async def test_four_who_ask_and_four_who_answer_lose_nothing_and_answer_nothing_twice(
    directory: Path,
) -> None:
    async with AsyncExitStack() as stack:
        answerers = [
            await stack.enter_async_context(worker("settle_all", directory=str(directory), name=f"p{n}"))
            for n in range(4)
        ]
        for answerer in answerers:
            answerer.go()
        asker = {"directory": str(directory), "times": ROUNDS, "limit": 2 * ROUNDS}
        heard = await together("ask_and_hear", [asker] * 4)
        said = [report for answerer in answerers for report in await answerer.kill()]
    assert len({report["set"] for report in heard}) == 4 * ROUNDS
    won = [(report["set"], report["won"]) for report in said if "won" in report]
    told = {(report["set"], report["heard"]) for report in heard}
    # Whoever won just before it was killed may not have come to say so.
    assert set(won) <= told
    assert len(won) == len(set(won)) >= 4 * ROUNDS - len(answerers)


@contextmanager
def deleting_locks(directory: Path) -> Iterator[None]:
    done = threading.Event()

    def delete() -> None:
        while not done.is_set():
            for lock in directory.glob("*/*.lock"):
                lock.unlink(missing_ok=True)

    deleting = threading.Thread(target=delete)
    deleting.start()
    try:
        yield
    finally:
        done.set()
        deleting.join()


@pytest.mark.req("ASK-12", "ASK-13")
async def test_kills_at_any_moment_leave_every_set_whole_and_what_was_acknowledged(
    directory: Path, trials: Trials
) -> None:
    chance = trials.chance()
    known: dict[str, str] = {}
    box = QuestionBox(directory, limit=1000)
    for _ in range(trials(6, long=30)):
        async with worker("turmoil", directory=str(directory)) as victim:
            victim.go()
            heard = [await victim.report() for _ in range(chance.randrange(1, 25))]
            heard += await victim.kill()
        known.update({report["set"]: report["state"] for report in heard})
        sets = {str(each.id): each for each in await box.list()}
        assert known.keys() <= sets.keys()
        for set_id, state in known.items():
            assert sets[set_id].status == state or (state == "pending" and sets[set_id].is_settled)
            assert await box.validate(set_id) == ()
            assert (sets[set_id].answers is not None) == (sets[set_id].status is QuestionStatus.COMPLETED)
    # What the dead were in the middle of, the living finish: no lock or half-written file is in the way.
    for question_set in await box.list():
        if not question_set.is_settled:
            yes = Answer(question_index=0, selected_option="yes")
            await box.answer(question_set.id, [yes], by="ada", door="test")
        elif question_set.answers:
            await box.mark_read(question_set.id)
        if question_set.status is not QuestionStatus.REJECTED:
            assert names(directory / question_set.id) == [
                "answers.json",
                "request.json",
                "status.json",
            ]
