"""Answering by keys and by mouse: what is chosen on the screen is what the asker reads."""

from datetime import timedelta

import pytest

from holdfast.model.question import Answer, NewQuestionSet, Option, Question, QuestionKind, QuestionStatus
from holdfast.questions.format import elaborate_request, rephrase_request
from tests.questions.sets import FEATURES, LANGUAGE, read
from tests.tui.driver import Desk
from tests.tui.sets import EDIT, FORM, NAME, ONE, PLAN, RUN, SEVERAL


async def test_an_empty_inbox_says_how_a_question_gets_here(desk: Desk) -> None:
    async with desk.inbox() as inbox:
        await inbox.sees("No questions are waiting.", 'holdfast ask --simple "Ship it?" yes no', "Watching")
        await desk.box.ask(ONE)
        await inbox.sees("? Language", "claude · now · question", "1 waiting")
        await inbox.press("enter")
        await inbox.sees("Which language?")


async def test_the_queue_shows_who_asks_what_and_since_when(desk: Desk) -> None:
    for new in (PLAN, EDIT, RUN, FORM):
        await desk.box.ask(new)
        desk.clock.advance(timedelta(minutes=7))
    abandoned = await desk.box.ask(ONE)
    await desk.box.abandon(abandoned.id)
    async with desk.inbox() as inbox:
        await inbox.sees(
            "? Language, Features, Name\nclaude · 28 min · question\n",
            "! Writing to build.py\ngemini · 21 min · permission\n",
            "! Run the tests\ncodex · 14 min · permission\n",
            "≡ Region\ndeployer · 7 min · form\n",
            "? Language\nclaude · now · asker is gone\n",
            "5 waiting",
        )


@pytest.mark.req("ASK-05", "ASK-16")
async def test_a_choice_is_sent_after_a_look_at_it(desk: Desk) -> None:
    asked = await desk.box.ask(ONE)
    async with desk.inbox() as inbox:
        await inbox.sees("claude · now")
        await inbox.press("enter")
        await inbox.sees("( ) Python ★ recommended\nFast to write", "( ) Rust")
        await inbox.press("down", "enter")
        await inbox.sees("Send to claude?", "1. Language", "→ Rust")
        assert (await desk.box.get(asked.id)).status is QuestionStatus.PENDING
        await inbox.press("enter")
        await inbox.sees("No questions are waiting.", "Sent")
    answered = await desk.box.get(asked.id)
    assert answered.answers == (Answer(question_index=0, selected_option="Rust"),)
    assert (answered.status, answered.answered_by, answered.answered_from, answered.late) == (
        QuestionStatus.COMPLETED,
        "ada",
        "terminal",
        False,
    )
    assert read(desk.directory, asked.id, "status.json")["status"] == "completed"


async def test_every_kind_of_answer_in_one_set(desk: Desk) -> None:
    asked = await desk.box.ask(PLAN)
    async with desk.inbox() as inbox:
        await inbox.sees("claude · now")
        await inbox.press("enter")
        await inbox.sees("· Language", "· Features", "· Name")
        await inbox.press("1")
        await inbox.press("right")
        await inbox.sees("Which features do you want?", "✓ Language")
        await inbox.press("space", "down", "space", "down", "space", "up", "space")
        await inbox.sees("[x] Auth", "[ ] Metrics", "[x] Search")
        await inbox.press("o")
        await inbox.write("also SSO")
        await inbox.press("enter")
        await inbox.sees("What is the project called?", "✓ Features")
        await inbox.write("it's gamma")
        await inbox.press("ctrl+j")
        await inbox.write("or delta")
        await inbox.press("enter")
        await inbox.sees("Send to claude?", "→ Python", "→ Auth", "→ Search", "→ “also SSO”")
        await inbox.press("enter")
        await inbox.sees("No questions are waiting.")
    assert (await desk.box.get(asked.id)).answers == (
        Answer(question_index=0, selected_option="Python (Recommended)"),
        Answer(question_index=1, selected_options=("Auth", "Search"), custom_text="also SSO"),
        Answer(question_index=2, custom_text="it's gamma\nor delta"),
    )


@pytest.mark.req("ASK-28")
async def test_none_of_several_is_an_answer(desk: Desk) -> None:
    asked = await desk.box.ask(SEVERAL)
    async with desk.inbox() as inbox:
        await inbox.sees("claude · now")
        await inbox.press("enter", "1", "down", "down", "down")
        await inbox.sees("› [ ] None of these")
        await inbox.press("space")
        await inbox.sees("› [x] None of these", "[ ] Auth")
        await inbox.press("enter", "enter")
        await inbox.sees("No questions are waiting.")
    assert (await desk.box.get(asked.id)).answers == (Answer(question_index=0, selected_options=()),)


async def test_unanswered_questions_are_warned_of_before_anything_is_sent(desk: Desk) -> None:
    asked = await desk.box.ask(PLAN)
    async with desk.inbox() as inbox:
        await inbox.sees("claude · now")
        await inbox.press("enter", "ctrl+s")
        await inbox.sees("Nothing is answered yet. Answer something, or reject the set.")
        await inbox.press("enter")  # back to the first question: nothing can be sent
        await inbox.no_longer_sees("Send to claude?")
        await inbox.press("1", "ctrl+s")
        await inbox.sees("2 of 3 questions are unanswered and will be left out.", "– not answered")
        await inbox.press("enter")
        await inbox.sees("Which features do you want?")
        assert (await desk.box.get(asked.id)).status is QuestionStatus.PENDING
        await inbox.press("ctrl+s")
        await inbox.sees("Send to claude?")
        await inbox.press("left", "enter")
        await inbox.sees("No questions are waiting.")
    assert (await desk.box.get(asked.id)).answers == (
        Answer(question_index=0, selected_option="Python (Recommended)"),
    )


async def test_recommended_options_are_one_key_away(desk: Desk) -> None:
    tea = Question(title="Tea", prompt="Tea?", options=(Option("Green"), Option("Black [추천]")))
    asked = await desk.box.ask(NewQuestionSet(questions=(LANGUAGE, FEATURES, tea), agent="claude"))
    async with desk.inbox() as inbox:
        await inbox.sees("claude · now")
        await inbox.press("enter", "2", "r")
        await inbox.sees("(•) Python ★ recommended", "( ) Rust")
        await inbox.press("2", "ctrl+r")
        await inbox.sees("1 of 3 questions is unanswered", "→ Black")
        await inbox.press("left", "enter")
        await inbox.sees("No questions are waiting.")
    assert (await desk.box.get(asked.id)).answers == (
        Answer(question_index=0, selected_option="Rust"),
        Answer(question_index=2, selected_option="Black [추천]"),
    )


async def test_asking_back_is_sent_beside_an_answer(desk: Desk) -> None:
    asked = await desk.box.ask(ONE)
    async with desk.inbox() as inbox:
        await inbox.sees("claude · now")
        await inbox.press("enter", "2", "e")
        await inbox.sees("[x] Ask for more detail")
        await inbox.write('the "speed"')
        await inbox.press("escape", "p")
        await inbox.sees("[x] Ask to put it differently")
        await inbox.press("ctrl+s")
        await inbox.sees("→ Rust", '→ asks for more detail: “the "speed"”', "→ asks to put it differently")
        await inbox.press("enter")
        await inbox.sees("No questions are waiting.")
    assert (await desk.box.get(asked.id)).answers == (
        Answer(question_index=0, selected_option="Rust"),
        Answer(question_index=0, custom_text=elaborate_request(guidance='the "speed"')),
        Answer(question_index=0, custom_text=rephrase_request(LANGUAGE, 0)),
    )


async def test_a_permission_is_decided_by_its_options_alone(desk: Desk) -> None:
    asked = await desk.box.ask(RUN)
    async with desk.inbox() as inbox:
        await inbox.sees("codex · now · permission")
        await inbox.press("enter")
        await inbox.sees("codex asks for permission", "Command · /repo", "make 'test all'", "( ) Reject")
        assert "own words" not in inbox.text
        assert "ask back" not in inbox.text
        await inbox.press("o", "e", "p", "down", "enter")
        await inbox.sees("→ Allow for this session")
        await inbox.press("enter")
        await inbox.sees("No questions are waiting.")
    assert (await desk.box.get(asked.id)).answers == (
        Answer(question_index=0, selected_option="Allow for this session"),
    )


async def test_a_diff_is_shown_with_its_signs_and_scrolls(desk: Desk) -> None:
    await desk.box.ask(EDIT)
    async with desk.inbox(size=(80, 20)) as inbox:
        await inbox.sees("gemini · now · permission")
        await inbox.press("enter")
        await inbox.sees("Change · /repo/app/build.py", "1 - import os", "1 + from pathlib import Path")
        await inbox.press("d")
        await inbox.sees("4 + return Path('build') / target")
        await inbox.press("escape")
        await inbox.sees("Allow this?")


async def test_a_form_takes_own_words_but_no_request(desk: Desk) -> None:
    await desk.box.ask(FORM)
    async with desk.inbox() as inbox:
        await inbox.sees("deployer · now · form")
        await inbox.press("enter")
        await inbox.sees("deployer asks for details", "In your own words")
        assert "ask back" not in inbox.text


@pytest.mark.req("ASK-18")
async def test_rejecting_with_a_reason(desk: Desk) -> None:
    asked = await desk.box.ask(ONE)
    async with desk.inbox() as inbox:
        await inbox.sees("claude · now")
        await inbox.press("x")
        await inbox.sees("Reject what claude asks?")
        await inbox.write("not now")
        await inbox.press("enter")
        await inbox.sees("No questions are waiting.", "Rejected")
    rejected = await desk.box.get(asked.id)
    assert (rejected.status, rejected.rejection_reason) == (QuestionStatus.REJECTED, "not now")
    assert (rejected.answered_by, rejected.answered_from) == ("ada", "terminal")


@pytest.mark.req("ASK-19")
async def test_rejecting_without_a_reason_and_keeping(desk: Desk) -> None:
    asked = await desk.box.ask(ONE)
    async with desk.inbox() as inbox:
        await inbox.sees("claude · now")
        await inbox.press("enter", "x", "escape")
        await inbox.no_longer_sees("Reject what claude asks?")
        assert (await desk.box.get(asked.id)).status is QuestionStatus.PENDING
        await inbox.press("x", "enter")
        await inbox.sees("No questions are waiting.")
    assert read(desk.directory, asked.id, "status.json")["rejectionReason"] is None


async def test_escape_goes_back_and_never_rejects_or_quits(desk: Desk) -> None:
    asked = await desk.box.ask(PLAN)
    async with desk.inbox() as inbox:
        await inbox.sees("claude · now")
        await inbox.press("enter", "o", "h", "escape", "escape", "escape", "escape")
        await inbox.sees("claude · now · draft")
        assert inbox.app.is_running
    assert (await desk.box.get(asked.id)).status is QuestionStatus.PENDING


async def test_escape_goes_back_from_a_question_that_takes_only_own_words(desk: Desk) -> None:
    form = NewQuestionSet(questions=(NAME,), kind=QuestionKind.ELICITATION, agent="claude")
    await desk.box.ask(form)
    async with desk.inbox() as inbox:
        await inbox.sees("claude · now")
        await inbox.press("enter", "h", "escape", "escape")
        await inbox.sees("claude · now · draft")


async def test_the_mouse_does_it_all(desk: Desk) -> None:
    asked = await desk.box.ask(PLAN)
    async with desk.inbox(size=(120, 40)) as inbox:
        await inbox.sees("claude · now", "Which language?")
        await inbox.pilot.click("Queue", offset=(4, 0))
        await inbox.pilot.click("Row", offset=(10, 0))
        await inbox.sees("(•) Python")
        await inbox.pilot.click("#question-1")
        await inbox.sees("Which features do you want?")
        await inbox.pilot.click("Row", offset=(10, 0))
        await inbox.pilot.click("#question-2")
        await inbox.sees("What is the project called?")
        await inbox.pilot.click("Words")
        await inbox.write("gamma")
        await inbox.press("ctrl+s")
        await inbox.sees("Send to claude?")
        await inbox.pilot.click("#send")
        await inbox.sees("No questions are waiting.")
    assert (await desk.box.get(asked.id)).answers == (
        Answer(question_index=0, selected_option="Python (Recommended)"),
        Answer(question_index=1, selected_options=("Auth",)),
        Answer(question_index=2, custom_text="gamma"),
    )


async def test_own_words_take_the_place_of_a_single_choice_and_are_not_lost(desk: Desk) -> None:
    asked = await desk.box.ask(ONE)
    async with desk.inbox() as inbox:
        await inbox.sees("claude · now")
        await inbox.press("enter", "2", "o")
        await inbox.write("Zig")
        await inbox.sees("( ) Rust", "(•) Zig")
        await inbox.press("escape", "2")
        await inbox.sees("(•) Rust", "( ) Zig")
        await inbox.pilot.click("WordsRow > Mark")
        await inbox.sees("( ) Rust", "(•) Zig")
        await inbox.press("ctrl+s", "enter")
        await inbox.sees("No questions are waiting.")
    assert (await desk.box.get(asked.id)).answers == (Answer(question_index=0, custom_text="Zig"),)


async def test_a_set_whose_asker_is_gone_can_be_answered_late(desk: Desk) -> None:
    asked = await desk.box.ask(ONE)
    await desk.box.time_out(asked.id)
    async with desk.inbox() as inbox:
        await inbox.sees("claude · now · time is over")
        await inbox.press("enter")
        await inbox.sees("The time is over; your answer is kept for it.")
        await inbox.press("1", "ctrl+s", "enter")
        await inbox.sees("No questions are waiting.")
    assert (await desk.box.get(asked.id)).late


async def test_sets_are_stepped_through_with_brackets(desk: Desk) -> None:
    await desk.box.ask(ONE)
    desk.clock.advance(timedelta(minutes=1))
    await desk.box.ask(NewQuestionSet(questions=(FEATURES,), agent="codex"))
    async with desk.inbox() as inbox:
        await inbox.sees("2 waiting")
        await inbox.press("right_square_bracket")
        await inbox.sees("Which features do you want?")
        await inbox.press("right_square_bracket")
        await inbox.sees("Which language?")
        await inbox.press("left_square_bracket")
        await inbox.sees("Which features do you want?")


async def test_help_and_the_command_palette(desk: Desk) -> None:
    asked = await desk.box.ask(ONE)
    async with desk.inbox(size=(80, 40)) as inbox:
        await inbox.sees("claude · now")
        await inbox.press("question_mark")
        await inbox.sees("review and send", "light or dark", "Esc closes this.")
        await inbox.press("escape", "ctrl+p")
        await inbox.write("reject")
        await inbox.sees("Refuse to answer")
        await inbox.press("down", "enter")
        await inbox.sees("Reject what claude asks?")
        await inbox.press("enter")
        await inbox.sees("No questions are waiting.")
    assert (await desk.box.get(asked.id)).status is QuestionStatus.REJECTED
