"""What askers write is shown, and nothing more: no escape sequence, no markup, no hidden character."""

import pytest

from holdfast.model.question import Answer, NewQuestionSet, Option, Question, QuestionKind
from holdfast.tui.text import is_recommended, shown_label
from tests.tui.driver import Desk
from tests.tui.sets import ALLOW

MARKUP = "[bold red]x[/] [@click=app.quit]press me[/] [link=file:///etc/passwd]y[/link] [/nothing] [["
ESCAPES = "\x1b[2J\x1b]0;owned\x07 \x9b31m \b\b\b \x7f \r over"
REVERSED = "rm \u202e~/ fr- mr\u2066 \u200b.\ufeff"


def hostile(text: str) -> NewQuestionSet:
    return NewQuestionSet(
        questions=(
            Question(title=text, prompt=text, options=(Option(text, text), Option("fine", text))),
            Question(title="second", prompt=text, options=(Option(text),), multi_select=True),
        ),
        kind=QuestionKind.PERMISSION,
        agent=text,
        working_directory=f"/tmp/{text}",
        tool={
            "title": text,
            "command": text,
            "content": [
                {"type": "diff", "path": text, "oldText": f"{text}\nsame", "newText": f"new {text}\nsame"},
                {"type": "content", "content": {"type": "text", "text": text}},
            ],
        },
    )


@pytest.mark.parametrize("text", [MARKUP, ESCAPES, REVERSED])
async def test_a_hostile_set_is_shown_harmless_everywhere(desk: Desk, text: str) -> None:
    seen = []
    async with desk.inbox(size=(120, 60)) as inbox:
        await inbox.sees("No questions are waiting.")
        asked = await desk.box.ask(hostile(text))
        for expected, *keys in (
            ("1 waiting", "enter"),
            ("second", "d"),
            ("esc Back", "escape", "1", "right", "1", "ctrl+s"),
            ("Send to", "escape", "x"),
            ("Reject what", "escape"),
        ):
            await inbox.sees(expected)
            seen.append(inbox.text)
            await inbox.press(*keys)
        await desk.box.answer(
            asked.id, [Answer(question_index=0, selected_option=text, custom_text=text)], by=text, door=text
        )
        await inbox.sees("Withdrawn")
        seen.append(inbox.text)
        assert inbox.app.is_running
    for character in "\x1b\x07\x08\x7f\x9b\r\u202e\u2066\u200b\ufeff":
        assert all(character not in screen for screen in seen)


async def test_markup_is_shown_as_it_is_written(desk: Desk) -> None:
    await desk.box.ask(
        NewQuestionSet(questions=(Question(title="t", prompt=MARKUP, options=(Option("[b]"),)),))
    )
    async with desk.inbox(size=(200, 30)) as inbox:
        await inbox.sees(MARKUP, "[b]")


async def test_what_hides_is_shown_by_its_number(desk: Desk) -> None:
    await desk.box.ask(
        NewQuestionSet(
            questions=(ALLOW,), kind=QuestionKind.PERMISSION, tool={"command": REVERSED + "\x1b[1m"}
        )
    )
    async with desk.inbox(size=(120, 30)) as inbox:
        await inbox.sees("rm ⟨U+202E⟩~/ fr- mr⟨U+2066⟩ ⟨U+200B⟩.⟨U+FEFF⟩␛[1m")


async def test_half_a_surrogate_pair_of_a_foreign_file_does_not_end_the_inbox(desk: Desk) -> None:
    asked = await desk.box.ask(NewQuestionSet(questions=(ALLOW,)))
    path = desk.directory / asked.id / "request.json"
    path.write_text(path.read_text().replace("Allow this?", "half \\ud83d here"))
    async with desk.inbox() as inbox:
        await inbox.sees("an agent · now")
        await inbox.press("enter")
        await inbox.sees("half ⟨U+D83D⟩ here")


async def test_wide_characters_and_long_words_stay_inside_the_screen(desk: Desk) -> None:
    options = (Option("日本語の選択肢" * 12, "👩‍👩‍👧‍👦" * 30), Option("x" * 500), Option("e\u0301" * 90))
    await desk.box.ask(
        NewQuestionSet(questions=(Question(title="題" * 60, prompt="問" * 200, options=options),))
    )
    for size in ((30, 12), (80, 24), (200, 50)):
        async with desk.inbox(size=size) as inbox:
            await inbox.sees("1 waiting")
            await inbox.press("enter", "2")
            await inbox.sees("(•) xxx")


async def test_a_long_prompt_is_read_first_and_nothing_out_of_sight_is_chosen(desk: Desk) -> None:
    prompt = "\n".join(f"line {number}" for number in range(100))
    asked = await desk.box.ask(
        NewQuestionSet(
            questions=(Question(title="Long", prompt=prompt, options=(Option("yes"), Option("no"))),)
        )
    )
    async with desk.inbox() as inbox:
        await inbox.sees("1 waiting")
        await inbox.press("enter")
        await inbox.sees("line 0\n")
        await inbox.press("space")
        await inbox.sees("› ( ) yes")
        assert desk.draft_files() == []
        await inbox.press("pageup", "pageup", "pageup", "pageup", "pageup", "pageup", "pageup", "pageup")
        await inbox.sees("line 0\n")
        await inbox.press("down")
        await inbox.sees("› ( ) yes")
        await inbox.press("down")
        await inbox.sees("› ( ) no")
        await inbox.press("space")
        await inbox.sees("› (•) no")
    assert (await desk.box.get(asked.id)).answers is None


async def test_many_options_and_many_questions(desk: Desk) -> None:
    options = tuple(Option(f"option {number}") for number in range(150))
    questions = tuple(Question(title=f"Q{number}", prompt="?", options=options) for number in range(30))
    await desk.box.ask(NewQuestionSet(questions=questions))
    async with desk.inbox() as inbox:
        await inbox.sees("1 waiting")
        await inbox.press("enter")
        await inbox.sees("option 3")
        await inbox.press("left")
        await inbox.sees("Q29", "( ) option 0")
        await inbox.press("space")
        await inbox.sees("(•) option 0", "✓ Q29")


async def test_a_set_without_questions_can_be_rejected(desk: Desk) -> None:
    asked = await desk.box.ask(NewQuestionSet(questions=(ALLOW,), agent="odd"))
    path = desk.directory / asked.id / "request.json"
    request = path.read_text()
    path.write_text(request[: request.index('"questions"')] + '"questions": [], "agent": "odd"}')
    async with desk.inbox() as inbox:
        await inbox.sees("odd · now")
        await inbox.press("enter")
        await inbox.sees("It holds no question.")
        await inbox.press("x", "enter")
        await inbox.sees("No questions are waiting.")


@pytest.mark.parametrize(
    ("label", "shown", "recommended"),
    [
        ("Python (Recommended)", "Python", True),
        ("[RECOMMENDED] Rust", "Rust", True),
        ("차 (추천)", "차", True),
        ("(recommended)", "(recommended)", True),
        ("recommended", "recommended", False),
    ],
)
def test_recommendations_are_recognised(label: str, shown: str, recommended: bool) -> None:
    assert (shown_label(Option(label)), is_recommended(Option(label))) == (shown, recommended)
