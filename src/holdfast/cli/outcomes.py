"""How a command about question sets ends: what scripts can tell from its exit code."""

from __future__ import annotations

from collections.abc import Coroutine
from enum import IntEnum
from typing import Any, TypeVar

import typer

from holdfast.cli.signals import run_in_order
from holdfast.errors import HoldfastError, InvalidInput, NotFound
from holdfast.model.question import AlreadySettled
from holdfast.questions.errors import AmbiguousId, QuestionFileError, QuestionsRejected, QuestionsTimedOut
from holdfast.questions.shown import one_line, problem

T = TypeVar("T")


class ExitCode(IntEnum):
    """Documented in docs/questions.md."""

    FAILED = 1
    INVALID = 2
    """Also what a wrong option ends with."""
    REJECTED = 3
    TIMED_OUT = 4
    NOT_FOUND = 5
    SETTLED = 6
    INTERRUPTED = 130


_CODES: tuple[tuple[type[HoldfastError], ExitCode], ...] = (
    (QuestionsRejected, ExitCode.REJECTED),
    (QuestionsTimedOut, ExitCode.TIMED_OUT),
    (AlreadySettled, ExitCode.SETTLED),
    (NotFound, ExitCode.NOT_FOUND),
    (InvalidInput, ExitCode.INVALID),
    (AmbiguousId, ExitCode.INVALID),
)


def ended(error: HoldfastError) -> typer.Exit:
    """Say in one sentence why a command cannot go on; its end, to be raised."""
    sentence = f"{error}: {problem(error.cause)}" if isinstance(error, QuestionFileError) else str(error)
    typer.echo(f"holdfast: {one_line(sentence)}", err=True)
    return typer.Exit(next((code for kind, code in _CODES if isinstance(error, kind)), ExitCode.FAILED))


def run(action: Coroutine[Any, Any, T]) -> T:
    try:
        return run_in_order(action)
    except HoldfastError as error:
        raise ended(error) from None
