"""`holdfast mcp`."""

from __future__ import annotations

import asyncio

from holdfast.cli.options import AgentOption, SessionOption
from holdfast.config import load_settings
from holdfast.errors import MissingExtra
from holdfast.model.ids import SessionId
from holdfast.questions import open_box


def mcp(session: SessionOption = None, agent: AgentOption = None) -> None:
    """Let an agent ask people, through MCP over standard input and output."""
    try:
        from holdfast.mcp.asking import Asker
        from holdfast.mcp.stdio import serve_stdio
    except ModuleNotFoundError as error:
        raise MissingExtra("The MCP server", "mcp") from error
    settings = load_settings().questions
    asker = Asker(
        open_box(settings), settings, agent=agent, session_id=SessionId(session) if session else None
    )
    asyncio.run(serve_stdio(asker))
