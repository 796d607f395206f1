"""The questions of agents that Holdfast started: one socket for each session, and nothing else behind it.

An agent starts the MCP server that it is handed, inside its sandbox. What it starts is a relay: it carries
bytes between the agent and the socket. The MCP server is here, so the agent needs no file of ours, and can
ask for its own session alone.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, Self, cast

import anyio
from mcp.server.stdio import stdio_server

from holdfast.agents.process import SESSION_MARK
from holdfast.agents.sandbox import Place, read, write
from holdfast.config import QuestionSettings
from holdfast.mcp.asking import Asker
from holdfast.mcp.server import question_server
from holdfast.model.session import Session
from holdfast.questions import QuestionBox

log = logging.getLogger("holdfast.mcp")

LINE_BYTES = 16 * 1024 * 1024
"""How long a message of a client may be."""

RELAY = """
import os, socket, sys, threading
door = socket.socket(socket.AF_UNIX)
door.connect(sys.argv[1])
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


class QuestionDoor:
    """Opens the sockets. Every session has its own."""

    def __init__(self, box: QuestionBox, settings: QuestionSettings) -> None:
        self._box = box
        self._settings = settings

    async def open(self, session: Session, workspace: Path) -> OpenDoor:
        def asker() -> Asker:
            return Asker(
                self._box,
                self._settings,
                agent=session.agent,
                session_id=session.id,
                working_directory=workspace,
            )

        return await OpenDoor(session, asker).listening()


class OpenDoor:
    def __init__(self, session: Session, asker: Any) -> None:
        self._session = session
        self._asker = asker
        self._directory = Path(mkdtemp(prefix="holdfast-"))
        self._socket = self._directory / "ask"
        self._server: asyncio.Server | None = None
        self._clients: set[asyncio.Task[None]] = set()

    async def listening(self) -> Self:
        try:
            # Not serving yet, it is there at once: a caller who is cancelled meanwhile leaves no socket.
            self._server = await asyncio.start_unix_server(
                self._serve, self._socket, limit=LINE_BYTES, start_serving=False
            )
            await self._server.start_serving()
        except BaseException:
            await asyncio.shield(self.close())
            raise
        return self

    @property
    def servers(self) -> list[dict[str, Any]]:
        """What an agent is told of it when its session is opened."""
        return [
            {
                "name": "holdfast",
                "command": os.path.realpath(sys.executable),
                "args": ["-I", "-S", "-c", RELAY, str(self._socket)],
                # Some agents start it with an environment of their own choice, not with theirs.
                "env": [{"name": SESSION_MARK, "value": self._session.id}],
            }
        ]

    @property
    def places(self) -> list[Place]:
        """What the relay needs: the socket, and a Python."""
        return [write(self._directory), read(Path(os.path.realpath(sys.base_prefix)))]

    async def close(self) -> None:
        """Nobody waits any more for what this session still was to be told."""
        if self._server is not None:
            self._server.close()
        for client in self._clients:
            client.cancel()
        if self._clients:
            await asyncio.wait(self._clients)
        await asyncio.to_thread(shutil.rmtree, self._directory, ignore_errors=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        client = asyncio.current_task()
        assert client is not None
        self._clients.add(client)
        asker = self._asker()
        lines = cast("anyio.AsyncFile[str]", _Lines(reader, writer))
        server = question_server(asker)
        try:
            async with stdio_server(lines, lines) as (incoming, outgoing):
                await server.run(incoming, outgoing, server.create_initialization_options())
        except (OSError, ValueError) as error:
            log.warning("session %s: its MCP client is lost: %s", self._session.id, error)
        finally:
            with anyio.CancelScope(shield=True):
                await asker.close()
            writer.close()
            self._clients.discard(client)


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
