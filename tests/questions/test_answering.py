"""Answering and rejecting: checked before anything is written, and the first word of a person stands."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import pytest

from holdfast.errors import InvalidInput
from holdfast.model.question import AlreadySettled, Answer, InvalidAnswers, NewQuestionSet, QuestionStatus
from holdfast.questions import QuestionBox
from holdfast.questions.errors import NoAnswers
from tests.questions.sets import LANGUAGE, NEW, PYTHON, RUST, Clock, names, read, rewrite, write_as_others_do

LATER = timedelta(minutes=1)


@pytest.mark.req("ASK-05", "ASK-16")
async def test_valid_answers_are_written_and_complete_the_set(
    box: QuestionBox, directory: Path, clock: Clock
) -> None:
    asked = await box.ask(NEW)
    clock.advance(LATER)
    features = Answer(question_index=1, selected_options=("Auth", "Metrics"), custom_text="also SSO")
    answered = await box.answer(asked.id, [PYTHON, features], by="ada", door="terminal")
    assert answered.status is QuestionStatus.COMPLETED
    assert answered.answers == (PYTHON, features)
    assert (answered.answered_by, answered.answered_from, answered.answered_at) == (
        "ada",
        "terminal",
        clock.now,
    )
    assert (answered.updated_at, answered.late) == (clock.now, False)
    assert await box.get(asked.id) == answered
    assert read(directory, asked.id, "status.json")["status"] == "completed"
    assert await box.validate(asked.id) == ()


@pytest.mark.req("ASK-11")
@pytest.mark.parametrize("call_id", ["call-1", None])
async def test_the_answers_file_is_that_of_the_auq_programs(
    box: QuestionBox, directory: Path, clock: Clock, call_id: str | None
) -> None:
    asked = await box.ask(NewQuestionSet(questions=NEW.questions, call_id=call_id))
    none = Answer(question_index=1, selected_options=())
    await box.answer(asked.id, [RUST, none], by="ada", door="terminal")
    assert read(directory, asked.id, "answers.json") == {
        "sessionId": asked.id,
        "answers": [
            {"questionIndex": 0, "selectedOption": "Rust", "timestamp": clock.text},
            {"questionIndex": 1, "selectedOptions": [], "timestamp": clock.text},
        ],
        "timestamp": clock.text,
        **({"callId": call_id} if call_id else {}),
        "answeredBy": "ada",
        "answeredFrom": "terminal",
    }


@pytest.mark.req("ASK-16")
async def test_the_answers_are_there_before_the_status_says_so(box: QuestionBox, directory: Path) -> None:
    """A program that waits for the status must find the answers."""
    ids = [(await box.ask(NEW)).id for _ in range(10)]

    def answers_are_there_as_soon_as_completed(set_id: str) -> bool:
        while read(directory, set_id, "status.json")["status"] != "completed":
            pass
        return (directory / set_id / "answers.json").exists()

    for set_id in ids:
        watching = asyncio.create_task(asyncio.to_thread(answers_are_there_as_soon_as_completed, set_id))
        await box.answer(set_id, [RUST], by="ada", door="test")
        assert await watching


@pytest.mark.req("ASK-10")
async def test_a_status_file_keeps_its_fields_and_tells_when_it_changed(
    box: QuestionBox, directory: Path, clock: Clock
) -> None:
    asked = await box.ask(NewQuestionSet(questions=NEW.questions, call_id="call-1"))
    created = clock.text
    clock.advance(LATER)
    await box.answer(asked.id, [RUST], by="ada", door="test")
    status = read(directory, asked.id, "status.json")
    assert {name: status[name] for name in ("sessionId", "status", "totalQuestions", "callId")} == {
        "sessionId": asked.id,
        "status": "completed",
        "totalQuestions": 2,
        "callId": "call-1",
    }
    assert (status["createdAt"], status["lastModified"]) == (created, clock.text)
    assert "rejectionReason" not in status


@pytest.mark.req("ASK-06", "ASK-18", "ASK-10")
async def test_a_rejection_keeps_the_persons_words(box: QuestionBox, directory: Path, clock: Clock) -> None:
    asked = await box.ask(NEW)
    clock.advance(LATER)
    rejected = await box.reject(asked.id, "not “now”", by="ada", door="browser")
    assert (rejected.status, rejected.rejection_reason) == (QuestionStatus.REJECTED, "not “now”")
    assert (rejected.answered_by, rejected.answered_from, rejected.answered_at) == (
        "ada",
        "browser",
        clock.now,
    )
    assert await box.get(asked.id) == rejected
    status = read(directory, asked.id, "status.json")
    assert (status["status"], status["rejectionReason"]) == ("rejected", "not “now”")
    assert not (directory / asked.id / "answers.json").exists()
    assert await box.validate(asked.id) == ()


@pytest.mark.req("ASK-19", "ASK-10")
@pytest.mark.parametrize("reason", [None, ""])
async def test_a_rejection_without_a_reason_has_null_there(
    box: QuestionBox, directory: Path, reason: str | None
) -> None:
    asked = await box.ask(NEW)
    rejected = await box.reject(asked.id, reason, by="ada", door="test")
    assert rejected.rejection_reason is None
    status = read(directory, asked.id, "status.json")
    assert status["status"] == "rejected"
    assert status["rejectionReason"] is None


@pytest.mark.req("ASK-29")
@pytest.mark.parametrize(
    ("answers", "problem"),
    [
        ([], "No answers provided"),
        ([Answer(question_index=2, custom_text="?")], "Answer references invalid question index: 2"),
        ([RUST, Answer(question_index=-1, custom_text="?")], "Answer references invalid question index: -1"),
        (
            [Answer(question_index=0)],
            "Answer for question 0 has neither selectedOption, selectedOptions, nor customText",
        ),
        (
            [Answer(question_index=0, selected_option="Python")],
            "Answer for question 0 references non-existent option: Python",
        ),
        (
            [Answer(question_index=1, selected_options=("Auth", "auth"))],
            "Answer for question 1 references non-existent option: auth",
        ),
    ],
)
async def test_answers_that_do_not_fit_are_refused_and_the_set_stays_pending(
    box: QuestionBox, directory: Path, answers: Sequence[Answer], problem: str
) -> None:
    asked = await box.ask(NEW)
    with pytest.raises(InvalidAnswers) as failure:
        await box.answer(asked.id, answers, by="ada", door="test")
    assert str(failure.value) == problem
    assert failure.value.status == 400
    assert not (directory / asked.id / "answers.json").exists()
    assert await box.get(asked.id) == asked


@pytest.mark.parametrize(
    ("by", "door", "text"), [("", "test", "x"), ("ada", "", "x"), ("ada", "test", "half \ud800")]
)
async def test_a_name_a_door_and_storable_text_are_needed(
    box: QuestionBox, by: str, door: str, text: str
) -> None:
    asked = await box.ask(NEW)
    with pytest.raises(InvalidInput):
        await box.answer(asked.id, [Answer(question_index=0, custom_text=text)], by=by, door=door)
    with pytest.raises(InvalidInput):
        await box.reject(asked.id, text, by=by, door=door)
    assert await box.get(asked.id) == asked


async def test_a_second_answer_is_refused_and_the_first_is_kept(
    box: QuestionBox, directory: Path, clock: Clock
) -> None:
    asked = await box.ask(NEW)
    first = await box.answer(asked.id, [RUST], by="ada", door="terminal")
    files = {file.name: file.read_bytes() for file in (directory / asked.id).iterdir()}
    when = clock.text
    clock.advance(LATER)
    with pytest.raises(AlreadySettled) as refusal:
        await box.answer(asked.id, [PYTHON], by="bob", door="browser")
    assert str(refusal.value) == (
        f"Session {asked.id} was already answered by ada through terminal at {when}; the first answer stands."
    )
    assert refusal.value.status == 409
    assert refusal.value.first == first
    with pytest.raises(AlreadySettled):
        await box.reject(asked.id, "too late", by="bob", door="browser")
    assert {file.name: file.read_bytes() for file in (directory / asked.id).iterdir()} == files


async def test_an_answer_after_a_rejection_is_refused(box: QuestionBox, directory: Path) -> None:
    asked = await box.ask(NEW)
    rejected = await box.reject(asked.id, "no", by="ada", door="terminal")
    with pytest.raises(AlreadySettled, match="was already rejected by ada through terminal"):
        await box.answer(asked.id, [RUST], by="bob", door="browser")
    assert not (directory / asked.id / "answers.json").exists()
    assert await box.get(asked.id) == rejected


@pytest.mark.req("ASK-07")
async def test_a_pending_set_times_out(box: QuestionBox, directory: Path) -> None:
    asked = await box.ask(NEW)
    assert (await box.time_out(asked.id)).status is QuestionStatus.TIMED_OUT
    assert read(directory, asked.id, "status.json")["status"] == "timed_out"


async def test_a_pending_set_can_be_abandoned(box: QuestionBox, directory: Path) -> None:
    asked = await box.ask(NEW)
    assert (await box.abandon(asked.id)).status is QuestionStatus.ABANDONED
    assert read(directory, asked.id, "status.json")["status"] == "abandoned"


async def test_a_settled_set_neither_times_out_nor_is_abandoned(box: QuestionBox) -> None:
    asked = await box.ask(NEW)
    answered = await box.answer(asked.id, [RUST], by="ada", door="test")
    assert await box.time_out(asked.id) == await box.abandon(asked.id) == await box.get(asked.id) == answered


async def test_a_set_that_timed_out_stays_so_when_its_asker_goes(box: QuestionBox) -> None:
    asked = await box.ask(NEW)
    await box.time_out(asked.id)
    assert (await box.abandon(asked.id)).status is QuestionStatus.TIMED_OUT


@pytest.mark.parametrize("ending", ["time_out", "abandon"])
async def test_a_late_answer_is_taken_and_marked_so(box: QuestionBox, ending: str) -> None:
    asked = await box.ask(NEW)
    await getattr(box, ending)(asked.id)
    answered = await box.answer(asked.id, [RUST], by="ada", door="test")
    assert (answered.status, answered.late) == (QuestionStatus.COMPLETED, True)
    assert await box.get(asked.id) == answered
    with pytest.raises(AlreadySettled):
        await box.answer(asked.id, [PYTHON], by="bob", door="test")


@pytest.mark.parametrize("ending", ["time_out", "abandon"])
async def test_a_late_rejection_is_taken_and_marked_so(box: QuestionBox, ending: str) -> None:
    asked = await box.ask(NEW)
    await getattr(box, ending)(asked.id)
    rejected = await box.reject(asked.id, "no", by="ada", door="test")
    assert (rejected.status, rejected.late) == (QuestionStatus.REJECTED, True)
    assert await box.get(asked.id) == rejected


async def test_fetched_answers_are_noted_as_read(box: QuestionBox, directory: Path, clock: Clock) -> None:
    asked = await box.ask(NEW)
    with pytest.raises(NoAnswers) as failure:
        await box.mark_read(asked.id)
    assert str(failure.value) == f"Session {asked.id} has no answers to mark as read"
    answered = await box.answer(asked.id, [RUST], by="ada", door="test")
    assert answered.read_at is None
    clock.advance(LATER)
    assert (await box.mark_read(asked.id)).read_at == (await box.get(asked.id)).read_at == clock.now
    assert read(directory, asked.id, "answers.json")["lastReadAt"] == clock.text


async def test_a_rejection_that_was_heard_is_noted_as_read(
    box: QuestionBox, directory: Path, clock: Clock
) -> None:
    asked = await box.ask(NEW)
    rejected = await box.reject(asked.id, "no", by="ada", door="test")
    assert rejected.read_at is None
    clock.advance(LATER)
    heard = await box.mark_read(asked.id)
    assert (heard.read_at, heard.answered_at) == (clock.now, rejected.answered_at)
    assert await box.get(asked.id) == heard
    assert read(directory, asked.id, "status.json")["lastReadAt"] == clock.text


async def test_rewriting_keeps_fields_that_we_do_not_know(box: QuestionBox, directory: Path) -> None:
    asked = await box.ask(NEW)
    unknown = {"theirs": {"nested": [1, 2, {"three": "→"}]}, "big": 2**70}
    for file in ("request.json", "status.json"):
        rewrite(directory, asked.id, file, **unknown)
    request = (directory / asked.id / "request.json").read_bytes()
    await box.time_out(asked.id)
    # Answers to another call are not answers to this one, but the file may hold more than those.
    write_as_others_do(
        directory / asked.id / "answers.json", {"answers": [], "sessionId": asked.id, **unknown}
    )
    await box.answer(asked.id, [RUST], by="ada", door="test")
    await box.mark_read(asked.id)
    assert (directory / asked.id / "request.json").read_bytes() == request
    for file in ("status.json", "answers.json"):
        content = read(directory, asked.id, file)
        assert {name: content[name] for name in unknown} == unknown


@pytest.mark.req("ASK-14")
async def test_what_a_process_was_writing_when_it_was_killed_goes_with_the_next_change(
    box: QuestionBox, directory: Path
) -> None:
    asked = await box.ask(NEW)
    (directory / asked.id / ".status.json.0123.tmp").write_text('{"half":')
    await box.answer(asked.id, [RUST], by="ada", door="test")
    assert names(directory / asked.id) == ["answers.json", "request.json", "status.json"]


@pytest.mark.req("ASK-30")
async def test_checking_a_set_reports_what_is_wrong_with_it(box: QuestionBox, directory: Path) -> None:
    asked = await box.ask(NewQuestionSet(questions=(LANGUAGE,)))
    path = directory / asked.id
    assert await box.validate(asked.id) == ()
    rewrite(directory, asked.id, "status.json", sessionId="other", totalQuestions=5)
    rewrite(directory, asked.id, "request.json", sessionId="other")
    assert await box.validate(asked.id) == (
        "Session ID mismatch in status file",
        "Session ID mismatch in request file",
        "Question count mismatch between status and request",
    )
    (path / "status.json").write_text("{")
    assert await box.validate(asked.id) == ("Could not read session status or request",)
    (path / "status.json").unlink()
    assert await box.validate(asked.id) == ("Required file missing: status.json",)
    (path / "request.json").unlink()
    assert await box.validate(asked.id) == (
        "Required file missing: request.json",
        "Required file missing: status.json",
    )
    path.rmdir()
    assert await box.validate(asked.id) == ("Session directory does not exist",)
