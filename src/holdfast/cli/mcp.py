"""`holdfast mcp`."""

from __future__ import annotations

import asyncio

import typer

from holdfast.cli.options import AgentOption, SessionOption
from holdfast.config import load_settings
from holdfast.errors import MissingExtra
from holdfast.model.ids import SessionId

app = typer.Typer(pretty_exceptions_enable=False, context_settings={"help_option_names": ["-h", "--help"]})


@app.callback()
def _alone() -> None:
    """The command line with this one command, which starts sooner than the whole."""


@app.command()
def mcp(session: SessionOption = None, agent: AgentOption = None) -> None:
    """Let an agent ask people, through MCP over standard input and output."""
    try:
        from holdfast.mcp.asking import Asker
        from holdfast.mcp.stdio import serve_stdio
    except ModuleNotFoundError as error:
        raise MissingExtra("The MCP server", "mcp") from error
    asker = Asker(load_settings().questions, agent=agent, session_id=SessionId(session) if session else None)
    asyncio.run(serve_stdio(asker))
