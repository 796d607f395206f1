"""Cleaning up and the limits: what is old leaves, and only open sets are counted."""

import logging
import uuid
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest

from holdfast.errors import InvalidInput
from holdfast.model.ids import SessionId
from holdfast.model.question import QuestionKind
from holdfast.questions import QuestionBox
from holdfast.questions.directory import SESSION_LIMIT, Removal
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


@pytest.mark.req("SEC-17")
async def test_only_open_sets_count_and_answered_ones_leave_by_retention_alone(
    box: QuestionBox, directory: Path, clock: Clock
) -> None:
    small = QuestionBox(directory, clock=clock, limit=3)
    answered, abandoned, first = [(await small.ask(NEW)).id for _ in range(3)]
    await small.answer(answered, [RUST], by="ada", door="test")
    await small.abandon(abandoned)
    open_ones = {first, *[(await small.ask(NEW)).id for _ in range(2)]}
    with pytest.raises(TooManyQuestionSets) as refusal:
        await small.ask(NEW)
    assert (refusal.value.status, refusal.value.retriable) == (429, True)
    assert set(await ids(small)) == {answered, abandoned, *open_ones}
    assert (await small.sweep()).deleted == ()
    assert names(directory / ".holdfast") == []
    await small.reject(first, "no", by="ada", door="test")
    await small.ask(NEW)
    assert len(await ids(small)) == 6


@pytest.mark.req("SEC-17")
async def test_no_organization_and_no_session_takes_the_room_of_others(directory: Path) -> None:
    roomy = QuestionBox(directory, limit=1000)
    only = msgspec.structs.replace(NEW, session_id=SessionId("only"))
    for _ in range(SESSION_LIMIT):
        last = await roomy.ask(only)
    with pytest.raises(TooManyQuestionSets, match="32 question sets of this session wait"):
        await roomy.ask(only)
    await roomy.reject(last.id, by="ada", door="test")
    await roomy.ask(only)
    box = QuestionBox(directory, limit=2 * SESSION_LIMIT)
    theirs = msgspec.structs.replace(NEW, organization="acme")
    for session in "ab":
        asking = msgspec.structs.replace(theirs, session_id=SessionId(session))
        for _ in range(SESSION_LIMIT):
            await box.ask(asking)
        with pytest.raises(TooManyQuestionSets):
            await box.ask(asking)
    with pytest.raises(TooManyQuestionSets, match="64 question sets wait"):
        await box.ask(msgspec.structs.replace(theirs, session_id=SessionId("c")))
    await box.ask(NEW)
    await box.ask(msgspec.structs.replace(NEW, organization="other"))
    await box.ask(msgspec.structs.replace(theirs, kind=QuestionKind.PERMISSION))


async def test_the_limit_is_one_hundred_unless_configured(box: QuestionBox, directory: Path) -> None:
    roomy = QuestionBox(directory, limit=1000)
    sets = [(await roomy.ask(NEW)).id for _ in range(101)]
    with pytest.raises(TooManyQuestionSets):
        await box.ask(NEW)
    for set_id in sets[:2]:
        await box.answer(set_id, [RUST], by="ada", door="test")
    await box.ask(NEW)
    with pytest.raises(TooManyQuestionSets):
        await box.ask(NEW)


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
