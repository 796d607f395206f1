"""Question sets and their answers."""

from __future__ import annotations

from typing import Any, Literal

from holdfast.server.shapes.shape import Shape


class Option(Shape, frozen=True, kw_only=True):
    label: str
    description: str | None = None


class Question(Shape, frozen=True, kw_only=True):
    title: str
    prompt: str
    options: tuple[Option, ...]
    multi_select: bool


class Answer(Shape, frozen=True, kw_only=True):
    question_index: int
    selected_option: str | None = None
    selected_options: tuple[str, ...] | None = None
    custom_text: str | None = None


class QuestionSet(Shape, frozen=True, kw_only=True):
    id: str
    status: Literal["pending", "completed", "rejected", "timed_out", "abandoned"]
    kind: Literal["question", "permission", "elicitation"]
    questions: tuple[Question, ...]
    created_at: str
    updated_at: str
    agent: str | None = None
    session_id: str | None = None
    tool: dict[str, Any] | None = None
    working_directory: str | None = None
    call_id: str | None = None
    answers: tuple[Answer, ...] | None = None
    answered_by: str | None = None
    answered_from: str | None = None
    answered_at: str | None = None
    late: bool = False
    rejection_reason: str | None = None
    read_at: str | None = None


class QuestionSets(Shape, frozen=True, kw_only=True):
    questions: tuple[QuestionSet, ...]


class ChangedQuestions(Shape, frozen=True, kw_only=True):
    """Question sets that came or changed, and the ids of those that are gone."""

    questions: tuple[QuestionSet, ...]
    gone: tuple[str, ...]
    is_all: bool = False
    """Whether these are all there are: whatever else a client knows is gone too."""
