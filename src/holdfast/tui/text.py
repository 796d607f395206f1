"""Texts of question sets as the inbox shows them, on top of those that all terminals share.

Text of another program reaches a widget as `Content`, or where markup is off, and never as a bare
string, which would be parsed for markup.
"""

from __future__ import annotations

import re
from pathlib import Path

from textual.content import Content

from holdfast.model.question import Option, QuestionKind, QuestionSet, QuestionStatus
from holdfast.questions.shown import harmless, one_line

KIND_NAMES = {
    QuestionKind.QUESTION: "question",
    QuestionKind.PERMISSION: "permission",
    QuestionKind.ELICITATION: "form",
}

_RECOMMENDED = re.compile(r"\s*[(\[](?:recommended|추천)[)\]]", re.IGNORECASE)


def plain(text: str) -> Content:
    """`text`, harmless and without markup."""
    return Content(harmless(text))


def is_recommended(option: Option) -> bool:
    return _RECOMMENDED.search(option.label) is not None


def shown_label(option: Option) -> str:
    """A label as it is shown: a recommendation has a mark of its own."""
    return one_line(_RECOMMENDED.sub("", option.label)) or one_line(option.label)


def lateness(question_set: QuestionSet) -> str:
    """Why an answer would be late; empty when the asker waits for it."""
    match question_set.status:
        case QuestionStatus.TIMED_OUT:
            return "time is over"
        case QuestionStatus.ABANDONED:
            return "asker is gone"
        case _:
            return ""


def tilde(path: Path | str) -> str:
    """A path, with `~` for the home directory."""
    shown, home = str(path), str(Path.home())
    return one_line(f"~{shown.removeprefix(home)}" if f"{shown}/".startswith(f"{home}/") else shown)
