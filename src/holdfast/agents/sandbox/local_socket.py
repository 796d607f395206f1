"""A socket of one session, which its sandbox has a way to, and nothing else behind it."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Self

from holdfast.agents.sandbox.places import Place, read, write
from holdfast.agents.sandbox.temporary import TemporaryPlace

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

SOCKET = "socket"
"""Its name in its directory."""


class LocalSocket:
    """It lies in a directory of its own, which goes with it, or with the next start of a server."""

    def __init__(self, directory: Path, serve: Serve, *, line: int, clients: int) -> None:
        """At most so many `clients` are served at a time, each by `serve`; a line of theirs has a limit."""
        self._place = TemporaryPlace(directory)
        self._serve = serve
        self._line = line
        self._clients = clients
        self._serving: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    async def listening(self) -> Self:
        try:
            # Not serving yet, it is there at once: a caller who is cancelled meanwhile leaves no socket.
            self._server = await asyncio.start_unix_server(
                self._accepted, sock=_bound(self._place.path), limit=self._line, start_serving=False
            )
            await self._server.start_serving()
        except BaseException:
            await asyncio.shield(self.close())
            raise
        return self

    @property
    def directory(self) -> Path:
        """Where it is. A relay goes there first: the name of a socket may have a hundred characters."""
        return self._place.path

    @property
    def places(self) -> Sequence[Place]:
        """What a relay needs: the socket, and a Python."""
        return [write(self._place.path), read(Path(os.path.realpath(sys.base_prefix)))]

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        for serving in self._serving:
            serving.cancel()
        if self._serving:
            await asyncio.wait(self._serving)
        await asyncio.to_thread(self._place.remove)

    def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._serving) >= self._clients:
            writer.close()
            return
        serving = asyncio.get_running_loop().create_task(self._served(reader, writer))
        self._serving.add(serving)
        serving.add_done_callback(self._serving.discard)

    async def _served(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self._serve(reader, writer)
        finally:
            writer.close()


def _bound(directory: Path) -> socket.socket:
    """A socket in a directory, however long its path is."""
    bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    here = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        through = Path(f"/proc/self/fd/{here}")
        bound.bind(os.fspath((through if through.exists() else directory) / SOCKET))
    except BaseException:
        bound.close()
        raise
    finally:
        os.close(here)
    return bound
