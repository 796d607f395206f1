"""Real clients of a real `holdfast mcp`: the SDK's own, and one that writes the lines itself."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from mcp import Client, StdioServerParameters
from mcp.shared.dispatcher import ProgressFnT
from mcp_types import CallToolResult, Implementation, TextContent

from holdfast.config import QuestionSettings
from holdfast.mcp.asking import Asker
from holdfast.mcp.server import question_server
from holdfast.model.question import QuestionSet, QuestionStatus
from holdfast.questions import QuestionBox, open_box
from tests.waiting import SECONDS, until

ERAS = ["legacy", "2026-07-28"]
"""The handshake, and the protocol without one."""

LANGUAGE = {
    "prompt": "Which language?",
    "title": "Language",
    "options": [{"label": "Python (Recommended)", "description": "Fast to write"}, {"label": "Rust"}],
    "multiSelect": False,
}
COLOUR = {
    "prompt": "Which colour?",
    "title": "Colour",
    "options": [{"label": "Red"}, {"label": "Blue"}],
    "multiSelect": False,
}
ASK = {"questions": [LANGUAGE]}
ANSWERED = "Here are the user's answers:\n\n1. Which language?\n→ Rust"


def environment(directory: Path, **settings: object) -> dict[str, str]:
    """What a server is started with: settings of questions, and names of its own in capital letters."""
    named = {
        name if name.isupper() else f"HOLDFAST_QUESTIONS_{name.upper()}": str(value)
        for name, value in settings.items()
    }
    return {"AUQ_SESSION_DIR": str(directory), **named}


@asynccontextmanager
async def connected(
    directory: Path,
    *arguments: str,
    era: str = "legacy",
    name: str = "a-client",
    **settings: object,
) -> AsyncIterator[Client]:
    server = StdioServerParameters(
        command=sys.executable,
        args=["-m", "holdfast", "mcp", *arguments],
        env=environment(directory, **settings),
        cwd=directory.parent,
    )
    async with Client(server, mode=era, client_info=Implementation(name=name, version="1")) as client:
        yield client


@asynccontextmanager
async def in_process(
    directory: Path, *, era: str = "legacy", agent: str | None = None, **settings: Any
) -> AsyncIterator[Client]:
    """The same server without a process of its own, for what its process has no part in."""
    chosen = QuestionSettings(directory=directory, **settings)
    asker = Asker(open_box(chosen), chosen, agent=agent)
    async with Client(question_server(asker), mode=era) as client:
        yield client
    await asker.close()


async def ask(
    client: Client, *questions: dict[str, Any], beats: ProgressFnT | None = None, **more: Any
) -> CallToolResult:
    """What is answered; `beats` hears that the call waits."""
    arguments = {"questions": list(questions or [LANGUAGE]), **more}
    return await client.call_tool("ask_user_questions", arguments, progress_callback=beats)


async def fetch(client: Client, session_id: str, *, blocking: bool = False) -> CallToolResult:
    arguments = {"session_id": session_id, "blocking": blocking}
    return await client.call_tool("get_answered_questions", arguments)


def texts(result: CallToolResult) -> list[str]:
    return [block.text for block in result.content if isinstance(block, TextContent)]


def text(result: CallToolResult) -> str:
    (only,) = texts(result)
    return only


async def the_pending(box: QuestionBox) -> QuestionSet:
    """The only set that waits, once there is one."""

    async def is_asked() -> bool:
        return len(await box.list({QuestionStatus.PENDING})) == 1

    await until(is_asked)
    (pending,) = await box.list({QuestionStatus.PENDING})
    return pending


class RawClient:
    """Speaks the protocol line by line, and can go away without a word."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self.process = process
        self._in = process.stdin
        self._out = process.stdout

    def send(self, method: str, params: dict[str, Any], number: int | None = None) -> None:
        message: dict[str, Any] = {"jsonrpc": "2.0", "method": method, "params": params}
        if number is not None:
            message["id"] = number
        self._in.write(json.dumps(message).encode() + b"\n")

    async def line(self) -> dict[str, Any]:
        async with asyncio.timeout(SECONDS):
            line = await self._out.readline()
        message: dict[str, Any] = json.loads(line)
        return message

    async def initialize(self) -> dict[str, Any]:
        client = {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "raw", "version": "1"},
        }
        self.send("initialize", client, 1)
        answer = await self.line()
        self.send("notifications/initialized", {})
        return answer

    def ask(self) -> None:
        self.send("tools/call", {"name": "ask_user_questions", "arguments": ASK}, 2)

    async def hang_up(self) -> int:
        """Close its input; the exit code it ends with."""
        self._in.close()
        return await self.ended()

    async def ended(self) -> int:
        async with asyncio.timeout(SECONDS):
            await self._out.read()
            return await self.process.wait()


@asynccontextmanager
async def raw_client(directory: Path, **settings: object) -> AsyncIterator[RawClient]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "holdfast", "mcp"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env={"PATH": os.environ["PATH"], **environment(directory, **settings)},
        cwd=directory.parent,
    )
    try:
        yield RawClient(process)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
