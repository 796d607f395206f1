"""`holdfast trust`: settings files of working directories that may be used."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from holdfast.cli.options import JsonOption, without_secrets
from holdfast.config import load_settings
from holdfast.errors import HoldfastError, InvalidInput, NotFound
from holdfast.questions.shown import one_line
from holdfast.settings_files import FILE, content_of, parsed, settings_files, trusted_files


class NobodyToAsk(HoldfastError):
    code = "nobody_to_ask"


def trust(
    file: Annotated[
        Path, typer.Argument(help="The file, or its directory; by default the one here.", show_default=False)
    ] = Path(FILE),
    forget: Annotated[bool, typer.Option("--forget", help="Trust it no more.")] = False,
    listing: Annotated[bool, typer.Option("--list", help="List the files you trust.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Show what the settings file of a directory would change, and use it from now on.

    A settings file can name programs that are started and servers that get your keys. So one that lies in
    the working directory, where a cloned repository may have brought it, is ignored until you trust it, and
    again as soon as it changes.
    """
    if listing:
        _list(as_json)
        return
    path = (file / FILE if file.is_dir() else file).resolve()
    if forget:
        if not trusted_files().remove(path):
            raise NotFound(f"{path} is not trusted; `holdfast trust --list` lists the files that are.")
        typer.echo(f"{path} is ignored from now on.")
        return
    if not path.is_file():
        raise NotFound(f"There is no {path}.")
    if path.name != FILE:
        raise InvalidInput(
            f"Only a file called {FILE} is looked for in a directory; set HOLDFAST_CONFIG to use {path}."
        )
    content = content_of(path)
    if trusted_files().hold(path, content):
        typer.echo(f"{path} is trusted already.")
        return
    _ask(path, parsed(path, content).table)
    trusted_files().add(path, content)
    typer.echo(f"{path} is used from now on by commands that start in its directory, until it changes.")


def _list(as_json: bool) -> None:
    trusted = trusted_files()
    states = []
    for path in sorted(trusted.all()):
        state = "gone"
        if path.is_file():
            state = "trusted" if trusted.hold(path, content_of(path)) else "changed since"
        states.append((path, state))
    if as_json:
        typer.echo(msgspec.json.encode([{"file": str(path), "state": state} for path, state in states]))
    elif not states:
        typer.echo("You trust no settings file yet. To trust the one here: holdfast trust")
    else:
        table = Table(box=None, pad_edge=False)
        for heading in ("STATE", "FILE"):
            table.add_column(heading, overflow="fold")
        for path, state in states:
            table.add_row(state, one_line(str(path)))
        Console().print(table, markup=False)


def _ask(path: Path, table: Mapping[str, Any]) -> None:
    typer.echo(f"{one_line(str(path))} would set:")
    now = without_secrets(load_settings().model_dump())
    for name, value in _leaves(table):
        typer.echo(f"  {one_line('.'.join(name))} = {one_line(repr(value))}{_instead_of(now, name, value)}")
    if not any(_leaves(table)):
        typer.echo("  nothing")
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise NobodyToAsk(
            "Whether a settings file is trusted is asked in a terminal. To use one without a terminal, set "
            "HOLDFAST_CONFIG to its path."
        )
    if not typer.confirm("Trust it?"):
        raise typer.Exit(1)


def _instead_of(now: Any, name: tuple[str, ...], value: object) -> str:
    for step in name:
        if not isinstance(now, dict) or step not in now:
            return ""
        now = now[step]
    before = str(now) if isinstance(now, Path) else now
    return "" if before == value else f"  (now {one_line(repr(before))})"


def _leaves(table: Mapping[str, Any], above: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, value in table.items():
        if isinstance(value, dict) and value:
            yield from _leaves(value, (*above, name))
        else:
            yield (*above, name), value


def say_what_is_ignored() -> None:
    """Say that a settings file lies here and is not used."""
    found = settings_files()
    if found.ignored is not None:
        typer.echo(
            f"holdfast: {one_line(str(found.ignored))} is ignored: {found.reason}. "
            "`holdfast trust` shows what it would change.",
            err=True,
        )
