"""Question sets in words for a person at a terminal, with what others wrote made harmless.

An asker's text is hostile until shown otherwise: it may hold escape sequences that a terminal
obeys, or characters that turn the reading order around.
"""

from __future__ import annotations

import re
import unicodedata
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec

from holdfast.model.content import QuestionContent
from holdfast.model.question import Answer, Option, Question, QuestionSet, QuestionStatus
from holdfast.questions.errors import QuestionFileError

_CONTROL_PICTURES = 0x2400
_DELETE, _DELETE_PICTURE = 0x7F, 0x2421
_JOINERS = "\u200c\u200d"
"""Between letters of some scripts and parts of an emoji they are ordinary; after ASCII they only hide."""

_SUSPECT = re.compile(r"[^\x20-\x7e\n\t]")


def harmless(text: str) -> str:
    """`text` without anything that a terminal obeys or that hides what is written.

    Such a character is shown, as its picture (`␛`) or its number (`⟨U+202E⟩`), and not removed: who
    judges a command must see that it is there.
    """
    return _SUSPECT.sub(_shown, text.replace("\r\n", "\n"))


def one_line(text: str) -> str:
    """`text`, harmless and on one line."""
    return " ".join(harmless(text).split())


def shown_title(question: Question) -> str:
    return one_line(question.title) or one_line(question.prompt)


def shown_question(question: Question) -> str:
    """The prompt, under its title where that says something else."""
    title, prompt = shown_title(question), harmless(question.prompt)
    return prompt if prompt.startswith(title.removesuffix("…")) else f"{title}: {prompt}"


def shown_option(option: Option) -> str:
    described = f" — {one_line(option.description)}" if option.description else ""
    return f"{one_line(option.label)}{described}"


def asker(question_set: QuestionSet) -> str:
    """Who asks: the agent's name, or where it works when another program did not say who it is."""
    if question_set.agent:
        return one_line(question_set.agent)
    if question_set.working_directory:
        return one_line(Path(question_set.working_directory).name)
    return "an agent"


def subject(question_set: QuestionSet) -> str:
    """What a set is about, in a line: its tool's title, or the titles of its questions."""
    title = (question_set.tool or {}).get("title")
    if isinstance(title, str) and title.strip():
        return one_line(title)
    return ", ".join(map(shown_title, question_set.questions))


def age(since: datetime, now: datetime) -> str:
    elapsed = max(now - since, timedelta())
    if elapsed < timedelta(minutes=1):
        return "now"
    if elapsed < timedelta(hours=1):
        return f"{elapsed // timedelta(minutes=1)} min"
    if elapsed < timedelta(days=1):
        return f"{elapsed // timedelta(hours=1)} h"
    return f"{elapsed.days} d"


def settlement(settled: QuestionSet) -> str:
    """Who settled a set, and where: `Answered by ada through rest at 12:03.`"""
    what = "Rejected" if settled.status is QuestionStatus.REJECTED else "Answered"
    who = f"by {one_line(settled.answered_by)}" if settled.answered_by else "in another program"
    door = f" through {one_line(settled.answered_from)}" if settled.answered_from else ""
    when = f" at {settled.answered_at.astimezone():%H:%M}" if settled.answered_at else ""
    return f"{what} {who}{door}{when}."


def decision(asked: QuestionContent) -> str:
    """What became of a set, as its session keeps it: `Allow, answered by ada through rest`; empty before."""
    if asked.status is None or asked.open:
        return ""
    what = "answered" if asked.status == QuestionStatus.COMPLETED else asked.status
    who = f" by {one_line(asked.answered_by)}" if asked.answered_by else ""
    door = f" through {one_line(asked.answered_from)}" if asked.answered_from else ""
    reason = f" ({one_line(asked.rejection_reason)})" if asked.rejection_reason else ""
    said = "; ".join(one_line(_chosen(answer)) for answer in asked.answers)
    return ", ".join(filter(None, (said, f"{what}{who}{door}{reason}")))


def _chosen(answer: Any) -> str:
    try:
        given = msgspec.convert(answer, Answer)
    except msgspec.ValidationError:  # whoever may write messages may write anything here
        return str(answer)
    words = (given.selected_option, *(given.selected_options or ()), given.custom_text)
    return ", ".join(filter(None, words)) or "none of them"


def problem(error: Exception) -> str:
    """An error as the end of a sentence: what the system said, and about which file."""
    if isinstance(error, QuestionFileError):
        return f"{problem(error.cause)} ({error.path.parent.name[:8]}/{error.path.name})"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return one_line(str(error)).removesuffix(".")


def _shown(match: re.Match[str]) -> str:
    character = match[0]
    code = ord(character)
    if code < 0x20:
        return chr(_CONTROL_PICTURES + code)
    if code == _DELETE:
        return chr(_DELETE_PICTURE)
    if character in _JOINERS:
        return character if match.start() and not match.string[match.start() - 1].isascii() else _number(code)
    if unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp"):
        return _number(code)
    return character


def _number(code: int) -> str:
    return f"⟨U+{code:04X}⟩"
