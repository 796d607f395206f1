"""`holdfast inbox`: the questions of all agents, answered in the terminal."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from holdfast.cli.answer import user
from holdfast.config import load_settings
from holdfast.errors import InvalidInput, MissingExtra
from holdfast.questions import open_box


def inbox(
    bell: Annotated[
        bool | None,
        typer.Option("--bell/--no-bell", help="Ring when a question comes. Also HOLDFAST_INBOX_BELL."),
    ] = None,
    toasts: Annotated[
        bool | None,
        typer.Option(
            "--toasts/--no-toasts", help="Show a note when a question comes. Also HOLDFAST_INBOX_TOASTS."
        ),
    ] = None,
    light: Annotated[
        bool | None,
        typer.Option("--light/--dark", help="For a light or a dark terminal. Also HOLDFAST_INBOX_LIGHT."),
    ] = None,
) -> None:
    """Read and answer what agents ask, in the terminal."""
    try:
        from holdfast.tui.app import InboxApp
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("holdfast"):
            raise
        raise MissingExtra("The inbox", "tui") from None
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise InvalidInput("The inbox needs a terminal; without one, use `holdfast questions list`.")
    settings = load_settings()
    chosen = settings.inbox
    InboxApp(
        open_box(settings.questions),
        settings.data_dir / "drafts",
        by=user(),
        bell=chosen.bell if bell is None else bell,
        toasts=chosen.toasts if toasts is None else toasts,
        light=chosen.light if light is None else light,
    ).run()
