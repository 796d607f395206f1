"""`holdfast agents` and `holdfast demo-agent`."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from holdfast.agents import demo
from holdfast.agents.catalogue import Catalogue
from holdfast.agents.opening import open_sandboxes
from holdfast.agents.probe import Probe, probe
from holdfast.agents.sandbox import Sandboxes
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
    settings = load_settings()
    catalogue = Catalogue.from_settings(settings.agents)
    with Console(stderr=True).status("starting every agent that is installed"):
        found = asyncio.run(_look(catalogue, open_sandboxes(settings), start=start))
    if as_json:
        typer.echo(json.dumps([_as_json(name, result) for name, result in found.items()]))
        return
    typer.echo(f"{'AGENT':<10}  {'STATE':<15}  ABOUT")
    for name, result in found.items():
        state, about = _described(catalogue, name, result)
        typer.echo(f"{name:<10}  {state:<15}  {about}".rstrip())


def demo_agent(
    memory: Annotated[
        Path | None,
        typer.Option(help="Where it keeps its sessions, so that they can be resumed.", show_default=False),
    ] = None,
) -> None:
    """Speak ACP on standard input and output: an agent that needs no account, to try things with."""
    demo.main(memory)


async def _look(catalogue: Catalogue, sandboxes: Sandboxes, *, start: bool) -> dict[str, Probe]:
    names = list(catalogue)
    if not start:
        return {name: Probe(path=catalogue[name].path()) for name in names}
    probes = await asyncio.gather(*(probe(catalogue[name], sandboxes) for name in names))
    return dict(zip(names, probes, strict=True))


def _described(catalogue: Catalogue, name: str, result: Probe) -> tuple[str, str]:
    if result.path is None:
        return "not installed", f"to install it: {catalogue[name].install or catalogue[name].command}"
    state = "answers" if result.answers else "does not answer" if result.problem else "installed"
    said = one_line(result.name or result.problem or "")
    sandbox = f"sandbox: {result.sandbox['summary']}" if result.sandbox else ""
    return state, " · ".join(filter(None, (said, str(result.path), sandbox)))


def _as_json(name: str, result: Probe) -> dict[str, Any]:
    return {
        "agent": name,
        "path": str(result.path) if result.path else None,
        "answers": result.answers,
        "name": result.name,
        "problem": result.problem,
        "sandbox": result.sandbox,
    }
