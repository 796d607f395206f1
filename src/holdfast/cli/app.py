"""The commands, gathered."""

from __future__ import annotations

from typing import Annotated

import typer

import holdfast
from holdfast.cli import (
    agents,
    answer,
    ask,
    bindings,
    db,
    doctor,
    inbox,
    mcp,
    migrate,
    questions,
    repos,
    run,
    serve,
    sessions,
    token,
)

app = typer.Typer(
    name="holdfast",
    help="Durable sessions for AI agents.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("serve")(serve.serve)
app.command("run")(run.run)
app.command("ask")(ask.ask)
app.command("answer")(answer.answer)
app.command("inbox")(inbox.inbox)
app.command("mcp")(mcp.mcp)
app.command("agents")(agents.agents)
app.command("repos")(repos.repos)
app.command("doctor")(doctor.doctor)
app.command("demo-agent")(agents.demo_agent)
sessions.app.command("migrate")(migrate.migrate)
app.add_typer(sessions.app, name="sessions")
app.add_typer(questions.app, name="questions")
app.add_typer(bindings.app, name="bindings")
app.add_typer(db.app, name="db")
app.add_typer(token.app, name="token")


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"holdfast {holdfast.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    pass
