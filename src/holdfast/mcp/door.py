"""The questions of agents that Holdfast started: one socket for each session, and nothing else behind it.

An agent starts the MCP server that it is handed, inside its sandbox. What it starts is a relay: it carries
bytes between the agent and the socket. The MCP server is here, so the agent needs no file of ours, and can
ask for its own session alone.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any, cast

import anyio
from mcp.server.stdio import stdio_server

from holdfast.agents.process import SESSION_MARK
from holdfast.agents.sandbox import Place
from holdfast.agents.sandbox.local_socket import SOCKET, LocalSocket
from holdfast.config import QuestionSettings
from holdfast.mcp.asking import Asker
from holdfast.mcp.server import question_server
from holdfast.model.session import Session
from holdfast.questions import QuestionBox

log = logging.getLogger("holdfast.mcp")

LINE_BYTES, CLIENTS = 1024 * 1024, 16
"""How long a message of a client may be, and how many clients a session has at a time."""

RELAY = """
import os, socket, sys, threading
door = socket.socket(socket.AF_UNIX)
os.chdir(sys.argv[1])
door.connect(sys.argv[2])
def ask():
    while data := os.read(0, 65536):
        door.sendall(data)
    door.shutdown(socket.SHUT_WR)
threading.Thread(target=ask, daemon=True).start()
while data := door.recv(65536):
    while data:
        data = data[os.write(1, data):]
"""
"""Run without any package: it starts in a hundredth of a second."""


class McpDoor:
    """Opens the sockets. Every session has its own."""

    def __init__(self, box: QuestionBox, settings: QuestionSettings, sockets: Path) -> None:
        self._box = box
        self._settings = settings
        self._sockets = sockets

    async def open(self, session: Session, workspace: Path, mark: str) -> OpenMcpDoor:
        def asker() -> Asker:
            return Asker(
                self._box,
                self._settings,
                agent=session.agent,
                session_id=session.id,
                organization=session.organization,
                working_directory=workspace,
            )

        opened = OpenMcpDoor(session, mark, asker, self._sockets)
        await opened.socket.listening()
        return opened


class OpenMcpDoor:
    def __init__(self, session: Session, mark: str, asker: Callable[[], Asker], sockets: Path) -> None:
        self._session = session
        self._mark = mark
        self._asker = asker
        self.socket = LocalSocket(sockets, self._serve, line=LINE_BYTES, clients=CLIENTS)

    @property
    def servers(self) -> list[dict[str, Any]]:
        """What an agent is told of it when its session is opened."""
        return [
            {
                "name": "holdfast",
                "command": os.path.realpath(sys.executable),
                "args": ["-I", "-S", "-c", RELAY, str(self.socket.directory), SOCKET],
                # Some agents start it with an environment of their own choice, not with theirs.
                "env": [{"name": SESSION_MARK, "value": self._mark}],
            }
        ]

    @property
    def places(self) -> Sequence[Place]:
        """What the relay needs."""
        return self.socket.places

    async def close(self) -> None:
        """Nobody waits any more for what this session still was to be told."""
        await self.socket.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asker = self._asker()
        lines = cast("anyio.AsyncFile[str]", _Lines(reader, writer))
        server = question_server(asker)
        try:
            async with stdio_server(lines, lines) as (incoming, outgoing):
                await server.run(incoming, outgoing, server.create_initialization_options())
        except* (OSError, ValueError) as errors:
            log.warning("session %s: its MCP client is lost: %s", self._session.id, errors.exceptions[0])
        finally:
            with anyio.CancelScope(shield=True):
                await asker.close()


class _Lines:
    """A connection, as the lines that the SDK reads and writes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def __aiter__(self) -> AsyncIterator[str]:
        while line := await self._reader.readline():
            yield line.decode(errors="replace")

    async def write(self, text: str) -> None:
        self._writer.write(text.encode())

    async def flush(self) -> None:
        await self._writer.drain()
