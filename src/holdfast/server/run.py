"""Running the server: from the settings to a listening port, and down again within ten seconds."""

from __future__ import annotations

import asyncio
import errno
import gc
import ipaddress
import logging
import os
import signal
import socket
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager, suppress

import msgspec
import uvicorn

from holdfast.config import Settings
from holdfast.errors import HoldfastError, InvalidInput
from holdfast.execution.journal import recover
from holdfast.model.principal import LOCAL
from holdfast.server.app import create_app
from holdfast.server.doorkeeper import Doorkeeper, Unauthenticated
from holdfast.server.files import connections_among, raise_limit
from holdfast.server.parts import Parts, open_parts
from holdfast.server.presence import Presence, only_server, store_name
from holdfast.server.protocol import bounded

log = logging.getLogger("holdfast.server")

GRACE_SECONDS = 7
"""How long answers that are under way may take when the server stops: longer than models are waited for."""

TAKEN_AT_ONCE, WAITING = 32, 1024
"""How many connections are taken before the first of them is looked at, and how many may wait meanwhile."""


class AddressInUse(HoldfastError):
    code = "address_in_use"


class Started(msgspec.Struct, frozen=True):
    """What a person wants to know when the server is up."""

    url: str
    sign_in: str | None
    """An address that opens the page signed in, once; none when nobody has to sign in."""
    parts: Parts


Announce = Callable[[Started], Awaitable[None]]


async def serve(settings: Settings, *, auth: bool = True, announce: Announce) -> None:
    """Serve until the process is told to stop. `announce` is called when requests are answered."""
    if not auth and not _is_loopback(settings.server.host):
        raise InvalidInput(
            "Without authentication the server listens on loopback only, since anybody who reaches the port "
            "acts as you. Leave --no-auth out, or --host."
        )
    with (
        only_server(settings.data_dir),
        _listening(settings.server.host, settings.server.port) as listener,
    ):
        url = _url(settings.server.host, listener.getsockname()[1])
        for recovered in await asyncio.to_thread(recover, settings.journals):
            log.warning("%s", recovered)
        max_connections = connections_among(raise_limit())
        async with open_parts(settings, auth=auth, connections=max_connections) as parts:
            token = await _own_token(settings, parts.doorkeeper)
            Presence(url, os.getpid(), token, store_name(settings.store_url)).write(settings.data_dir)
            reached = settings.server.public_url or url
            sign_in = None
            if auth:
                owner = await parts.doorkeeper.admit(token, None)
                sign_in = f"{reached}/sign-in?code={await parts.doorkeeper.sign_in_code_of(owner)}"
            server = _Server(
                configured(parts, max_connections), parts, lambda: announce(Started(url, sign_in, parts))
            )
            await server.serve(sockets=[listener])


def configured(parts: Parts, max_connections: int) -> uvicorn.Config:
    return uvicorn.Config(
        create_app(parts),
        http=bounded(max_connections),
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=GRACE_SECONDS,
        timeout_keep_alive=30,
        backlog=TAKEN_AT_ONCE,
    )


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, parts: Parts, started: Callable[[], Awaitable[None]]) -> None:
        super().__init__(config)
        self._parts = parts
        self._tell = started

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for each in sockets or ():
            each.listen(WAITING)
        if self.started:
            _look_for_garbage()
            await self._tell()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End the feeds, which never would by themselves; then agents, turns and answers end side by side."""
        await self._parts.hub.close()
        await asyncio.gather(
            super().shutdown(sockets), self._parts.supervisor.close(), self._parts.orchestrator.close()
        )

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Stop when told to, and end normally: uvicorn would raise the signal once more."""
        loop = asyncio.get_running_loop()
        for sig in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(sig, self.handle_exit, sig, None)
        try:
            yield
        finally:
            for sig in (signal.SIGINT, signal.SIGTERM):
                loop.remove_signal_handler(sig)


def _look_for_garbage() -> None:
    """From now on, and not among what is there now.

    Everything stands still while Python looks for garbage. All that was loaded would be looked through again
    and again, for more than a tenth of a second each time, and none of it ever goes.
    """
    gc.collect()
    gc.freeze()
    gc.enable()


async def _own_token(settings: Settings, doorkeeper: Doorkeeper) -> str:
    """The token of the person who starts the server: the one of the last time, as long as it is good."""
    earlier = Presence.read(settings.data_dir)
    if earlier is not None:
        with suppress(Unauthenticated):
            if (await doorkeeper.admit(earlier.token, None)).principal == LOCAL:
                return earlier.token
    _, secret = await doorkeeper.issue(LOCAL, "server.json")
    return secret


def _listening(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Named, or asyncio would not take it for TCP: the end of an answer would wait for its begin's receipt.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.setblocking(False)
    except OSError as error:
        listener.close()
        remedy = "HOLDFAST_SERVER_PORT or --port" if error.errno == errno.EADDRINUSE else "--host"
        raise AddressInUse(
            f"Cannot listen on {host}:{port}: {error.strerror}. Give another one with {remedy}."
        ) from None
    return listener


def _url(host: str, port: int) -> str:
    shown = "127.0.0.1" if host in ("0.0.0.0", "::", "") else host
    return f"http://[{shown}]:{port}" if ":" in shown else f"http://{shown}:{port}"


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
