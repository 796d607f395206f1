"""Answering a question set in a terminal, one question after the other."""

from __future__ import annotations

import re

import typer

from holdfast.errors import InvalidInput
from holdfast.model.question import Answer, Question, QuestionKind, QuestionSet
from holdfast.questions.format import elaborate_request
from holdfast.questions.shown import asker, shown_option, shown_question
from holdfast.questions.tool import as_text

NONE = "none"
_NUMBERS = re.compile(r"\d+(?:[\s,]+\d+)*")


def answers_from_prompts(question_set: QuestionSet) -> list[Answer]:
    """What the person types. A question that is passed over is left out."""
    typer.echo(introduced_set(question_set))
    kind = question_set.kind
    given = [_answer(index, question, kind) for index, question in enumerate(question_set.questions)]
    return [answer for answer in given if answer is not None]


def introduced_set(question_set: QuestionSet) -> str:
    """Who asks, and for what a permission is asked."""
    who = f"{asker(question_set)} asks ({question_set.short_id}):"
    return f"{who}\n\n{as_text(question_set.tool)}" if question_set.tool else who


def introduced(index: int, question: Question, kind: QuestionKind) -> str:
    """A question with its options, and how to answer it."""
    options = [f"   {number}) {shown_option(option)}" for number, option in enumerate(question.options, 1)]
    return "\n".join([f"\n{index + 1}. {shown_question(question)}", *options, f"   {_how(question, kind)}"])


def _answer(index: int, question: Question, kind: QuestionKind) -> Answer | None:
    typer.echo(introduced(index, question, kind))
    while True:
        try:
            typed = typer.prompt("  ", default="", show_default=False)
            return answer_from_text(index, question, typed, kind)
        except InvalidInput as error:
            typer.echo(f"   {error}", err=True)


def _how(question: Question, kind: QuestionKind) -> str:
    if kind is QuestionKind.PERMISSION:
        return "A number; or your own words, which refuse it and say what to do instead."
    if kind is QuestionKind.ELICITATION:
        numbers = f"{_numbers(question)}; or t" if question.options else "T"
        return f"{numbers}he value itself; Enter to pass over."
    if not question.options:
        return "Your own words; ? and what you want to know; Enter to pass over."
    return f"{_numbers(question)}; your own words; ? and what you want to know; Enter to pass over."


def _numbers(question: Question) -> str:
    return "Numbers, or none" if question.multi_select else "A number"


def answer_from_text(
    index: int, question: Question, typed: str, kind: QuestionKind = QuestionKind.QUESTION
) -> Answer | None:
    """What a line means: numbers of options, a request to elaborate, own words, or nothing.

    A form takes values only: an option by its label, and no request to elaborate."""
    typed = typed.strip()
    if not typed:
        return None
    if kind is QuestionKind.ELICITATION and typed in (option.label for option in question.options):
        if question.multi_select:
            return Answer(question_index=index, selected_options=(typed,))
        return Answer(question_index=index, selected_option=typed)
    if typed.startswith("?") and kind is not QuestionKind.ELICITATION:
        return Answer(question_index=index, custom_text=elaborate_request(guidance=typed[1:].strip()))
    if question.multi_select and typed.lower() == NONE:
        return Answer(question_index=index, selected_options=())
    if not question.options or not _NUMBERS.fullmatch(typed):
        return Answer(question_index=index, custom_text=typed)
    labels = [_label(question, int(number)) for number in re.findall(r"\d+", typed)]
    if question.multi_select:
        return Answer(question_index=index, selected_options=tuple(dict.fromkeys(labels)))
    if len(labels) > 1:
        raise InvalidInput("Only one of these can be chosen.")
    return Answer(question_index=index, selected_option=labels[0])


def _label(question: Question, number: int) -> str:
    if not 1 <= number <= len(question.options):
        raise InvalidInput(f"There is no option {number}; they go from 1 to {len(question.options)}.")
    return question.options[number - 1].label
