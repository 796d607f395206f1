"""What was entered survives the inbox: closed, killed, opened again. It goes when the set is settled."""

import json
from datetime import timedelta

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.model.question import Question, check_answers
from holdfast.tui.drafts import Drafts
from holdfast.tui.replies import Draft, Reply
from tests.questions.sets import FEATURES, LANGUAGE, RUST, age
from tests.tui.driver import Desk
from tests.tui.sets import NAME, ONE, PLAN
from tests.waiting import until


async def test_a_draft_survives_a_restart(desk: Desk) -> None:
    asked = await desk.box.ask(PLAN)
    async with desk.inbox() as inbox:
        await inbox.sees("claude · now")
        await inbox.press("enter", "2", "right", "2", "o")
        await inbox.write("also SSO")
        await until(lambda: desk.draft_files() == [f"{asked.id}.json"])
        await inbox.press("ctrl+q")
    async with desk.inbox() as inbox:
        await inbox.sees("claude · now · draft")
        await inbox.press("enter")
        await inbox.sees("✓ Language", "✓ Features", "· Name", "› (•) Rust")
        await inbox.press("right")
        await inbox.sees("[x] Metrics", "[x] also SSO")


async def test_a_draft_is_on_disk_without_waiting_for_the_end(desk: Desk) -> None:
    asked = await desk.box.ask(ONE)
    async with desk.inbox() as inbox:
        await inbox.sees("claude · now")
        await inbox.press("enter", "o", "Z")
        path = desk.drafts / f"{asked.id}.json"
        await until(path.exists)
        assert json.loads(path.read_bytes()) == {"replies": {"0": {"own_text": "Z", "own_chosen": True}}}
        assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)
        await inbox.press("backspace")
        await until(lambda: desk.draft_files() == [])
        await inbox.press("escape", "escape")
        await inbox.sees("claude · now · question")


async def test_the_last_key_before_leaving_or_sending_counts(desk: Desk) -> None:
    asked = await desk.box.ask(PLAN)
    async with desk.inbox() as inbox:
        await inbox.sees("claude · now")
        await inbox.press("enter", "o", "a", "b", "tab", "shift+tab", "o", "c", "ctrl+s")
        await inbox.sees("→ “abc”")
        await inbox.press("left", "enter")
        await inbox.sees("No questions are waiting.")
    answered = await desk.box.get(asked.id)
    assert answered.answers is not None
    assert [answer.custom_text for answer in answered.answers] == ["abc"]


async def test_a_draft_goes_when_its_set_is_settled_here_or_elsewhere(desk: Desk) -> None:
    here, elsewhere = await desk.box.ask(ONE), await desk.box.ask(PLAN)
    async with desk.inbox() as inbox:
        await inbox.sees("2 waiting")
        await inbox.press("enter", "1", "right_square_bracket", "1", "escape")
        await until(lambda: len(desk.draft_files()) == 2)
        await desk.box.answer(elsewhere.id, [RUST], by="grace", door="test")
        await until(lambda: desk.draft_files() == [f"{here.id}.json"])
        await inbox.sees("1 waiting")
        await inbox.press("enter", "ctrl+s", "enter")
        await inbox.sees("No questions are waiting.")
        await until(lambda: desk.draft_files() == [])


async def test_drafts_that_outlived_their_sets_are_removed_at_the_next_start(desk: Desk) -> None:
    settled, waiting, deleted = [await desk.box.ask(ONE) for _ in range(3)]
    drafts = Drafts(desk.drafts)
    for each in (settled, waiting, deleted):
        drafts.put(each.id, Draft({0: Reply(chosen=("Rust",))}))
    await drafts.flush()
    await desk.box.answer(settled.id, [RUST], by="grace", door="test")
    desk.clock.advance(timedelta(seconds=1))
    age(desk.drafts / f"{deleted.id}.json", timedelta(days=8))
    async with desk.inbox() as inbox:
        await inbox.sees("2 waiting")
        await until(lambda: desk.draft_files() == [f"{waiting.id}.json"])


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b'{"replies": 5}',
        b'{"replies": {"7": {}, "0": {"chosen": ["Perl"]}}}',
        b"\xff\x00\x1b",
    ],
)
async def test_a_draft_that_makes_no_sense_is_no_draft(desk: Desk, content: bytes) -> None:
    asked = await desk.box.ask(ONE)
    desk.drafts.mkdir(parents=True)
    (desk.drafts / f"{asked.id}.json").write_bytes(content)
    drafts = Drafts(desk.drafts)
    await drafts.load(asked)
    assert drafts.of(asked.id) == Draft()


async def test_a_draft_that_could_not_be_written_is_written_next_time(desk: Desk) -> None:
    asked = [await desk.box.ask(ONE) for _ in range(2)]
    drafts = Drafts(desk.drafts)
    for each in asked:
        drafts.put(each.id, Draft({0: Reply(chosen=("Rust",))}))
    desk.drafts.parent.mkdir(parents=True, exist_ok=True)
    desk.drafts.write_text("a file where the directory should be")
    with pytest.raises(FileExistsError):
        await drafts.flush()
    desk.drafts.unlink()
    await drafts.flush()
    assert sorted(desk.draft_files()) == sorted(f"{each.id}.json" for each in asked)


async def test_the_newest_of_many_quick_changes_is_what_is_kept(desk: Desk) -> None:
    asked = await desk.box.ask(ONE)
    drafts = Drafts(desk.drafts)
    for number in range(100):
        drafts.put(asked.id, Draft({0: Reply(own_text=str(number), own_chosen=True)}))
    await drafts.flush()
    again = Drafts(desk.drafts)
    await again.load(asked)
    assert again.of(asked.id).reply(0).own_text == "99"


QUESTIONS = (LANGUAGE, FEATURES, NAME)


def labels(question: Question) -> st.SearchStrategy[tuple[str, ...]]:
    chosen = st.lists(st.sampled_from([each.label for each in question.options]), unique=True)
    return chosen.map(tuple) if question.options else st.just(())


@st.composite
def entered(draw: st.DrawFn, question: Question) -> Reply:
    """A reply as pressing keys in any order makes it."""
    reply = Reply()
    for _ in range(draw(st.integers(0, 6))):
        act = draw(st.sampled_from(["choose", "none", "write", "mark", "elaborate", "rephrase"]))
        if act == "choose" and question.options:
            reply = reply.choose(question, draw(st.sampled_from(question.options)).label)
        elif act == "none" and question.multi_select:
            reply = reply.choose_none()
        elif act == "write":
            reply = reply.write(question, draw(st.text(max_size=5)))
        elif act == "mark":
            reply = reply.choose_own_text(question)
        elif act == "elaborate":
            reply = msgspec.structs.replace(reply, elaborate=not reply.elaborate)
        elif act == "rephrase":
            reply = msgspec.structs.replace(reply, rephrase=not reply.rephrase)
    return reply


@pytest.mark.req("ASK-29")
@given(st.tuples(*(entered(question) for question in QUESTIONS)))
def test_whatever_is_entered_makes_answers_that_are_taken(replies: tuple[Reply, ...]) -> None:
    draft = Draft(dict(enumerate(replies)))
    answers = draft.answers(QUESTIONS)
    unanswered = draft.unanswered(QUESTIONS)
    assert {answer.question_index for answer in answers} == {0, 1, 2} - set(unanswered)
    if answers:
        check_answers(QUESTIONS, answers)
    for answer in answers:
        if not QUESTIONS[answer.question_index].multi_select:
            assert answer.selected_options is None
