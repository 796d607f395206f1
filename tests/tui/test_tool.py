"""What a permission is asked for, in whichever form an agent gives it."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.model.question import NewQuestionSet, QuestionKind
from holdfast.questions.tool import Line, Part, Sign, diff_lines, parts
from tests.tui.driver import Desk
from tests.tui.sets import ALLOW


def shown(old: str, new: str) -> list[str]:
    return [f"{line.sign}{line.number or ''}:{line.text}" for line in diff_lines(old, new)]


def test_a_change_stands_among_the_lines_around_it() -> None:
    old = "".join(f"{number}\n" for number in range(1, 21))
    new = old.replace("10\n", "ten\nand more\n")
    assert shown(old, new) == [
        "⋯:",
        *(f" {number}:{number}" for number in (7, 8, 9)),
        "-10:10",
        "+10:ten",
        "+11:and more",
        *(f" {number + 1}:{number}" for number in (11, 12, 13)),
        "⋯:",
    ]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("", "a\nb\n", ["+1:a", "+2:b"]),
        ("a\nb\n", "", ["-1:a", "-2:b"]),
        ("a\n", "a\n", []),
        ("", "", []),
        ("a\r\nb\r\n", "a\nb\r\n", ["-1:a\r", "+1:a", " 2:b\r"]),
        ("a\x0cb\u2028c", "a", ["-1:a\x0cb\u2028c", "+1:a"]),
    ],
)
def test_edges_of_diffs(old: str, new: str, expected: list[str]) -> None:
    assert shown(old, new) == expected


texts = st.lists(st.sampled_from(["a", "b", "", "same", " x"]), max_size=30).map("\n".join)


@given(texts, texts)
def test_nothing_that_is_removed_or_added_is_left_out(old: str, new: str) -> None:
    lines = list(diff_lines(old, new))
    before, after = (text.removesuffix("\n").split("\n") if text else [] for text in (old, new))
    for line in lines:
        if line.number is not None:
            assert (before if line.sign is Sign.REMOVED else after)[line.number - 1] == line.text
    removed = {line.number for line in lines if line.sign is Sign.REMOVED}
    added = {line.number for line in lines if line.sign is Sign.ADDED}
    kept_before = [text for number, text in enumerate(before, 1) if number not in removed]
    kept_after = [text for number, text in enumerate(after, 1) if number not in added]
    assert kept_before == kept_after


def test_long_files_are_compared_without_comparing_all_with_all() -> None:
    old = "\n".join(["same"] * 50_000)
    new = "\n".join(["other"] * 50_000)
    assert sum(line.sign is Sign.ADDED for line in diff_lines(old, new)) == 50_000
    assert len(shown(old, f"{old}\nmore")) == 5


@pytest.mark.parametrize(
    ("tool", "expected"),
    [
        ({"name": "bash", "command": "rm -rf build"}, [Part("Command", "rm -rf build")]),
        (
            {"rawInput": {"command": ["echo", "a b"], "cwd": "/repo"}},
            [Part("Command · /repo", "echo 'a b'")],
        ),
        (
            {"diff": "@@ -1 +1 @@\n-old\n+new\n same"},
            [
                Part(
                    "Diff",
                    (
                        Line(Sign.GAP, None, "@@ -1 +1 @@"),
                        Line(Sign.REMOVED, None, "old"),
                        Line(Sign.ADDED, None, "new"),
                        Line(Sign.SAME, None, "same"),
                    ),
                )
            ],
        ),
        (
            {"content": [{"type": "diff", "path": "a.py", "oldText": None, "newText": "x\n"}]},
            [Part("New file · a.py", (Line(Sign.ADDED, 1, "x"),))],
        ),
        (
            {"content": [{"type": "content", "content": {"type": "text", "text": "why"}}, 5, {"no": "type"}]},
            [Part("", "why")],
        ),
        (
            {"content": [{"type": "terminal", "terminalId": "t1"}]},
            [Part("Content · terminal", '{\n  "type": "terminal",\n  "terminalId": "t1"\n}')],
        ),
        ({"name": "fetch", "args": {"url": "http://x"}}, [Part("Tool · fetch", '{\n  "url": "http://x"\n}')]),
        ({}, [Part("Tool", "{}")]),
        ({"command": 5, "content": "odd", "rawInput": [1]}, None),
    ],
)
def test_every_form_is_understood_or_shown_as_it_is(
    tool: dict[str, Any], expected: list[Part] | None
) -> None:
    found = parts(tool)
    if expected is None:
        assert [part.heading for part in found] == ["Tool"]
    else:
        assert found == expected


async def test_a_very_long_diff_can_be_read_to_its_end(desk: Desk) -> None:
    new = "\n".join(f"line {number} {'x' * 90}" for number in range(20_000))
    tool = {"title": "Huge", "content": [{"type": "diff", "path": "huge.txt", "oldText": "", "newText": new}]}
    await desk.box.ask(NewQuestionSet(questions=(ALLOW,), kind=QuestionKind.PERMISSION, tool=tool))
    async with desk.inbox() as inbox:
        await inbox.sees("! Huge")
        await inbox.press("enter", "d")
        await inbox.sees("1 + line 0")
        await inbox.press("end")
        await inbox.sees("20000 + line 19999")
