"""`holdfast serve`."""

from __future__ import annotations

import asyncio
import gc
import shutil
import sys
from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.cli.options import StoreOption, without_password
from holdfast.config import load_settings
from holdfast.errors import MissingExtra

if TYPE_CHECKING:
    from holdfast.server.run import Started


class LogLevel(StrEnum):
    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


def serve(
    store: StoreOption = None,
    host: Annotated[str | None, typer.Option(help="The address to listen on; 127.0.0.1 by default.")] = None,
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="The port; 4747 by default, 0 for any free one.")
    ] = None,
    no_auth: Annotated[
        bool,
        typer.Option(
            "--no-auth", help="Ask nobody who they are: on loopback only, without agents, for trying only."
        ),
    ] = False,
    log_level: Annotated[LogLevel, typer.Option(help="From which level on is logged.")] = LogLevel.WARNING,
) -> None:
    """Run the server, with a web page, until it is interrupted."""
    if find_spec("uvicorn") is None or find_spec("fastapi") is None:
        raise MissingExtra("The server", "server")
    gc.disable()  # what is made from here on stays; `run.serve` begins to look for garbage when it is ready
    from holdfast.server import run
    from holdfast.server.tracing import configure_tracing
    from holdfast.telemetry import configure_logging

    settings = load_settings(store=store)
    listening = {name: value for name, value in (("host", host), ("port", port)) if value is not None}
    settings.server = settings.server.model_copy(update=listening)
    settings.data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    configure_logging(log_level)
    configure_tracing()
    asyncio.run(run.serve(settings, auth=not no_auth, announce=_announce))


async def _announce(started: Started) -> None:
    parts = started.parts
    repos = await parts.supervisor.repositories.scan(parts.store)
    catalogue = parts.supervisor.catalogue
    installed = [name for name in catalogue if catalogue[name].path() is not None]
    typer.echo(f"Holdfast listens on {started.url}")
    if started.sign_in is not None:
        typer.echo(f"Open it signed in (once):  {started.sign_in}")
    else:
        typer.echo("Nobody has to sign in: anybody who reaches this port acts as you. No agents are started.")
    typer.echo(f"Store:         {without_password(parts.settings.store_url)}")
    typer.echo(f"Agents:        {', '.join(installed)}")
    typer.echo(f"Repositories:  {len(repos)} under {parts.settings.workspace.root.absolute()}")
    typer.echo(f"Try:           {_program()} doctor · curl {started.url}/healthz · docs/http.md")


def _program() -> str:
    """What to type to call this program here, also where it is not on the path."""
    called = sys.argv[0]
    if shutil.which("holdfast") or Path(called).name != "holdfast":
        return "holdfast"
    return called
