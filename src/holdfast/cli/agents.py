"""`holdfast agents` and `holdfast demo-agent`."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from holdfast.agents import demo
from holdfast.agents.catalogue import Catalogue
from holdfast.agents.probe import Probe, probe
from holdfast.cli.options import JsonOption
from holdfast.config import load_settings
from holdfast.questions.shown import one_line


def agents(
    as_json: JsonOption = False,
    start: Annotated[
        bool, typer.Option("--start/--no-start", help="Start each to see whether it answers.")
    ] = True,
) -> None:
    """List the agents that can be run, which are installed, and whether they answer."""
    catalogue = Catalogue.from_settings(load_settings().agents)
    with Console(stderr=True).status("starting every agent that is installed"):
        found = asyncio.run(_look(catalogue, start=start))
    if as_json:
        typer.echo(json.dumps([_as_json(name, result) for name, result in found.items()]))
        return
    table = Table(box=None, pad_edge=False)
    for heading in ("AGENT", "STATE", "PROGRAM", "ABOUT"):
        table.add_column(heading, overflow="fold")
    for name, result in found.items():
        table.add_row(name, *_row(catalogue, name, result))
    Console().print(table, markup=False)


def demo_agent(
    memory: Annotated[
        Path | None,
        typer.Option(help="Where it keeps its sessions, so that they can be resumed.", show_default=False),
    ] = None,
) -> None:
    """Speak ACP on standard input and output: an agent that needs no account, to try things with."""
    demo.main(memory)


async def _look(catalogue: Catalogue, *, start: bool) -> dict[str, Probe]:
    names = list(catalogue)
    if not start:
        return {name: Probe(path=catalogue[name].path()) for name in names}
    probes = await asyncio.gather(*(probe(catalogue[name]) for name in names))
    return dict(zip(names, probes, strict=True))


def _row(catalogue: Catalogue, name: str, result: Probe) -> tuple[str, str, str]:
    if result.path is None:
        return "not installed", "", catalogue[name].install or ""
    state = "answers" if result.answers else "does not answer" if result.problem else "installed"
    return state, str(result.path), one_line(result.name or result.problem or "")


def _as_json(name: str, result: Probe) -> dict[str, Any]:
    return {
        "agent": name,
        "path": str(result.path) if result.path else None,
        "answers": result.answers,
        "name": result.name,
        "problem": result.problem,
    }
