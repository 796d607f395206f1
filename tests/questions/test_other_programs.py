"""The AUQ programs share the files: they answer what we ask, we answer what they ask, and nothing is lost."""

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from holdfast.model.question import AlreadySettled, Answer, QuestionKind, QuestionStatus
from holdfast.questions import QuestionBox
from holdfast.questions.errors import QuestionsRejected
from tests.questions.sets import NEW, PYTHON, RUST, OtherProgram, age, names, read, rewrite

THEIRS = {"questionIndex": 0, "selectedOption": "Rust"}


@pytest.fixture
def other(directory: Path) -> OtherProgram:
    return OtherProgram(directory)


async def test_our_question_answered_there(box: QuestionBox, other: OtherProgram) -> None:
    asked = await box.ask(NEW)
    waiting = asyncio.create_task(box.wait(asked.id))
    await asyncio.to_thread(other.answer, asked.id, THEIRS)
    answered = await waiting
    assert (answered.status, answered.answers) == (QuestionStatus.COMPLETED, (RUST,))
    assert (answered.answered_by, answered.answered_from) == (None, None)
    assert answered.answered_at is not None
    with pytest.raises(AlreadySettled, match="was already answered by another program at "):
        await box.answer(asked.id, [PYTHON], by="ada", door="test")


async def test_our_question_rejected_there(box: QuestionBox, other: OtherProgram) -> None:
    asked = await box.ask(NEW)
    other.reject(asked.id, "ask me later")
    with pytest.raises(AlreadySettled, match="was already rejected by another program"):
        await box.answer(asked.id, [RUST], by="ada", door="test")
    with pytest.raises(QuestionsRejected) as refusal:
        await box.wait(asked.id)
    assert refusal.value.reason == "ask me later"


async def test_their_question_answered_here(box: QuestionBox, directory: Path, other: OtherProgram) -> None:
    set_id = other.ask(call_id="call-1")
    (found,) = await box.list({QuestionStatus.PENDING})
    assert (found.id, found.call_id, found.kind) == (set_id, "call-1", QuestionKind.QUESTION)
    assert found.questions[0].options[0].description == "Fast to write"
    await box.answer(set_id, [PYTHON], by="ada", door="terminal")
    answers = read(directory, set_id, "answers.json")
    assert answers["answers"][0]["selectedOption"] == "Python (Recommended)"
    assert answers["callId"] == "call-1"
    assert read(directory, set_id, "status.json")["status"] == "completed"


async def test_their_question_rejected_here(box: QuestionBox, directory: Path, other: OtherProgram) -> None:
    set_id = other.ask()
    await box.reject(set_id, "no", by="ada", door="terminal")
    status = read(directory, set_id, "status.json")
    assert (status["status"], status["rejectionReason"]) == ("rejected", "no")


async def test_what_was_delivered_stands_whatever_they_write_later(
    box: QuestionBox, other: OtherProgram
) -> None:
    answered_here, answered_there, rejected_here, rejected_there = [await box.ask(NEW) for _ in range(4)]
    await box.answer(answered_here.id, [PYTHON], by="ada", door="test")
    other.answer(answered_there.id, {"questionIndex": 0, "selectedOption": "Python (Recommended)"})
    await box.reject(rejected_here.id, "first", by="ada", door="test")
    other.reject(rejected_there.id, "first")
    first = {
        each.id: await box.until_settled(each.id)
        for each in (answered_here, answered_there, rejected_here, rejected_there)
    }
    for set_id in first:
        other.answer(set_id, THEIRS)
        other.reject(set_id, "second")
    for set_id, delivered in first.items():
        now = await box.get(set_id)
        assert (now.status, now.answers, now.rejection_reason, now.answered_at) == (
            delivered.status,
            delivered.answers,
            delivered.rejection_reason,
            delivered.answered_at,
        )
        assert await box.validate(set_id) == ("Another program overwrote what was said first",)


async def test_answers_of_theirs_stand_once_they_were_fetched(
    box: QuestionBox, directory: Path, other: OtherProgram
) -> None:
    asked = await box.ask(NEW)
    other.answer(asked.id, THEIRS)
    assert (await box.mark_read(asked.id)).answers == (RUST,)
    assert "lastReadAt" in read(directory, asked.id, "answers.json")
    other.answer(asked.id, {"questionIndex": 0, "selectedOption": "Python (Recommended)"})
    assert (await box.get(asked.id)).answers == (RUST,)


async def test_an_answer_here_survives_that_its_file_is_deleted(box: QuestionBox, directory: Path) -> None:
    asked = await box.ask(NEW)
    await box.answer(asked.id, [RUST], by="ada", door="test")
    (directory / asked.id / "answers.json").unlink()
    assert (await box.mark_read(asked.id)).answers == (RUST,)
    assert (await box.wait(asked.id)).answered_by == "ada"
    assert read(directory, asked.id, "answers.json")["answers"][0]["selectedOption"] == "Rust"


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ("in-progress", QuestionStatus.PENDING),
        ("elaborate_requested", QuestionStatus.PENDING),
        (None, QuestionStatus.PENDING),
        ("timed_out", QuestionStatus.TIMED_OUT),
        ("completed", QuestionStatus.ABANDONED),  # but there are no answers
    ],
)
async def test_their_statuses_are_understood(
    box: QuestionBox, directory: Path, other: OtherProgram, status: str | None, expected: QuestionStatus
) -> None:
    set_id = other.ask()
    rewrite(directory, set_id, "status.json", status=status)
    assert (await box.get(set_id)).status is expected
    assert (await box.answer(set_id, [RUST], by="ada", door="test")).status is QuestionStatus.COMPLETED


async def test_several_answers_to_a_question_and_left_out_questions_are_read(
    box: QuestionBox, other: OtherProgram
) -> None:
    asked = await box.ask(NEW)
    elaborate = {"questionIndex": 0, "customText": "[ELABORATE_REQUEST] more"}
    other.answer(asked.id, elaborate, {"questionIndex": 0, "selectedOptions": ["Rust"], "extra": 1})
    assert (await box.wait(asked.id)).answers == (
        Answer(question_index=0, custom_text="[ELABORATE_REQUEST] more"),
        Answer(question_index=0, selected_options=("Rust",)),
    )


@pytest.mark.parametrize(
    "odd",
    [
        {"kind": "riddle", "agent": {"name": "x"}, "tool": "bash", "holdfastSession": 7},
        {"workingDirectory": None, "timestamp": "0001-01-01T00:00:00+14:00"},
        {"timestamp": "soon", "callId": 5, "priority": [1]},
    ],
)
async def test_odd_values_in_fields_of_ours_do_not_hide_a_question(
    box: QuestionBox, other: OtherProgram, odd: dict[str, Any]
) -> None:
    set_id = other.ask(**odd)
    assert (await box.get(set_id)).kind is QuestionKind.QUESTION
    assert (await box.answer(set_id, [RUST], by="ada", door="test")).answers == (RUST,)


@pytest.mark.parametrize(
    "outcome",
    [None, 5, {}, {"status": "completed"}, {"status": "completed", "answers": [{}]}, {"status": "?"}],
)
async def test_a_record_that_makes_no_sense_counts_as_none(
    box: QuestionBox, directory: Path, outcome: object
) -> None:
    asked = await box.ask(NEW)
    rewrite(directory, asked.id, "status.json", holdfastOutcome=outcome)
    assert (await box.get(asked.id)).status is QuestionStatus.PENDING


async def test_a_lock_they_left_behind_does_not_keep_us_from_answering(
    box: QuestionBox, directory: Path
) -> None:
    asked = await box.ask(NEW)
    empty, dead = (directory / asked.id / f"{name}.json.lock" for name in ("status", "answers"))
    empty.write_text("")
    age(empty, timedelta(seconds=5))
    dead.write_text("2147483647")
    await box.answer(asked.id, [RUST], by="ada", door="test")
    assert names(directory / asked.id) == ["answers.json", "request.json", "status.json"]


async def test_both_at_work_on_the_same_files_leave_them_whole(
    box: QuestionBox, directory: Path, other: OtherProgram
) -> None:
    """Their locks are respected both ways: no file is torn, none of their writers starves."""
    for number in range(10):
        asked = await box.ask(NEW)
        ours = box.answer(asked.id, [PYTHON], by="ada", door="test")
        theirs = asyncio.to_thread(other.answer if number % 2 else other.reject, asked.id)
        for outcome in await asyncio.gather(ours, theirs, return_exceptions=True):
            assert not isinstance(outcome, BaseException) or isinstance(outcome, AlreadySettled)
        assert (await box.get(asked.id)).status in set(QuestionStatus) - {QuestionStatus.PENDING}
        assert names(directory / asked.id)[-2:] == ["request.json", "status.json"]
