"""`holdfast answer`: answer a question set, by JSON or at prompts."""

from __future__ import annotations

import getpass
import json
import os
import sys
from typing import Annotated, Any

import msgspec
import typer

from holdfast.cli.options import JsonOption
from holdfast.cli.outcomes import ended, run
from holdfast.cli.prompts import answers_from_prompts
from holdfast.config import load_settings
from holdfast.errors import HoldfastError, InvalidInput
from holdfast.model.question import Answer, InvalidAnswers, QuestionSet, QuestionStatus, require_transition
from holdfast.questions import QuestionBox, open_box
from holdfast.questions.wire import question_set_json

DOOR = "command line"

SetArgument = Annotated[
    str, typer.Argument(metavar="ID", help="The id of the question set, or its first eight characters.")
]


def answer(
    set_id: SetArgument,
    answers: Annotated[
        str | None,
        typer.Option(
            metavar="JSON",
            help='By question, from 0: {"0": {"selectedOption": "…"}, "1": {"selectedOptions": ["…"]}, '
            '"2": {"customText": "…"}}. Prompts ask for them when it is not given.',
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Answer questions. The first answer stands: exit code 6 when somebody else was faster."""
    try:
        box = open_box(load_settings().questions)
        question_set = run(found(box, set_id))
        require_transition(question_set, QuestionStatus.COMPLETED)
        given = _prompted(question_set) if answers is None else _decoded(answers)
    except HoldfastError as error:
        raise ended(error) from None
    answered = run(box.answer(question_set.id, given, by=user(), door=DOOR))
    if as_json:
        typer.echo(json.dumps(question_set_json(answered)))
    else:
        late = " Its asker no longer waits; it is told when it comes back." if answered.late else ""
        typer.echo(f"Answered {answered.short_id}.{late}")


async def found(box: QuestionBox, text: str) -> QuestionSet:
    return await box.get(await box.resolve(text))


def user() -> str:
    """Who sits here, by the system's account."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # an account without a name, as in some containers
        return f"uid {os.getuid()}"


def _prompted(question_set: QuestionSet) -> list[Answer]:
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise InvalidInput("Give the answers with --answers; without a terminal there is nobody to ask.")
    if given := answers_from_prompts(question_set):
        return given
    raise InvalidAnswers("Nothing was answered, so nothing was sent.")


def _decoded(text: str) -> list[Answer]:
    try:
        by_index = msgspec.json.decode(text, type=dict[int, dict[str, Any]])
        return [msgspec.convert({**said, "questionIndex": index}, Answer) for index, said in by_index.items()]
    except msgspec.DecodeError as error:
        raise InvalidAnswers(f"The answers cannot be understood: {error}.") from None
