"""Asking: a question set appears whole, in the AUQ programs' format, and for its owner alone."""

import asyncio
import os
import re
import stat
import tempfile
import threading
import uuid
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import InvalidInput
from holdfast.model.ids import SessionId
from holdfast.model.question import (
    InvalidQuestionSetId,
    NewQuestionSet,
    Option,
    Question,
    QuestionKind,
    QuestionStatus,
)
from holdfast.questions import QuestionBox, default_directory
from holdfast.questions.errors import AmbiguousId, AtomicWriteError, QuestionSetNotFound
from tests.questions.sets import NEW, RUST, Clock, OtherProgram, names, read

ISO = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


@pytest.mark.req("ASK-01", "ASK-04")
async def test_asking_makes_a_directory_named_by_a_uuid4_that_says_pending(
    box: QuestionBox, directory: Path
) -> None:
    asked = await box.ask(NEW)
    assert uuid.UUID(asked.id).version == 4
    assert (directory / asked.id).is_dir()
    assert [question["prompt"] for question in read(directory, asked.id, "request.json")["questions"]] == [
        "Which language?",
        "Which features do you want?",
    ]
    assert read(directory, asked.id, "status.json")["status"] == "pending"
    assert asked.status is QuestionStatus.PENDING
    assert await box.get(asked.id) == asked
    assert await box.validate(asked.id) == ()


@pytest.mark.req("ASK-09", "ASK-10")
async def test_the_files_of_a_plain_question_are_those_the_auq_programs_write(
    box: QuestionBox, directory: Path, clock: Clock
) -> None:
    question = Question(title="Go", prompt="Go on?", options=(Option("Yes", "at once"), Option("No")))
    asked = await box.ask(NewQuestionSet(questions=(question,), call_id="call-1", working_directory="/repo"))
    assert read(directory, asked.id, "request.json") == {
        "sessionId": asked.id,
        "questions": [
            {
                "title": "Go",
                "prompt": "Go on?",
                "options": [{"label": "Yes", "description": "at once"}, {"label": "No"}],
                "multiSelect": False,
            }
        ],
        "status": "pending",
        "timestamp": clock.text,
        "callId": "call-1",
        "workingDirectory": "/repo",
    }
    assert read(directory, asked.id, "status.json") == {
        "sessionId": asked.id,
        "status": "pending",
        "createdAt": clock.text,
        "lastModified": clock.text,
        "totalQuestions": 1,
        "callId": "call-1",
        "workingDirectory": "/repo",
    }
    assert ISO.fullmatch(clock.text)


@pytest.mark.req("ASK-09")
async def test_a_call_without_an_id_leaves_none_in_the_files(box: QuestionBox, directory: Path) -> None:
    asked = await box.ask(NEW)
    assert "callId" not in read(directory, asked.id, "request.json")
    assert "callId" not in read(directory, asked.id, "status.json")


async def test_what_the_auq_programs_have_no_field_for_stands_beside_theirs(
    box: QuestionBox, directory: Path
) -> None:
    asked = await box.ask(
        NewQuestionSet(
            questions=NEW.questions,
            kind=QuestionKind.PERMISSION,
            agent="claude",
            session_id=SessionId("0198c0de-0000-7000-8000-000000000001"),
            tool={"name": "bash", "command": "rm -rf build"},
        )
    )
    again = await box.get(asked.id)
    assert again == asked
    assert (again.kind, again.agent, again.tool) == (
        QuestionKind.PERMISSION,
        "claude",
        {"name": "bash", "command": "rm -rf build"},
    )
    request = read(directory, asked.id, "request.json")
    assert request["sessionId"] == asked.id  # the set's own id, as the AUQ programs use the word
    assert request["holdfastSession"] == again.session_id == "0198c0de-0000-7000-8000-000000000001"


@pytest.mark.req("ASK-02")
async def test_every_file_and_directory_is_its_owners_alone(box: QuestionBox, directory: Path) -> None:
    before = os.umask(0)
    try:
        asked = await box.ask(NEW)
        await box.answer(asked.id, [RUST], by="ada", door="test")
        await box.mark_read(asked.id)
    finally:
        os.umask(before)
    files = sorted((directory / asked.id).iterdir())
    assert [file.name for file in files] == ["answers.json", "request.json", "status.json"]
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
    directories = [directory / asked.id, directory, directory / ".holdfast"]
    assert {stat.S_IMODE(each.stat().st_mode) for each in directories} == {0o700}


@pytest.mark.req("ASK-03")
async def test_asking_nothing_fails_and_makes_no_directory(box: QuestionBox, directory: Path) -> None:
    with pytest.raises(InvalidInput) as failure:
        await box.ask(NewQuestionSet(questions=()))
    assert str(failure.value) == "At least one question is required to create a session"
    assert not directory.exists()


async def test_a_set_is_whole_when_it_appears(box: QuestionBox, directory: Path) -> None:
    """Whoever sees its directory finds both files in it: it came by a rename."""
    directory.mkdir(parents=True)
    halves: list[str] = []

    def look_until(done: threading.Event) -> int:
        seen = 0
        while not done.is_set():
            for name in names(directory):
                if not name.startswith("."):
                    seen += 1
                    if names(directory / name) != ["request.json", "status.json"]:
                        halves.append(name)
        return seen

    done = threading.Event()
    looking = asyncio.create_task(asyncio.to_thread(look_until, done))
    for _ in range(30):
        await box.ask(NEW)
    done.set()
    assert await looking > 0
    assert halves == []
    assert names(directory / ".holdfast") == []


async def test_a_set_that_cannot_be_added_leaves_nothing(directory: Path) -> None:
    directory.parent.mkdir(parents=True)
    directory.write_text("a file is in the way")
    with pytest.raises(AtomicWriteError) as failure:
        await QuestionBox(directory).ask(NEW)
    assert isinstance(failure.value.cause, OSError)


async def test_cancelling_an_asker_leaves_no_question_that_nobody_waits_for(
    box: QuestionBox, directory: Path
) -> None:
    asking = asyncio.create_task(box.ask(NEW))
    await asyncio.sleep(0)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert [each.status for each in await box.list()] == [QuestionStatus.ABANDONED]


async def test_temporary_directories_on_another_file_system_do_not_matter(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = Path("/dev/shm")
    if not elsewhere.is_dir() or elsewhere.stat().st_dev == directory.parents[1].stat().st_dev:
        pytest.skip("There is no second file system here.")
    monkeypatch.setenv("TMPDIR", str(elsewhere))
    monkeypatch.setattr(tempfile, "tempdir", None)
    box = QuestionBox(directory)
    asked = await box.ask(NEW)
    await box.answer(asked.id, [RUST], by="ada", door="test")
    assert (await box.wait(asked.id)).answers == (RUST,)


async def test_a_directory_behind_a_symbolic_link_works(directory: Path, tmp_path: Path) -> None:
    directory.mkdir(parents=True)
    (tmp_path / "link").symlink_to(directory)
    box = QuestionBox(tmp_path / "link")
    asked = await box.ask(NEW)
    waiting = asyncio.create_task(box.wait(asked.id))
    await box.answer(asked.id, [RUST], by="ada", door="test")
    assert (await waiting).answers == (RUST,)
    assert (directory / asked.id).is_dir()


async def test_sets_are_listed_oldest_first_and_by_status(
    box: QuestionBox, directory: Path, clock: Clock
) -> None:
    assert await box.list() == ()
    ids = []
    for _ in range(3):
        ids.append((await box.ask(NEW)).id)
        clock.now += clock.now.resolution * 1_000_000
    await box.answer(ids[1], [RUST], by="ada", door="test")
    (directory / "stray").mkdir()
    (directory / "0198c0de-0000-7000-8000-000000000001").mkdir()  # a version 7
    (directory / "a file").write_text("{}")
    assert [each.id for each in await box.list()] == ids
    assert [each.id for each in await box.list({QuestionStatus.PENDING})] == [ids[0], ids[2]]
    assert [each.id for each in await box.list({QuestionStatus.COMPLETED})] == [ids[1]]


async def test_the_first_eight_characters_name_a_set_when_only_one_begins_so(
    box: QuestionBox, directory: Path
) -> None:
    other = OtherProgram(directory)
    first = other.ask(set_id="deadbeef-0000-4000-8000-000000000001")
    assert await box.resolve("deadbeef") == await box.resolve("DEADBEEF") == await box.resolve(first) == first
    second = other.ask(set_id="DEADBEEF-0000-4000-8000-000000000002")
    with pytest.raises(AmbiguousId) as failure:
        await box.resolve("deadbeef")
    assert set(failure.value.candidates) == {first, second}
    assert first in str(failure.value)
    assert second in str(failure.value)
    with pytest.raises(QuestionSetNotFound, match="Session not found: 00000000"):
        await box.resolve("00000000")


OPERATIONS: dict[str, Callable[[QuestionBox, str], Awaitable[Any]]] = {
    "get": lambda box, set_id: box.get(set_id),
    "resolve": lambda box, set_id: box.resolve(set_id),
    "answer": lambda box, set_id: box.answer(set_id, [RUST], by="ada", door="test"),
    "reject": lambda box, set_id: box.reject(set_id, by="ada", door="test"),
    "time_out": lambda box, set_id: box.time_out(set_id),
    "abandon": lambda box, set_id: box.abandon(set_id),
    "mark_read": lambda box, set_id: box.mark_read(set_id),
    "validate": lambda box, set_id: box.validate(set_id),
    "wait": lambda box, set_id: box.wait(set_id),
    "until_settled": lambda box, set_id: box.until_settled(set_id),
}


@pytest.mark.req("ASK-31")
@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS)
@pytest.mark.parametrize(
    "set_id",
    [
        "",
        "nonsense",
        "../../etc/passwd",
        "0198c0de-0000-7000-8000-000000000001",
        "deadbeef-0000-4000-8000-000000000001\n",
        "deadbeef-0000-4000-c000-000000000001",
        "deadbeef000040008000000000000001",
    ],
    ids=["empty", "word", "path", "version 7", "newline", "variant", "no dashes"],
)
async def test_what_is_no_uuid4_is_refused_before_any_file_is_touched(
    directory: Path, operation: Callable[[QuestionBox, str], Awaitable[Any]], set_id: str
) -> None:
    with pytest.raises(InvalidQuestionSetId) as failure:
        await operation(QuestionBox(directory), set_id)
    assert str(failure.value) == f"Invalid session ID format: {set_id}"
    assert failure.value.status == 400
    assert not directory.parent.exists()


@pytest.mark.req("ASK-17")
@pytest.mark.parametrize("operation", sorted(OPERATIONS.keys() - {"resolve", "validate"}))
async def test_a_set_that_does_not_exist_is_not_found(box: QuestionBox, operation: str) -> None:
    await box.ask(NEW)
    set_id = str(uuid.uuid4())
    with pytest.raises(QuestionSetNotFound) as failure:
        await OPERATIONS[operation](box, set_id)
    assert str(failure.value) == f"Session not found: {set_id}"
    assert failure.value.status == 404


HOME = Path("/home/ada")


@pytest.mark.parametrize(
    ("platform", "environment", "expected"),
    [
        ("linux", {}, HOME / ".local/share/auq/sessions"),
        ("linux", {"XDG_DATA_HOME": "/data"}, Path("/data/auq/sessions")),
        ("darwin", {"XDG_DATA_HOME": "/data"}, HOME / "Library/Application Support/auq/sessions"),
        ("win32", {"APPDATA": "/roaming"}, Path("/roaming/auq/sessions")),
        ("win32", {"USERPROFILE": "/users/ada"}, Path("/users/ada/auq/sessions")),
        ("linux", {"AUQ_SESSION_DIR": "/here", "XDG_DATA_HOME": "/data"}, Path("/here")),
        ("darwin", {"AUQ_SESSION_DIR": "~/questions"}, HOME / "questions"),
        ("linux", {"AUQ_SESSION_DIR": "~"}, HOME),
        ("linux", {"AUQ_SESSION_DIR": ""}, HOME / ".local/share/auq/sessions"),
    ],
)
def test_the_directory_is_where_the_auq_programs_look(
    platform: str, environment: dict[str, str], expected: Path
) -> None:
    assert default_directory(environment, platform, HOME) == expected


def test_the_directory_follows_the_environment_of_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUQ_SESSION_DIR", "/somewhere/else")
    assert default_directory() == Path("/somewhere/else")
