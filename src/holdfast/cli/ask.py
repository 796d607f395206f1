"""`holdfast ask`: put questions before a person from a script, and wait for the answers."""

from __future__ import annotations

import asyncio
import json
import sys
import textwrap
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from holdfast.cli.options import AgentOption, JsonOption, SessionOption
from holdfast.cli.outcomes import ExitCode, ended, run
from holdfast.config import load_settings
from holdfast.errors import HoldfastError, InvalidInput
from holdfast.model.ids import SessionId
from holdfast.model.question import NewQuestionSet, Option, Question, QuestionSet, QuestionStatus
from holdfast.questions import QuestionBox, open_box
from holdfast.questions.errors import QuestionFileError, QuestionsRejected
from holdfast.questions.format import answers_text, rejection_text
from holdfast.questions.wire import question_set_json

NO_QUESTIONS = "Give the questions as JSON, with --file or with --simple, or pipe the JSON in."

TITLE = 24
"""Characters of a question that are shown where there is no room for all of it."""


def ask(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[JSON | OPTION...]",
            help="The questions as JSON (- reads it from standard input), or the options of --simple.",
        ),
    ] = None,
    simple: Annotated[
        str | None, typer.Option(metavar="QUESTION", help="One question; its options follow.")
    ] = None,
    multiple: Annotated[
        bool, typer.Option("--multiple", help="Let several options of it be chosen.")
    ] = False,
    file: Annotated[Path | None, typer.Option(help="Read the JSON from a file.")] = None,
    wait: Annotated[bool, typer.Option(help="Wait for the answers, or print the id at once.")] = True,
    timeout: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="How long to wait; 0 is for ever.")
    ] = None,
    agent: AgentOption = None,
    session: SessionOption = None,
    as_json: JsonOption = False,
) -> None:
    """Ask a person, and print the answers. Exit codes: 0 answered, 3 rejected, 4 timed out."""
    try:
        questions = (
            _simple(simple, words or [], multiple) if simple is not None else _questions(words or [], file)
        )
        settings = load_settings(questions=None if timeout is None else {"timeout_seconds": timeout})
        new = NewQuestionSet(
            questions=questions,
            agent=agent,
            session_id=SessionId(session) if session else None,
            working_directory=str(Path.cwd()),
        )
    except HoldfastError as error:
        raise ended(error) from None
    box = open_box(settings.questions)
    if wait:
        _wait(box, new, as_json)
    else:
        asked = run(_asked(box, new))
        typer.echo(json.dumps(question_set_json(asked)) if as_json else asked.id)


async def _asked(box: QuestionBox, new: NewQuestionSet) -> QuestionSet:
    await box.sweep()
    return await box.ask(new)


def _wait(box: QuestionBox, new: NewQuestionSet, as_json: bool) -> None:
    asked: list[QuestionSet] = []

    async def settled() -> QuestionSet:
        asking = asyncio.ensure_future(_asked(box, new))
        try:
            asked.append(await asyncio.shield(asking))
        except asyncio.CancelledError:  # what is being asked will be there, so the person must hear of it
            asked.append(await box.abandon((await asking).id))
            raise
        if sys.stderr.isatty():
            typer.echo(f"Waiting for the answer: holdfast answer {asked[0].short_id}", err=True)
        with suppress(QuestionsRejected):
            await box.wait(asked[0].id)
        with suppress(QuestionFileError):  # an answer that cannot be marked as heard is an answer
            await box.mark_read(asked[0].id)
        return await box.get(asked[0].id)

    try:
        heard = run(settled())
    except KeyboardInterrupt:
        if asked:
            typer.echo(
                "holdfast: Nobody waits any more, but the questions can still be answered: "
                f"holdfast answer {asked[0].short_id}",
                err=True,
            )
        raise typer.Exit(ExitCode.INTERRUPTED) from None
    if as_json:
        typer.echo(json.dumps(question_set_json(heard)))
    elif heard.answers is not None:
        typer.echo(answers_text(heard.questions, heard.answers))
    else:
        typer.echo(rejection_text(heard.rejection_reason).rstrip())
    if heard.status is QuestionStatus.REJECTED:
        raise typer.Exit(ExitCode.REJECTED)


def _simple(prompt: str, options: list[str], multiple: bool) -> tuple[Question, ...]:
    title = textwrap.shorten(prompt, TITLE, placeholder="…")
    return (Question(title=title, prompt=prompt, options=tuple(map(Option, options)), multi_select=multiple),)


def _questions(words: list[str], file: Path | None) -> tuple[Question, ...]:
    if len(words) > 1 or (words and file):
        raise InvalidInput("Give the questions once: as one JSON text, or with --file.")
    document = _decoded(_text(words[0] if words else None, file))
    if isinstance(document, dict):
        document = document.get("questions")
    try:
        return msgspec.convert(document, tuple[Question, ...])
    except msgspec.ValidationError as error:
        raise InvalidInput(f"These are no questions: {error}.") from None


def _text(argument: str | None, file: Path | None) -> str:
    if file is not None:
        try:
            return file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidInput(f"{file} cannot be read: {error}.") from None
    if argument is not None and argument != "-":
        return argument
    if sys.stdin.isatty() and argument is None:
        raise InvalidInput(NO_QUESTIONS)
    return sys.stdin.read()


def _decoded(text: str) -> Any:
    if not text.strip():
        raise InvalidInput(NO_QUESTIONS)
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"The questions are not JSON: {error}.") from None
