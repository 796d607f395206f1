"""The commands, and the command line that is made of them."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Annotated

import typer

import holdfast

COMMANDS = {
    "serve": "serve.serve",
    "run": "run.run",
    "execute": "execute.execute",
    "replay": "execute.replay",
    "contexts": "execute.contexts",
    "ask": "ask.ask",
    "answer": "answer.answer",
    "inbox": "inbox.inbox",
    "mcp": "mcp.mcp",
    "agents": "agents.agents",
    "repos": "repos.repos",
    "index": "index.index",
    "search": "search.search",
    "doctor": "doctor.doctor",
    "trust": "trust.trust",
    "demo-agent": "agents.demo_agent",
    "demo-model": "execute.demo_model",
    "export": "sessions.export",
    "sessions": "sessions.app",
    "questions": "questions.app",
    "bindings": "bindings.app",
    "db": "db.app",
    "token": "token.app",
}
"""Where in this package each command, or group of commands, is found; in the order of the help."""


SAY_NOTHING_OF_SETTINGS = {"demo-agent", "demo-model", "doctor", "trust"}
"""Commands that read none, or that say more of them than that a file is ignored."""


def command_line(arguments: Sequence[str]) -> typer.Typer:
    """The command line for these arguments: with the command that they name alone, which then does not
    wait for what only others need, or with all commands."""
    app = typer.Typer(
        name="holdfast",
        help="Durable sessions for AI agents.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_options)
    named = [name for name in arguments[:1] if name in COMMANDS]
    for name in named or COMMANDS:
        module, _, attribute = COMMANDS[name].partition(".")
        found = getattr(import_module(f"holdfast.cli.{module}"), attribute)
        if isinstance(found, typer.Typer):
            app.add_typer(found, name=name)
        else:
            app.command(name)(found)
    return app


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"holdfast {holdfast.__version__}")
        raise typer.Exit


def _options(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    if context.invoked_subcommand not in SAY_NOTHING_OF_SETTINGS:
        from holdfast.cli.trust import say_what_is_ignored

        say_what_is_ignored()
