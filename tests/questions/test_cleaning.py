"""Cleaning up: what is old leaves, what is over the limit leaves, and what waits for an answer stays."""

import logging
import uuid
from datetime import timedelta
from pathlib import Path

import pytest

from holdfast.errors import InvalidInput
from holdfast.questions import QuestionBox
from holdfast.questions.directory import Removal
from holdfast.questions.errors import TooManyQuestionSets
from tests.questions.processes import worker
from tests.questions.sets import NEW, RUST, Clock, age, names, rewrite

DAY = timedelta(days=1)
SECOND = timedelta(seconds=1)


async def ids(box: QuestionBox) -> list[str]:
    return [each.id for each in await box.list()]


@pytest.mark.req("ASK-23")
async def test_sets_older_than_seven_days_are_deleted_and_the_others_kept(
    box: QuestionBox, directory: Path, clock: Clock
) -> None:
    old_pending, old_answered, old_but_changed = [(await box.ask(NEW)).id for _ in range(3)]
    await box.answer(old_answered, [RUST], by="ada", door="test")
    clock.advance(SECOND)
    exactly = (await box.ask(NEW)).id
    clock.advance(6 * DAY)
    await box.answer(old_but_changed, [RUST], by="ada", door="test")
    young = (await box.ask(NEW)).id
    clock.advance(DAY)
    sweep = await box.sweep()
    assert set(sweep.deleted) == {old_pending, old_answered}
    assert sweep.failed == {}
    assert await ids(box) == [old_but_changed, exactly, young]
    assert not (directory / old_pending).exists()
    assert names(directory / ".holdfast") == []
    assert (await box.sweep()).deleted == ()


@pytest.mark.req("ASK-23")
async def test_the_retention_period_is_as_configured(directory: Path, clock: Clock) -> None:
    hour = QuestionBox(directory, clock=clock, retention=timedelta(hours=1))
    asked = await hour.ask(NEW)
    later = clock() + 2 * 3_600_000
    assert (await QuestionBox(directory, retention=None).sweep(later * 2)).deleted == ()
    assert (await QuestionBox(directory).sweep(later)).deleted == ()
    assert (await hour.sweep()).deleted == ()
    assert (await hour.sweep(later)).deleted == (asked.id,)


@pytest.mark.usefixtures("process")
@pytest.mark.req("ASK-24")
async def test_a_set_that_cannot_be_deleted_is_reported_and_the_others_are_deleted(
    box: QuestionBox, directory: Path, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    sets = sorted([(await box.ask(NEW)).id for _ in range(5)])
    clock.advance(8 * DAY)
    stuck = sets[2]  # so that there are others on both sides of it
    async with worker("hold_guard", path=str(directory / stuck)):
        with caplog.at_level(logging.WARNING, "holdfast.questions"):
            sweep = await box.sweep()
    assert sorted(sweep.deleted) == [each for each in sets if each != stuck]
    assert list(sweep.failed) == [stuck]
    assert f"The question set {stuck} could not be deleted" in caplog.text
    assert await ids(box) == [stuck]
    assert (await box.sweep()).deleted == (stuck,)


async def test_damaged_sets_are_judged_by_the_age_of_their_files_and_stop_nothing(
    box: QuestionBox, directory: Path, clock: Clock
) -> None:
    young, old, sound = [(await box.ask(NEW)).id for _ in range(3)]
    empty = str(uuid.uuid4())
    (directory / empty).mkdir()
    for set_id in (young, old):
        (directory / set_id / "status.json").write_text("{")
        (directory / set_id / "request.json").write_text("\x00")
    rewrite(directory, sound, "status.json", createdAt="yesterday", lastModified=None)
    for path in (directory / old, *(directory / old).iterdir(), directory / empty):
        age(path, 8 * DAY)
    assert set((await box.sweep()).deleted) == {old, empty}
    assert (directory / young).is_dir()
    clock.advance(8 * DAY)
    assert set((await box.sweep()).deleted) == {young, sound}


async def test_what_a_killed_process_left_out_of_sight_is_deleted_once_it_is_old(
    box: QuestionBox, directory: Path
) -> None:
    await box.ask(NEW)
    old, young = (directory / ".holdfast" / name for name in ("new-old", "new-young"))
    for leftover in (old, young):
        leftover.mkdir()
        (leftover / "request.json").write_text("{}")
    age(old, timedelta(hours=2))
    await box.sweep()
    assert names(directory / ".holdfast") == ["new-young"]


async def test_at_the_limit_finished_sets_leave_first_and_pending_ones_never(
    directory: Path, clock: Clock
) -> None:
    box = QuestionBox(directory, clock=clock, limit=6)

    async def ask() -> str:
        clock.advance(SECOND)
        return (await box.ask(NEW)).id

    pending, abandoned, unread, read_later, read_first = [await ask() for _ in range(5)]
    await box.abandon(abandoned)
    for set_id in (unread, read_first, read_later):
        clock.advance(SECOND)
        await box.answer(set_id, [RUST], by="ada", door="test")
    await box.mark_read(read_first)
    await box.mark_read(read_later)
    leaving: list[str] = []
    before = {pending, abandoned, unread, read_later, read_first, await ask()}
    for _ in range(4):
        before.add(await ask())
        now = set(await ids(box))
        assert len(now) == 6
        leaving += before - now
        before = now
    assert leaving == [read_first, read_later, unread, abandoned]
    with pytest.raises(TooManyQuestionSets) as refusal:
        await ask()
    assert (refusal.value.status, refusal.value.retriable) == (429, True)
    assert pending in await ids(box)
    assert names(directory / ".holdfast") == []
    await box.reject(pending, "no", by="ada", door="test")
    await ask()
    assert pending not in await ids(box)


async def test_the_limit_is_one_hundred_unless_configured(box: QuestionBox, directory: Path) -> None:
    roomy = QuestionBox(directory, limit=1000)
    sets = [(await roomy.ask(NEW)).id for _ in range(103)]
    with pytest.raises(TooManyQuestionSets):
        await box.ask(NEW)
    for set_id in sets[:5]:
        await box.answer(set_id, [RUST], by="ada", door="test")
    assert len((await box.sweep()).deleted) == 3
    await box.ask(NEW)
    assert len(await ids(box)) == 100


def test_a_box_without_room_is_refused(directory: Path) -> None:
    with pytest.raises(InvalidInput):
        QuestionBox(directory, limit=0)


async def test_a_set_that_changes_while_it_is_judged_stays(
    directory: Path, clock: Clock, box: QuestionBox
) -> None:
    asked = await box.ask(NEW)
    folder = box._sets.folder(asked.id)
    seen = folder.stamp()
    await box.answer(asked.id, [RUST], by="ada", door="test")
    assert Removal(directory).remove(folder, seen) is False
    assert (await box.get(asked.id)).answers == (RUST,)
