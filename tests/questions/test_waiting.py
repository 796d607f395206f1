"""Waiting for a person: how a wait ends, what it leaves behind, and that a late answer is not lost."""

import asyncio
import logging
import os
import sys
import uuid
from collections.abc import AsyncGenerator
from contextlib import aclosing
from datetime import timedelta
from pathlib import Path

import pytest

from holdfast.model.question import NewQuestionSet, QuestionSet, QuestionSetId, QuestionStatus
from holdfast.questions import QuestionBox
from holdfast.questions.box import POLL_SECONDS
from holdfast.questions.errors import (
    QuestionSetNotFound,
    QuestionsRejected,
    QuestionsTimedOut,
    UnreadableQuestionSet,
    UnusableAnswers,
)
from holdfast.questions.folder import SLOW_WRITER_SECONDS
from holdfast.questions.watch import Watcher
from tests.questions.sets import (
    NEW,
    RUST,
    Clock,
    OtherProgram,
    age,
    just_written,
    read,
    rewrite,
)
from tests.waiting import SECONDS, until

OLD = timedelta(seconds=SLOW_WRITER_SECONDS + 1)
THEIRS = {"questionIndex": 0, "selectedOption": "Rust"}


@pytest.fixture(params=["events", "polling"])
def noticing(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """With the package that tells of changes, and as if it were not installed."""
    if request.param == "polling":
        monkeypatch.setitem(sys.modules, "watchfiles", None)
    return str(request.param)


async def begun(
    box: QuestionBox, set_id: str, call_id: str | None = None, timeout: float | None = None
) -> asyncio.Task[QuestionSet]:
    """A wait that has begun, and has found nothing yet."""
    waiting = asyncio.create_task(box.wait(set_id, call_id=call_id, timeout=timeout))
    await until(lambda: bool(box._watcher._listeners))
    return waiting


@pytest.mark.req("ASK-20")
async def test_a_wait_ends_with_the_answers(box: QuestionBox, noticing: str) -> None:
    asked = await box.ask(NEW)
    waiting = await begun(box, asked.id)
    answered = await box.answer(asked.id, [RUST], by="ada", door="test")
    assert await waiting == answered


@pytest.mark.req("ASK-20", "ASK-22")
async def test_a_wait_ends_with_a_rejection_and_its_reason(box: QuestionBox, noticing: str) -> None:
    asked = await box.ask(NEW)
    waiting = await begun(box, asked.id)
    await box.reject(asked.id, "not now", by="ada", door="test")
    with pytest.raises(QuestionsRejected) as refusal:
        await waiting
    assert str(refusal.value) == "SESSION_REJECTED"
    assert refusal.value.reason == "not now"


@pytest.mark.req("ASK-20", "ASK-07")
async def test_a_wait_ends_with_its_time_and_leaves_the_set_timed_out(
    box: QuestionBox, directory: Path, noticing: str
) -> None:
    asked = await box.ask(NEW)
    with pytest.raises(QuestionsTimedOut) as end:
        await box.wait(asked.id, timeout=0.02)
    assert str(end.value) == (
        f"Session {asked.id} timed out waiting for user response: Timeout waiting for user response"
    )
    assert read(directory, asked.id, "status.json")["status"] == "timed_out"
    assert not (directory / asked.id / "answers.json").exists()


@pytest.mark.req("ASK-20")
def test_a_wait_looks_every_200_milliseconds() -> None:
    assert POLL_SECONDS == 0.2


async def test_the_time_of_a_wait_is_the_boxs_unless_it_is_told(directory: Path) -> None:
    box = QuestionBox(directory, timeout=0.02)
    asked = await box.ask(NEW)
    with pytest.raises(QuestionsTimedOut):
        await box.wait(asked.id)
    other = await box.ask(NEW)
    waiting = await begun(box, other.id, timeout=30)
    await box.answer(other.id, [RUST], by="ada", door="test")
    assert await waiting == await box.get(other.id)


async def test_a_late_answer_is_delivered_by_the_next_wait(box: QuestionBox) -> None:
    asked = await box.ask(NEW)
    with pytest.raises(QuestionsTimedOut):
        await box.wait(asked.id, timeout=0)
    waiting = await begun(box, asked.id)
    answered = await box.answer(asked.id, [RUST], by="ada", door="test")
    assert answered.late
    assert await waiting == answered
    assert await box.wait(asked.id) == answered


async def test_a_cancelled_wait_leaves_the_set_abandoned_but_answerable(
    box: QuestionBox, directory: Path
) -> None:
    asked = await box.ask(NEW)
    waiting = await begun(box, asked.id)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert read(directory, asked.id, "status.json")["status"] == "abandoned"
    await box.answer(asked.id, [RUST], by="ada", door="test")
    fetched = await box.mark_read(asked.id)
    assert (fetched.answers, fetched.late) == ((RUST,), True)
    assert (await box.wait(asked.id)).answers == (RUST,)


async def test_cancelling_a_wait_after_the_answer_changes_nothing(box: QuestionBox) -> None:
    asked = await box.ask(NEW)
    waiting = asyncio.create_task(box.wait(asked.id))
    answered = await box.answer(asked.id, [RUST], by="ada", door="test")
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    assert await box.get(asked.id) == answered


async def test_an_onlooker_marks_nothing(box: QuestionBox) -> None:
    asked = await box.ask(NEW)
    assert await box.until_settled(asked.id, timeout=0.02) == asked
    watching = asyncio.create_task(box.until_settled(asked.id))
    await until(lambda: bool(box._watcher._listeners))
    watching.cancel()
    with pytest.raises(asyncio.CancelledError):
        await watching
    assert await box.get(asked.id) == asked
    rejected = await box.reject(asked.id, "no", by="ada", door="test")
    assert await box.until_settled(asked.id) == rejected


async def test_many_waits_in_one_process_end_with_one_answer(box: QuestionBox) -> None:
    asked, other = await box.ask(NEW), await box.ask(NEW)
    waits = [asyncio.create_task(box.wait(asked.id)) for _ in range(20)]
    await until(lambda: len(box._watcher._listeners) == 20)
    answered = await box.answer(asked.id, [RUST], by="ada", door="test")
    assert await asyncio.gather(*waits) == [answered] * 20
    assert box._watcher._thread is None
    assert (await box.get(other.id)).status is QuestionStatus.PENDING


@pytest.mark.req("ASK-21")
async def test_a_wait_goes_on_when_answers_carry_another_call_id(box: QuestionBox, directory: Path) -> None:
    asked = await box.ask(NewQuestionSet(questions=NEW.questions, call_id="mine"))
    other = OtherProgram(directory)
    other.answer(asked.id, THEIRS, call_id="another")
    pending = await box.until_settled(asked.id, call_id="mine", timeout=0.01)
    assert not pending.is_settled
    waiting = await begun(box, asked.id, call_id="mine")
    other.answer(asked.id, THEIRS, call_id="mine")
    answered = await waiting
    assert answered == await box.get(asked.id)
    assert (await box.get(asked.id)).answers == (RUST,)


@pytest.mark.req("ASK-21")
async def test_a_wait_goes_on_when_our_own_answer_is_for_another_call(box: QuestionBox) -> None:
    asked = await box.ask(NewQuestionSet(questions=NEW.questions, call_id="theirs"))
    await box.answer(asked.id, [RUST], by="ada", door="test")
    with pytest.raises(QuestionsTimedOut):
        await box.wait(asked.id, call_id="mine", timeout=0.01)
    assert (await box.wait(asked.id, call_id="theirs")).answers == (RUST,)


async def test_answers_without_a_call_id_are_for_every_call(box: QuestionBox, directory: Path) -> None:
    asked = await box.ask(NewQuestionSet(questions=NEW.questions, call_id="mine"))
    OtherProgram(directory).answer(asked.id, THEIRS)
    assert (await box.wait(asked.id, call_id="mine")).answers == (RUST,)


async def test_answers_count_more_than_a_rejection(box: QuestionBox, directory: Path) -> None:
    asked = await box.ask(NEW)
    other = OtherProgram(directory)
    other.answer(asked.id, THEIRS)
    other.reject(asked.id, "changed my mind")
    assert (await box.wait(asked.id)).answers == (RUST,)


async def test_answers_alone_are_enough_and_the_waiter_completes_the_set(
    box: QuestionBox, directory: Path
) -> None:
    asked = await box.ask(NEW)
    OtherProgram(directory).answer(asked.id, THEIRS)
    rewrite(directory, asked.id, "status.json", status="pending")  # the other was killed before that
    assert (await box.get(asked.id)).status is QuestionStatus.COMPLETED
    assert (await box.wait(asked.id)).answers == (RUST,)
    assert read(directory, asked.id, "status.json")["status"] == "completed"


@pytest.mark.req("ASK-08")
@pytest.mark.parametrize(
    ("theirs", "problem"),
    [
        ([], "No answers provided"),
        ([{"questionIndex": 7, "customText": "?"}], "Answer references invalid question index: 7"),
        (
            [{"questionIndex": 0}],
            "Answer for question 0 has neither selectedOption, selectedOptions, nor customText",
        ),
        (
            [{"questionIndex": 0, "selectedOption": "Cobol"}],
            "Answer for question 0 references non-existent option: Cobol",
        ),
    ],
)
async def test_answers_of_another_program_that_do_not_fit_make_the_set_abandoned(
    box: QuestionBox, directory: Path, theirs: list[dict[str, object]], problem: str
) -> None:
    asked = await box.ask(NEW)
    OtherProgram(directory).answer(asked.id, *theirs)
    with pytest.raises(UnusableAnswers) as failure:
        await box.wait(asked.id)
    assert str(failure.value) == f"Answer validation failed for session {asked.id}: {problem}"
    assert read(directory, asked.id, "status.json")["status"] == "abandoned"
    assert (await box.answer(asked.id, [RUST], by="ada", door="test")).late
    assert (await box.wait(asked.id)).answers == (RUST,)


@pytest.mark.req("ASK-08")
async def test_answers_that_are_none_at_all_make_the_set_abandoned(box: QuestionBox, directory: Path) -> None:
    asked = await box.ask(NEW)
    (directory / asked.id / "answers.json").write_text('{"answers": "yes"}')
    with pytest.raises(UnusableAnswers) as failure:
        await box.wait(asked.id)
    assert str(failure.value) == f"Answers file was created but is invalid for session {asked.id}"
    assert read(directory, asked.id, "status.json")["status"] == "abandoned"


@pytest.mark.req("ASK-08")
@pytest.mark.parametrize("file", ["request.json", "status.json", "answers.json"])
async def test_a_file_that_is_no_json_makes_the_set_abandoned(
    box: QuestionBox, directory: Path, file: str
) -> None:
    asked = await box.ask(NEW)
    (directory / asked.id / file).write_text('{"half":')
    age(directory / asked.id / file, OLD)
    with pytest.raises(UnreadableQuestionSet, match=f"Failed to parse JSON from session file {file}"):
        await box.wait(asked.id)
    assert read(directory, asked.id, "status.json")["status"] == "abandoned"


@pytest.mark.parametrize("file", ["status.json", "answers.json"])
async def test_a_damaged_file_does_not_keep_a_person_from_answering(
    box: QuestionBox, directory: Path, file: str
) -> None:
    asked = await box.ask(NEW)
    (directory / asked.id / file).write_text("\x00\x00")
    await box.answer(asked.id, [RUST], by="ada", door="test")
    assert (await box.wait(asked.id)).answers == (RUST,)
    assert await box.validate(asked.id) == ()


@pytest.mark.req("ASK-08")
async def test_answering_a_set_whose_questions_are_damaged_fails_and_abandons_it(
    box: QuestionBox, directory: Path
) -> None:
    asked = await box.ask(NEW)
    (directory / asked.id / "request.json").write_text('{"questions": 5}')
    with pytest.raises(UnreadableQuestionSet, match=r"request\.json"):
        await box.answer(asked.id, [RUST], by="ada", door="test")
    assert read(directory, asked.id, "status.json")["status"] == "abandoned"
    assert await box.list() == ()


async def test_a_slow_writer_is_given_time(box: QuestionBox, directory: Path) -> None:
    asked = await box.ask(NEW)
    waiting = await begun(box, asked.id)
    answers = directory / asked.id / "answers.json"
    with answers.open("w") as slow:
        slow.write('{"answers": [{"questionIndex": 0, ')
        slow.flush()
        just_written(answers)
        assert not (await box.until_settled(asked.id, timeout=0)).is_settled
        slow.write('"selectedOption": "Rust"}]}')
    assert await waiting == await box.get(asked.id)


async def test_answers_that_stay_unreadable_are_waited_for_by_a_call(
    box: QuestionBox, directory: Path
) -> None:
    asked = await box.ask(NewQuestionSet(questions=NEW.questions, call_id="mine"))
    answers = directory / asked.id / "answers.json"
    answers.write_text("half")
    age(answers, OLD)
    assert await box.until_settled(asked.id, call_id="mine", timeout=0) == asked
    OtherProgram(directory).answer(asked.id, THEIRS, call_id="mine")
    assert (await box.wait(asked.id, call_id="mine")).answers == (RUST,)


async def test_a_set_that_another_program_writes_slowly_is_found_once_it_is_whole(
    box: QuestionBox, directory: Path
) -> None:
    source = await box.ask(NEW)
    request = (directory / source.id / "request.json").read_text()
    set_id = str(uuid.uuid4())
    async with aclosing(box.changes()) as changes:
        assert await anext(changes) == {source.id}
        (directory / set_id).mkdir()
        assert await anext(changes) == {set_id}
        assert [each.id for each in await box.list()] == [source.id]
        with pytest.raises(QuestionSetNotFound, match=f"Session request not found: {set_id}"):
            await box.get(set_id)
        (directory / set_id / "request.json").write_text(request[:40])
        just_written(directory / set_id / "request.json")
        await _told_of(changes, set_id)
        assert [each.id for each in await box.list()] == [source.id]
        (directory / set_id / "request.json").write_text(request)
        await _told_of(changes, set_id)
        assert {each.id for each in await box.list()} == {source.id, set_id}
    assert (await box.answer(set_id, [RUST], by="ada", door="test")).status is QuestionStatus.COMPLETED


async def test_a_wait_for_a_set_that_is_deleted_ends(box: QuestionBox, clock: Clock) -> None:
    asked = await box.ask(NEW)
    waiting = await begun(box, asked.id)
    clock.advance(timedelta(days=8))
    assert (await box.sweep()).deleted == (asked.id,)
    with pytest.raises(QuestionSetNotFound):
        await waiting


async def test_changes_tell_which_sets_came_changed_and_went(
    box: QuestionBox, directory: Path, clock: Clock, noticing: str
) -> None:
    elsewhere = QuestionBox(directory, clock=clock)
    async with aclosing(box.changes()) as changes:
        assert await anext(changes) == frozenset()
        asked = await elsewhere.ask(NEW)
        assert await anext(changes) == {asked.id}
        await elsewhere.answer(asked.id, [RUST], by="ada", door="test")
        await _told_of(changes, asked.id)
        clock.advance(timedelta(days=8))
        await elsewhere.sweep()
        await _told_of(changes, asked.id)
        assert await box.list() == ()


async def test_locks_and_temporary_files_wake_nobody(box: QuestionBox, directory: Path) -> None:
    quiet, busy = await box.ask(NEW), await box.ask(NEW)
    watcher = Watcher(directory)
    async with watcher.listening(quiet.id) as heard, watcher.listening() as anything:
        # Until the system tells of changes at all.
        async def told() -> bool:
            os.utime(directory / busy.id / "status.json")
            return anything.is_set()

        await until(told)
        heard.clear()
        for name in ("status.json.lock", ".status.json.x.tmp", "notes.txt"):
            (directory / quiet.id / name).write_text("1")
        anything.clear()
        (directory / busy.id / "answers.json").write_text("{}")
        await until(anything.is_set)
        assert not heard.is_set()
        (directory / quiet.id / "answers.json").write_text("{}")
        await until(heard.is_set)


async def test_a_directory_that_cannot_be_watched_is_said_and_does_not_stop_a_wait(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "holdfast.questions"):
        async with Watcher(tmp_path / "gone").listening(QuestionSetId("")) as heard:
            await until(lambda: "cannot be watched" in caplog.text)
            assert not heard.is_set()


async def _told_of(changes: AsyncGenerator[frozenset[QuestionSetId], None], set_id: str) -> None:
    """Several writes to one set may be told of one by one or together."""
    told: frozenset[QuestionSetId] = frozenset()
    async with asyncio.timeout(SECONDS):
        while set_id not in told:
            told = await anext(changes)
