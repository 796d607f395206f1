"""Questions that an agent asked a person, and what came of them: data and its rules.

A question set is pending until a person answers or rejects it, its time is over, or its asker is
gone. After the last two it can still be answered or rejected, late. The first word of a person
stands: an answered or rejected set never changes again.

Some texts say "session" where Holdfast says "question set": they are those of the AUQ programs,
which share the files with us, and agents know them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, NewType

import msgspec

from holdfast.errors import Conflict, InvalidInput
from holdfast.model.ids import SessionId
from holdfast.model.text import storable
from holdfast.model.times import iso

QuestionSetId = NewType("QuestionSetId", str)

LIMIT = 100
"""How many sets a directory holds."""

RETENTION = timedelta(days=7)
"""How long a set is kept after its last change."""

_UUID4 = re.compile(
    r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", re.IGNORECASE | re.ASCII
)


class QuestionStatus(StrEnum):
    PENDING = "pending"
    COMPLETED = "completed"
    REJECTED = "rejected"
    TIMED_OUT = "timed_out"
    ABANDONED = "abandoned"


_S = QuestionStatus

SETTLED = frozenset({_S.COMPLETED, _S.REJECTED})
"""Statuses in which a person has spoken."""

TRANSITIONS: dict[QuestionStatus, frozenset[QuestionStatus]] = {
    _S.PENDING: frozenset({_S.COMPLETED, _S.REJECTED, _S.TIMED_OUT, _S.ABANDONED}),
    # What a person says late is kept for the asker, who may come back for it.
    _S.TIMED_OUT: SETTLED,
    _S.ABANDONED: SETTLED,
    _S.COMPLETED: frozenset(),
    _S.REJECTED: frozenset(),
}


class QuestionKind(StrEnum):
    QUESTION = "question"
    PERMISSION = "permission"
    ELICITATION = "elicitation"


class Option(msgspec.Struct, frozen=True, omit_defaults=True):
    label: str
    description: str | None = None


class Question(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    prompt: str
    title: str = ""
    options: tuple[Option, ...] = ()
    multi_select: bool = False


class Answer(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One answer to one question. A chosen option is named by its whole label."""

    question_index: int
    selected_option: str | None = None
    selected_options: tuple[str, ...] | None = None
    """Empty when the person chose none of several, which is an answer too."""
    custom_text: str | None = None


class NewQuestionSet(msgspec.Struct, frozen=True, kw_only=True):
    """What to ask. The call id is the asker's own mark: answers that carry another are not for it."""

    questions: tuple[Question, ...]
    kind: QuestionKind = QuestionKind.QUESTION
    agent: str | None = None
    session_id: SessionId | None = None
    """Holdfast's session in which the agent asks."""
    organization: str | None = None
    """That of the session; none where the person at this machine is asked."""
    tool: dict[str, Any] | None = None
    """What a permission is asked for: the tool, its command or diff, as JSON."""
    working_directory: str | None = None
    call_id: str | None = None

    def __post_init__(self) -> None:
        if not self.questions:
            raise InvalidInput("At least one question is required to create a session")
        for number, question in enumerate(self.questions, 1):
            _require_text(question.title, f"title of question {number}")
            _require_text(question.prompt, f"prompt of question {number}")
            for option in question.options:
                _require_text(option.label, f"label of an option of question {number}")
            if len({option.label for option in question.options}) < len(question.options):
                raise InvalidInput(f"Two options of question {number} have the same label.")


class QuestionSet(msgspec.Struct, frozen=True, kw_only=True):
    id: QuestionSetId
    kind: QuestionKind
    status: QuestionStatus
    questions: tuple[Question, ...]
    created_at: datetime
    updated_at: datetime
    agent: str | None = None
    session_id: SessionId | None = None
    organization: str | None = None
    tool: dict[str, Any] | None = None
    working_directory: str | None = None
    call_id: str | None = None
    answers: tuple[Answer, ...] | None = None
    answered_by: str | None = None
    """Who answered or rejected; absent when another program did, which does not say who used it."""
    answered_from: str | None = None
    """The door through which they did."""
    answered_at: datetime | None = None
    late: bool = False
    """Whether they did so after the time was over or the asker gone."""
    rejection_reason: str | None = None
    read_at: datetime | None = None
    """When the asker last heard the answers or the rejection."""

    @property
    def is_settled(self) -> bool:
        return self.status in SETTLED

    @property
    def short_id(self) -> str:
        return self.id[:8]


class AlreadySettled(Conflict):
    """Somebody else was first."""

    code = "already_settled"

    def __init__(self, first: QuestionSet) -> None:
        what = "rejected" if first.status is _S.REJECTED else "answered"
        who = f"by {first.answered_by}" if first.answered_by else "by another program"
        door = f" through {first.answered_from}" if first.answered_from else ""
        when = f" at {iso(first.answered_at)}" if first.answered_at else ""
        super().__init__(f"Session {first.id} was already {what} {who}{door}{when}; the first answer stands.")
        self.first = first


class InvalidAnswers(InvalidInput):
    """The answers do not fit the questions."""

    code = "invalid_answers"


class InvalidQuestionSetId(InvalidInput):
    code = "invalid_question_set_id"

    def __init__(self, text: str) -> None:
        super().__init__(f"Invalid session ID format: {text}")


def is_question_set_id(text: str) -> bool:
    return _UUID4.fullmatch(text) is not None


def question_set_id(text: str) -> QuestionSetId:
    """`text`, if it is a UUIDv4: the AUQ programs accept nothing else."""
    if not is_question_set_id(text):
        raise InvalidQuestionSetId(text)
    return QuestionSetId(text)


def allowed(current: QuestionStatus, target: QuestionStatus) -> bool:
    """Whether a question set may go from `current` to `target`."""
    return target in TRANSITIONS[current]


def require_transition(question_set: QuestionSet, target: QuestionStatus) -> None:
    """A person's word is taken only when it is the first."""
    if not allowed(question_set.status, target):
        raise AlreadySettled(question_set)


def check_answers(questions: Sequence[Question], answers: Sequence[Answer]) -> None:
    """The one judgement on answers, whoever gave them: indices, labels, and that something was said."""
    if not answers:
        raise InvalidAnswers("No answers provided")
    for answer in answers:
        index = answer.question_index
        if not 0 <= index < len(questions):
            raise InvalidAnswers(f"Answer references invalid question index: {index}")
        if not answer.selected_option and answer.selected_options is None and not answer.custom_text:
            raise InvalidAnswers(
                f"Answer for question {index} has neither selectedOption, selectedOptions, nor customText"
            )
        labels = {option.label for option in questions[index].options}
        chosen = (answer.selected_option,) if answer.selected_option else ()
        for choice in (*chosen, *(answer.selected_options or ())):
            if choice not in labels:
                raise InvalidAnswers(f"Answer for question {index} references non-existent option: {choice}")


def _require_text(text: str, what: str) -> None:
    if not text:
        raise InvalidInput(f"The {what} must not be empty.")
    storable(text, what)
