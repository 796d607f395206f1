"""Others answer the same sets: what they settle leaves the screen at once, and no key goes astray."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from datetime import timedelta
from pathlib import Path

import pytest

from holdfast.model.question import NewQuestionSet, QuestionSetId, QuestionStatus
from holdfast.questions import QuestionBox
from tests.questions.processes import together
from tests.questions.sets import LANGUAGE, RUST, OtherProgram
from tests.tui.driver import Desk
from tests.tui.sets import NAME, ONE, PLAN
from tests.waiting import until

WIDE = (120, 30)


async def test_a_set_answered_elsewhere_leaves_the_queue_with_a_word_of_who_did_it(desk: Desk) -> None:
    asked = await desk.box.ask(ONE)
    async with desk.inbox(WIDE) as inbox:
        await inbox.sees("claude · now")
        await desk.box.answer(asked.id, [RUST], by="grace", door="rest")
        await inbox.sees("Withdrawn", "Answered by grace through rest at ", "No questions are waiting.")


async def test_the_open_set_is_replaced_by_a_notice_that_takes_the_next_key(desk: Desk) -> None:
    asked = await desk.box.ask(ONE)
    desk.clock.advance(timedelta(minutes=1))
    other = await desk.box.ask(NewQuestionSet(questions=(NAME,), agent="codex"))
    async with desk.inbox() as inbox:
        await inbox.sees("2 waiting")
        await inbox.press("enter", "o")
        await inbox.write("my own view")
        await desk.box.answer(asked.id, [RUST], by="grace", door="rest")
        await inbox.sees(
            "Answered by grace through rest at ",
            "→ Rust",
            "What you had entered was not sent:",
            "→ “my own view”",
        )
        await inbox.press("enter", "space", "x", "1")  # meant for the set that was there
        await inbox.sees("What you had entered was not sent:")
        await inbox.press("escape")
        await inbox.sees("codex · now")
        assert "What is the project called?" not in inbox.text
        await until(lambda: desk.draft_files() == [])
    assert (await desk.box.get(asked.id)).answered_by == "grace"
    assert (await desk.box.get(other.id)).status is QuestionStatus.PENDING


async def test_a_review_is_closed_when_its_set_is_settled(desk: Desk) -> None:
    asked = await desk.box.ask(ONE)
    async with desk.inbox() as inbox:
        await inbox.sees("claude · now")
        await inbox.press("enter", "1", "ctrl+s")
        await inbox.sees("Send to claude?")
        await desk.box.reject(asked.id, "no longer needed", by="grace", door="web")
        await inbox.sees("Rejected by grace through web", "Reason: no longer needed", "→ Python")
        assert "Send to claude?" not in inbox.text
        await inbox.press("escape")
        await inbox.sees("No questions are waiting.")


async def test_of_two_inboxes_that_send_at_once_one_is_told_who_was_first(desk: Desk) -> None:
    asked = await desk.box.ask(PLAN)
    async with desk.inbox() as one, desk.inbox() as other:
        for inbox in (one, other):
            await inbox.sees("claude · now")
            await inbox.press("enter", "1", "ctrl+s")
            await inbox.sees("Send to claude?")
        await asyncio.gather(one.press("left", "enter"), other.press("left", "enter"))
        told = "What you had entered was not sent:"
        await until(lambda: (told in one.text) != (told in other.text))
    assert (await desk.box.get(asked.id)).status is QuestionStatus.COMPLETED


class NoticesNothing(QuestionBox):
    """A box on a system that tells of no change, before its own next look at the files."""

    async def changes(self) -> AsyncGenerator[frozenset[QuestionSetId], None]:
        async with aclosing(super().changes()) as changes:
            yield await anext(changes)
            await asyncio.Event().wait()


@pytest.mark.parametrize("keys", [("ctrl+s", "enter"), ("escape", "x", "enter")])
async def test_a_word_that_comes_second_is_refused_and_what_was_entered_is_shown(
    desk: Desk, keys: tuple[str, ...]
) -> None:
    asked = await desk.box.ask(ONE)
    async with desk.inbox(WIDE, box=NoticesNothing(desk.directory, clock=desk.clock)) as inbox:
        await inbox.sees("claude · now")
        await inbox.press("enter", "1")
        await desk.box.answer(asked.id, [RUST], by="grace", door="rest")
        await inbox.press(*keys)
        await inbox.sees("Answered by grace through rest at ")
    assert (await desk.box.get(asked.id)).answers == (RUST,)


@pytest.mark.usefixtures("process")
async def test_another_process_answers_too(desk: Desk) -> None:
    asked = await desk.box.ask(ONE)
    async with desk.inbox(WIDE) as inbox:
        await inbox.sees("claude · now")
        await together(
            "settle", [{"directory": str(desk.directory), "ids": [asked.id], "name": "grace", "tasks": 1}]
        )
        await inbox.sees("by grace", "through test at ", "No questions are waiting.")


async def test_another_program_answers_too(desk: Desk) -> None:
    there = OtherProgram(desk.directory)
    asked = there.ask()
    async with desk.inbox(WIDE) as inbox:
        await inbox.sees("an agent · now")
        there.answer(asked, {"questionIndex": 0, "selectedOption": "Rust"})
        await inbox.sees("Answered in another program at ", "No questions are waiting.")


async def test_a_deleted_set_is_withdrawn(desk: Desk) -> None:
    await desk.box.ask(ONE)
    async with desk.inbox() as inbox:
        await inbox.sees("claude · now")
        await inbox.press("enter")
        await inbox.sees("Which language?")
        desk.clock.advance(timedelta(days=8))
        await desk.box.sweep()
        await inbox.sees("Deleted by another program.")


async def test_a_set_that_another_inbox_answers_later_is_seen_again_as_it_changes(desk: Desk) -> None:
    asked = await desk.box.ask(ONE)
    async with desk.inbox() as inbox:
        await inbox.sees("claude · now · question")
        await inbox.press("enter")
        await inbox.sees("claude asks")
        await desk.box.abandon(asked.id)
        await inbox.sees("The asker is gone; your answer is kept for it.")


async def test_new_sets_are_announced_and_the_person_stays_where_they_are(desk: Desk) -> None:
    await desk.box.ask(ONE)
    async with desk.inbox() as inbox:
        await inbox.sees("claude · now")
        await inbox.press("enter", "down")
        await inbox.sees("› ( ) Rust")
        await desk.box.ask(NewQuestionSet(questions=(NAME,), agent="codex"))
        await inbox.sees("codex asks\n", "2 waiting", "› ( ) Rust")


async def test_many_new_sets_are_announced_together(desk: Desk, tmp_path: Path) -> None:
    prepared = QuestionBox(tmp_path / "prepared", clock=desk.clock)
    for number in range(6):
        await prepared.ask(NewQuestionSet(questions=(LANGUAGE,), agent=f"agent-{number}"))
    async with desk.inbox() as inbox:
        await inbox.sees("No questions are waiting.")
        prepared.directory.rename(desk.directory)  # in the place of an empty one: all come at once
        await inbox.sees("6 waiting", "6 new question sets wait.")


async def test_announcements_can_be_turned_off(desk: Desk) -> None:
    async with desk.inbox(toasts=False) as inbox:
        await inbox.sees("No questions are waiting.")
        await desk.box.ask(ONE)
        await inbox.sees("1 waiting")
        assert "claude asks" not in inbox.text


@pytest.mark.parametrize("bell", [True, False])
async def test_the_bell_rings_for_new_sets_unless_told_not_to(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, bell: bool
) -> None:
    rung: list[bool] = []
    async with desk.inbox(bell=bell) as inbox:
        monkeypatch.setattr(inbox.app, "bell", lambda: rung.append(True))
        await inbox.sees("No questions are waiting.")
        await desk.box.ask(ONE)
        await inbox.sees("1 waiting", "claude asks")
    assert bool(rung) is bell
