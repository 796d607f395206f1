"""What goes wrong is a sentence on the screen, and what was entered is still there."""

import errno
import os
import shutil
from pathlib import Path

import pytest

from holdfast.model.question import QuestionStatus
from holdfast.questions.errors import AtomicWriteError
from tests.questions.sets import OtherProgram
from tests.tui.driver import Desk
from tests.tui.sets import ONE
from tests.waiting import until


async def test_a_missing_directory_is_made(desk: Desk) -> None:
    async with desk.inbox() as inbox:
        await inbox.sees("No questions are waiting.")
        assert desk.directory.is_dir()


async def test_a_directory_that_goes_away_and_comes_back(desk: Desk) -> None:
    await desk.box.ask(ONE)
    async with desk.inbox() as inbox:
        await inbox.sees("1 waiting")
        shutil.rmtree(desk.directory)
        await inbox.sees("No questions are waiting.", "Deleted by another program.")
        await desk.box.ask(ONE)
        await inbox.sees("1 waiting")


async def test_a_file_in_the_place_of_the_directory_is_said_and_recovered_from(desk: Desk) -> None:
    desk.directory.parent.mkdir(parents=True)
    desk.directory.write_text("not a directory")
    async with desk.inbox(size=(240, 24)) as inbox:
        await inbox.sees(f"The questions in {desk.directory} cannot be read: ")
        desk.directory.unlink()
        await desk.box.ask(ONE)
        await inbox.sees("1 waiting")
        assert "cannot be read" not in inbox.text


@pytest.mark.req("ASK-08")
async def test_an_unreadable_set_is_named_and_the_others_are_there(desk: Desk) -> None:
    await desk.box.ask(ONE)
    broken = OtherProgram(desk.directory).ask()
    path = desk.directory / broken / "request.json"
    sound = path.read_text()
    path.write_text('{"questions": [{"pro')
    async with desk.inbox(size=(120, 24)) as inbox:
        await inbox.sees("1 waiting", f"The set {broken[:8]} cannot be read: ")
        path.write_text(sound)
        await inbox.sees("2 waiting")
        assert "cannot be read" not in inbox.text
        path.write_text("{")
        await inbox.sees("1 waiting", "cannot be read")
        shutil.rmtree(path.parent)
        await inbox.no_longer_sees("cannot be read:")


async def test_a_full_disk_keeps_the_draft_and_a_second_try_sends_it(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = await desk.box.ask(ONE)
    full = True

    def write_through(path: Path, content: bytes) -> None:
        if full and path.parent.name == asked.id:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        path.write_bytes(content)

    monkeypatch.setattr("holdfast.files._write_through", write_through)
    async with desk.inbox() as inbox:
        await inbox.sees("1 waiting")
        await inbox.press("enter", "2", "ctrl+s", "enter")
        await inbox.sees("It could not be saved: No space left on device", "try again.")
        assert (await desk.box.get(asked.id)).status is QuestionStatus.PENDING
        await until(lambda: desk.draft_files() == [f"{asked.id}.json"])
        full = False
        await inbox.press("enter")
        await inbox.sees("No questions are waiting.")
    assert (await desk.box.get(asked.id)).status is QuestionStatus.COMPLETED


async def test_a_reject_that_cannot_be_saved_is_said_too(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = await desk.box.ask(ONE)

    def write_through(path: Path, content: bytes) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    async with desk.inbox() as inbox:
        await inbox.sees("1 waiting")
        monkeypatch.setattr("holdfast.files._write_through", write_through)
        await inbox.press("x")
        await inbox.write("no")
        await inbox.press("enter")
        await inbox.sees("It could not be saved: Read-only file system", "no\n")
        await inbox.press("escape")
        await inbox.sees("claude · now")
    assert (await desk.box.get(asked.id)).status is QuestionStatus.PENDING


async def test_a_draft_that_cannot_be_saved_is_said_and_kept_on_the_screen(desk: Desk) -> None:
    await desk.box.ask(ONE)
    desk.drafts.parent.mkdir(parents=True)
    desk.drafts.write_text("a file where the directory should be")
    async with desk.inbox(size=(120, 30)) as inbox:
        await inbox.sees("1 waiting")
        await inbox.press("enter", "2")
        await inbox.sees("What you entered could not be saved", "(•) Rust")
        await inbox.press("ctrl+s", "enter")
        await inbox.sees("No questions are waiting.")


def test_the_error_of_a_write_names_its_file_and_cause() -> None:
    from holdfast.questions.shown import problem

    error = AtomicWriteError(Path("/q/3fe93825-a9dd/status.json"), OSError(errno.ENOSPC, "No space left"))
    assert problem(error) == "No space left (3fe93825/status.json)"
