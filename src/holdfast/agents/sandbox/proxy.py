"""A network of named hosts: the sandbox has a network of its own, and one way out of it that we hold.

Inside, programs find an HTTP proxy on loopback. What listens there is a relay, which carries bytes to a
socket. Outside, we connect to the hosts that the agent's entry names, and to no others. Names are looked up
outside.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

from holdfast.agents.sandbox.local_socket import SOCKET, LocalSocket
from holdfast.agents.sandbox.places import Place
from holdfast.errors import InvalidInput

log = logging.getLogger("holdfast.agents")

PORT = 3128
"""On the loopback of each sandbox, where nothing else is."""

HEAD_BYTES = 64 * 1024
CONNECTIONS = 256
"""How many one sandbox has at a time."""

HEAD_SECONDS = 30.0
CONNECT_SECONDS = 30.0

RELAY = """
import os, socket, sys, threading
directory, name, port, *command = sys.argv[1:]
listener = socket.create_server(("127.0.0.1", int(port)))
if os.fork():
    listener.close()
    os.execvp(command[0], command)
os.chdir(directory)
for number in range(3):
    os.dup2(os.open(os.devnull, os.O_RDWR), number)
def carry(source, target):
    try:
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        pass
while True:
    inner, _ = listener.accept()
    try:
        outer = socket.socket(socket.AF_UNIX)
        outer.connect(name)
    except OSError:
        inner.close()
        continue
    for pair in ((inner, outer), (outer, inner)):
        threading.Thread(target=carry, args=pair, daemon=True).start()
"""
"""Begins a command: it stays beside it, and becomes it."""

ADDRESS = f"http://127.0.0.1:{PORT}"
VARIABLES: Mapping[str, str] = {
    **{
        name: ADDRESS
        for lower in ("http_proxy", "https_proxy", "all_proxy")
        for name in (lower, lower.upper())
    },
    **dict.fromkeys(("no_proxy", "NO_PROXY"), ""),
    "NODE_USE_ENV_PROXY": "1",  # without it, Node's own fetch knows of no proxy
}


class Proxy:
    """The way out of one sandbox. `hosts` are names, or names with a port; without one, 443 and 80."""

    def __init__(self, hosts: Sequence[str], sockets: Path) -> None:
        self._allowed = {each for host in hosts for each in _addresses(host)}
        self._socket = LocalSocket(sockets, self._serve, line=HEAD_BYTES, clients=CONNECTIONS)

    @classmethod
    async def open(cls, hosts: Sequence[str], sockets: Path) -> Self:
        proxy = cls(hosts, sockets)
        await proxy._socket.listening()
        return proxy

    @property
    def places(self) -> Sequence[Place]:
        return self._socket.places

    @property
    def begins(self) -> list[str]:
        """What a command begins with inside."""
        python = os.path.realpath(sys.executable)
        return [python, "-I", "-S", "-c", RELAY, str(self._socket.directory), SOCKET, str(PORT)]

    async def close(self) -> None:
        await self._socket.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self._answer(reader, writer)
        except (
            OSError,
            ValueError,
            TimeoutError,
            asyncio.IncompleteReadError,
            asyncio.LimitOverrunError,
        ) as error:
            log.info("a connection of a sandbox ended: %s", error)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with asyncio.timeout(HEAD_SECONDS):
            head = await reader.readuntil(b"\r\n\r\n")
        line, _, rest = head.partition(b"\r\n")
        method, target, version = line.decode("ascii").split(" ")
        is_tunnel = method == "CONNECT"
        url = urlsplit(f"//{target}" if is_tunnel else target)
        host, port = (url.hostname or "").rstrip("."), url.port or 80
        if (host, port) not in self._allowed:
            log.warning("a sandbox may not connect to %s:%d", host, port)
            writer.write(_refusal(host, port))
            await writer.drain()
            return
        async with asyncio.timeout(CONNECT_SECONDS):
            remote, sending = await asyncio.open_connection(host, port)
        try:
            if is_tunnel:
                writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            else:
                path = url._replace(scheme="", netloc="").geturl() or "/"
                sending.write(f"{method} {path} {version}\r\nConnection: close\r\n".encode() + rest)
            await asyncio.gather(_carry(reader, sending), _carry(remote, writer))
        finally:
            sending.close()


async def _carry(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    while data := await source.read(HEAD_BYTES):
        target.write(data)
        await target.drain()
    with suppress(OSError):
        target.write_eof()


def _addresses(host: str) -> list[tuple[str, int]]:
    """The names and ports that an entry stands for: `example.org`, `example.org:8080`, `[::1]:8080`."""
    try:
        address = urlsplit(f"//{host}")
        ports = (443, 80) if address.port is None else (address.port,)
    except ValueError:
        raise InvalidInput(f"`network` of an agent names {host!r}, which is no host with a port.") from None
    return [(address.hostname or "", port) for port in ports]


def _refusal(host: str, port: int) -> bytes:
    said = f"This agent may not connect to {host}:{port}; its entry names the hosts that it may.\n".encode()
    head = f"HTTP/1.1 403 Forbidden\r\nContent-Length: {len(said)}\r\nConnection: close\r\n\r\n"
    return head.encode() + said
