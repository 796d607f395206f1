"""The commands, gathered."""

from __future__ import annotations

import typer

import holdfast
from holdfast.cli import db, serve

app = typer.Typer(
    name="holdfast",
    help="Durable sessions for AI agents.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("serve")(serve.serve)
app.add_typer(db.app, name="db")


@app.callback()
def _options(
    version: bool = typer.Option(False, "--version", help="Print the version and exit.", is_eager=True),
) -> None:
    if version:
        typer.echo(f"holdfast {holdfast.__version__}")
        raise typer.Exit


__all__ = ["app"]
