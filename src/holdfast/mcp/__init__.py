"""Question sets for any agent that speaks MCP.

`holdfast mcp` serves a client on standard input and output. An agent that Holdfast starts finds a socket.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.config import Settings
    from holdfast.mcp.door import McpDoor
    from holdfast.questions import QuestionBox


def question_door(box: QuestionBox, settings: Settings) -> McpDoor | None:
    """Where agents ask. None without the extra `mcp`."""
    if find_spec("mcp") is None:
        return None
    from holdfast.agents.opening import sockets_of
    from holdfast.mcp.door import McpDoor

    return McpDoor(box, settings.questions, sockets_of(settings))
