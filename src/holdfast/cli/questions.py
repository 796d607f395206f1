"""`holdfast questions`: what agents ask, what people answered, and how to refuse."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli.answer import DOOR, SetArgument, found, user
from holdfast.cli.options import JsonOption
from holdfast.cli.outcomes import ended, run
from holdfast.config import load_settings
from holdfast.errors import HoldfastError, InvalidInput
from holdfast.model.question import SETTLED, QuestionSet, QuestionStatus
from holdfast.model.times import iso
from holdfast.questions import QuestionBox, open_box
from holdfast.questions.format import answers_text
from holdfast.questions.shown import (
    age,
    asker,
    harmless,
    one_line,
    settlement,
    shown_option,
    shown_question,
    subject,
)
from holdfast.questions.tool import as_text
from holdfast.questions.wire import question_set_json

app = typer.Typer(help="List, read, reject and export what agents ask.", no_args_is_help=True)


@app.command("list")
def list_(
    everything: Annotated[bool, typer.Option("--all", help="Also those that were answered.")] = False,
    as_json: JsonOption = False,
) -> None:
    """List the questions that wait for an answer, oldest first."""
    status = set(QuestionStatus) if everything else set(QuestionStatus) - SETTLED
    sets = run(_box().list(status))
    if as_json:
        typer.echo(json.dumps([question_set_json(each) for each in sets]))
    elif sets:
        _print_table(sets)
    elif everything:
        typer.echo("Nobody has asked anything.")
    else:
        typer.echo("Nobody waits for an answer. --all lists what was answered.")


@app.command()
def show(set_id: SetArgument, as_json: JsonOption = False) -> None:
    """Show a question set, and what was answered."""
    question_set = run(found(_box(), set_id))
    typer.echo(json.dumps(question_set_json(question_set)) if as_json else _described(question_set))


@app.command()
def reject(
    set_id: SetArgument,
    reason: Annotated[str | None, typer.Option(help="What the asker is told.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Refuse to answer. The asker is told so, with the reason."""
    box = _box()

    async def rejected() -> QuestionSet:
        return await box.reject(await box.resolve(set_id), reason, by=user(), door=DOOR)

    question_set = run(rejected())
    typer.echo(
        json.dumps(question_set_json(question_set)) if as_json else f"Rejected {question_set.short_id}."
    )


@app.command()
def export(
    ids: Annotated[
        list[str] | None, typer.Argument(metavar="[ID]...", help="All of them by default.")
    ] = None,
    output: Annotated[Path | None, typer.Option(metavar="FILE", help="Write to a file.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Write question sets and their answers as Markdown, or as JSON."""
    box = _box()

    async def chosen() -> tuple[QuestionSet, ...]:
        return tuple([await found(box, each) for each in ids]) if ids else await box.list()

    sets = run(chosen())
    if as_json:
        text = json.dumps([question_set_json(each) for each in sets], indent=2, ensure_ascii=output is None)
    else:
        text = "\n\n".join(map(_described, sets))
    if output is None:
        typer.echo(text)
        return
    try:
        # Half of a surrogate pair, which a foreign file may hold, becomes its JSON escape.
        output.write_bytes(f"{text}\n".encode(errors="backslashreplace"))
    except OSError as error:
        raise ended(InvalidInput(f"{output} cannot be written: {error.strerror}.")) from None
    typer.echo(f"{output} holds {len(sets)} question sets.")


def _box() -> QuestionBox:
    try:
        return open_box(load_settings().questions)
    except HoldfastError as error:
        raise ended(error) from None


def _print_table(sets: tuple[QuestionSet, ...]) -> None:
    now = datetime.now(UTC)
    rows = [("ID", "STATUS", "AGE", "ASKER", "ABOUT")]
    rows += [
        (each.short_id, each.status.value, age(each.created_at, now), asker(each), subject(each))
        for each in sets
    ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        typer.echo("  ".join(cells).rstrip())


def _described(question_set: QuestionSet) -> str:
    """A set as Markdown that also reads well in a terminal."""
    asked = f"Asked by {asker(question_set)} at {iso(question_set.created_at)}"
    if question_set.working_directory:
        asked += f" in {one_line(question_set.working_directory)}"
    lines = [f"# {question_set.id}: {question_set.status}", "", f"{asked}."]
    if question_set.session_id:
        lines.append(f"Session: {one_line(question_set.session_id)}")
    if question_set.tool:
        lines += ["", _fenced(as_text(question_set.tool))]
    for number, question in enumerate(question_set.questions, 1):
        lines += ["", f"{number}. {shown_question(question)}"]
        lines += [f"   - {shown_option(option)}" for option in question.options]
    if question_set.is_settled:
        lines += ["", settlement(question_set)]
    if question_set.answers is not None:
        lines += ["", harmless(answers_text(question_set.questions, question_set.answers))]
    elif question_set.rejection_reason:
        lines += ["", harmless(question_set.rejection_reason)]
    return "\n".join(lines)


def _fenced(text: str) -> str:
    """A code block whose fence is longer than any inside."""
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}\n{text}\n{fence}"
