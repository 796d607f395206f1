"""`holdfast search`: the places in indexed files that a question is about."""

from __future__ import annotations

import asyncio
from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.padding import Padding
from rich.syntax import Syntax
from rich.text import Text

from holdfast.cli.options import JsonOption, StoreOption, settings_for
from holdfast.cli.reach_index import reached_index
from holdfast.config import Settings
from holdfast.questions.shown import harmless, one_line
from holdfast.retrieval import Chunk, Found, SearchFilter
from holdfast.retrieval.chunk import LIMIT
from holdfast.retrieval.terms import terms

SHOWN_LINES = 12
"""How much of a chunk is shown: from the first line that speaks of what was asked."""


def search(
    query: Annotated[str, typer.Argument(help="A question, or words and names from the code.")],
    repository: Annotated[
        str | None, typer.Option("--repo", metavar="NAME", help="Only in this repository.")
    ] = None,
    workspace: Annotated[
        str | None,
        typer.Option("--workspace", metavar="NAME", help="Only in what this workspace stands for."),
    ] = None,
    language: Annotated[
        str | None, typer.Option("--language", help="Only in this language: python, go, …")
    ] = None,
    path: Annotated[
        str | None, typer.Option("--path", help="Only in this file, or below this directory.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=100, help="How many places.")] = LIMIT,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the places in indexed files that are nearest to a question. Exit code 1 when there are none."""
    wanted = SearchFilter(repository=repository, workspace=workspace, language=language, path=path)
    found = asyncio.run(_search(settings_for(store), query, wanted, limit))
    for warning in found.warnings:
        typer.echo(f"holdfast: {one_line(warning)}", err=True)
    if as_json:
        typer.echo(msgspec.json.encode(found))
    elif not found.chunks:
        typer.echo("Nothing was found.", err=True)
    else:
        _show(Console(highlight=False), found, frozenset(terms(query)))
    raise typer.Exit(0 if found.chunks else 1)


async def _search(settings: Settings, query: str, wanted: SearchFilter, limit: int) -> Found:
    async with reached_index(settings) as index:
        return await index.search(query, wanted, limit)


def _show(console: Console, found: Found, asked: frozenset[str]) -> None:
    for chunk in found.chunks:
        place = Text(
            f"{one_line(chunk.repository)}/{one_line(chunk.path)}:{chunk.start_line}-{chunk.end_line}"
        )
        place.stylize("bold cyan")
        if chunk.symbol is not None:
            place.append(f"  {one_line(chunk.symbol)}", style="yellow")
        console.print(place, soft_wrap=True)
        console.print(Padding(_excerpt(chunk, asked), (0, 0, 1, 2)))


def _excerpt(chunk: Chunk, asked: frozenset[str]) -> Syntax:
    """The lines of a chunk around the first that speaks of what was asked, those that do highlighted."""
    lines = harmless(chunk.text).split("\n")
    speaking = [number for number, line in enumerate(lines) if not asked.isdisjoint(terms(line))]
    start = max(0, min(speaking[0] - 2, len(lines) - SHOWN_LINES)) if speaking else 0
    return Syntax(
        "\n".join(lines[start : start + SHOWN_LINES]),
        chunk.language,
        theme="ansi_dark",
        background_color="default",
        line_numbers=True,
        start_line=chunk.start_line + start,
        highlight_lines={chunk.start_line + number for number in speaking},
        word_wrap=True,
    )
