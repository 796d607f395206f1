"""Connections: whatever is done with one, it ends, and with it all that was done for it.

The server is in this process, so that its limits can be short and what it keeps can be seen.
"""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest
import uvicorn

from holdfast import Message, NewSession
from holdfast.config import QuestionSettings, Settings
from holdfast.model.principal import LOCAL
from holdfast.server import gate, protocol
from holdfast.server.limits import RateLimit
from holdfast.server.parts import Parts, open_parts
from holdfast.server.protocol import MAX_PIPELINED
from holdfast.server.run import configured
from tests.waiting import SECONDS, until

HEALTH = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"

UNWANTED = b"POST /api/sessions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n"


class Here:
    """A server that listens, and its parts."""

    def __init__(self, parts: Parts, server: uvicorn.Server, port: int, token: str) -> None:
        self.parts = parts
        self.server = server
        self.port = port
        self.token = token

    @property
    def connections(self) -> int:
        return len(self.server.server_state.connections)

    def get(self, path: str) -> bytes:
        lines = (f"GET {path} HTTP/1.1", "Host: localhost", f"Authorization: Bearer {self.token}")
        return "\r\n".join((*lines, "", "")).encode()


@pytest.fixture
async def here(tmp_path: Path) -> AsyncIterator[Here]:
    questions = QuestionSettings(directory=tmp_path / "questions")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        async with open_parts(Settings(data_dir=tmp_path, questions=questions)) as parts:
            _, token = await parts.doorkeeper.issue(LOCAL, "test")
            server = uvicorn.Server(configured(parts, max_connections=100))
            serving = asyncio.create_task(server.serve(sockets=[listener]))
            await until(lambda: server.started)
            yield Here(parts, server, listener.getsockname()[1], token)
            server.should_exit = True
            await serving


class Caller:
    """One end of a connection, which reads and leaves only when told to."""

    def __init__(self, here: Here) -> None:
        self._socket = socket.socket()
        self._socket.setsockopt(
            socket.SOL_SOCKET, socket.SO_RCVBUF, 4096
        )  # it is sent little unless it reads
        self._socket.connect(("127.0.0.1", here.port))
        self._socket.setblocking(False)

    def __enter__(self) -> "Caller":
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    async def say(self, data: bytes) -> None:
        await asyncio.get_running_loop().sock_sendall(self._socket, data)

    async def hear(self, end: bytes) -> bytes:
        """What is said up to and with an end that is waited for."""
        said = b""
        async with asyncio.timeout(SECONDS):
            while end not in said:
                piece = await asyncio.get_running_loop().sock_recv(self._socket, 65536)
                assert piece, said
                said += piece
        return said

    async def hear_all(self) -> bytes:
        """What is said until the other end hangs up."""
        said = b""
        with suppress(ConnectionError):
            async with asyncio.timeout(SECONDS):
                while piece := await asyncio.get_running_loop().sock_recv(self._socket, 65536):
                    said += piece
        return said


async def test_a_listener_is_gone_with_its_connection_whatever_was_asked_after_it(here: Here) -> None:
    with Caller(here) as caller:
        await caller.say(here.get("/api/events") + HEALTH)
        await caller.hear(b"event: questions")
        assert here.parts.hub.listeners == 1
    await until(lambda: here.parts.hub.listeners == 0)


async def test_one_who_polls_is_gone_with_its_connection(here: Here) -> None:
    session = await here.parts.store.as_principal(LOCAL).create_session(NewSession())
    of_session = f"/api/sessions/{session.id}/events?since={session.rev}&wait=60"
    with Caller(here) as caller, Caller(here) as another:
        await caller.say(here.get("/api/events?wait=60"))
        await another.say(here.get(of_session))
        await until(lambda: here.parts.hub.listeners == 2)
    await until(lambda: here.parts.hub.listeners == 0)


@pytest.mark.parametrize("cut", [1, 2, 3])
async def test_a_head_may_come_in_pieces_wherever_it_is_cut(here: Here, cut: int) -> None:
    body = b'{"texts": ["' + b"x" * protocol.MAX_HEAD_BYTES + b'"]}'
    head = here.get("/api/markdown").replace(b"GET", b"POST").removesuffix(b"\r\n")
    head += b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
    with Caller(here) as caller:
        await caller.say(head[:-cut])
        await until(
            lambda: any(getattr(each, "_head_bytes", 0) for each in here.server.server_state.connections)
        )
        await caller.say(head[-cut:] + body)
        assert (await caller.hear(b"}")).startswith(b"HTTP/1.1 200 ")


async def test_requests_in_one_piece_are_answered_in_order_unless_there_are_too_many(here: Here) -> None:
    with Caller(here) as caller:
        await caller.say(HEALTH * MAX_PIPELINED + here.get("/api/me"))
        heard = await caller.hear(b'"organization"')
        assert heard.count(b"HTTP/1.1 200 OK") == MAX_PIPELINED + 1
    with Caller(here) as caller:
        await caller.say(HEALTH * (MAX_PIPELINED + 2))
        assert b"200 OK" not in await caller.hear_all()


async def test_the_rest_of_a_body_that_nobody_wants_is_not_waited_for(
    here: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocol, "HEAD_SECONDS", 1.0)
    with Caller(here) as caller:
        await caller.say(UNWANTED)
        assert (await caller.hear(b"}")).startswith(b"HTTP/1.1 401 ")
        await caller.say(b"x")
        assert await caller.hear_all() == b""


async def test_a_body_that_comes_drop_by_drop_has_an_end(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "WHOLE_BODY_SECONDS", 0.5)
    head = here.get("/api/markdown").replace(b"GET", b"POST").removesuffix(b"\r\n")
    head += b"Content-Type: application/json\r\nContent-Length: 1000000\r\n\r\n"
    with Caller(here) as caller:
        await caller.say(head)
        answer = asyncio.ensure_future(caller.hear(b"}"))
        while not answer.done():
            with suppress(ConnectionError):
                await caller.say(b" ")
            await asyncio.wait([answer], timeout=0.01)
        assert (await answer).startswith(b"HTTP/1.1 408 ")


def test_somebody_may_call_however_low_the_limit_is() -> None:
    assert RateLimit(0.1, burst=0.2).allows("ada")


async def test_after_a_body_that_nobody_wanted_the_connection_goes_on(here: Here) -> None:
    with Caller(here) as caller:
        await caller.say(UNWANTED)
        await caller.hear(b"}")
        await caller.say(b"x" * 1000 + HEALTH)
        assert (await caller.hear(b"}")).startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize("path", ["/events", "", "/messages?limit=1000"], ids=["events", "whole", "a page"])
async def test_one_who_takes_nothing_is_given_up(
    here: Here, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    monkeypatch.setattr(protocol, "STUCK_SECONDS", 0.1)
    view = here.parts.store.as_principal(LOCAL)
    session = await view.create_session(NewSession())
    more_than_the_kernel_keeps = [Message.user("x" * 10_000_000)]
    await view.append_messages(session.id, more_than_the_kernel_keeps)
    with Caller(here) as caller:
        await caller.say(here.get(f"/api/sessions/{session.id}{path}"))
        await caller.hear(b"HTTP/1.1 200 ")
        await until(lambda: here.connections == 0)
        await until(lambda: here.parts.hub.listeners == 0)
