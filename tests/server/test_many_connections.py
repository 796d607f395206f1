"""More connections than a process may have: room is left for the work, and who is not let in is told."""

import asyncio
import json
import socket
from contextlib import ExitStack
from pathlib import Path

import pytest

from holdfast.client import Client, Refused, Unreachable
from holdfast.server import files
from tests.server.servers import Served
from tests.waiting import SECONDS, until

FILES = 400


class Poor(Served):
    """A server that may have few files open."""

    files = FILES


@pytest.mark.usefixtures("process")
async def test_a_flood_of_listeners_leaves_room_for_the_work(tmp_path: Path) -> None:
    served = Poor(tmp_path, HOLDFAST_SERVER_REQUESTS_PER_SECOND="10000")
    served.repository()
    served.start()
    try:
        with ExitStack() as flood:
            callers = [flood.enter_context(_listener(served)) for _ in range(FILES + FILES // 2)]
            heard = [await asyncio.to_thread(_first_word, caller) for caller in callers]
            refused = [each for each in heard if not each.startswith(b"HTTP/1.1 200 ")]
            assert len(callers) - len(refused) == files.connections_among(FILES)
            assert {_problem(each)["code"] for each in refused} == {"too_many_connections"}
            assert {_problem(each)["retriable"] for each in refused} == {True}
            for caller in callers[:10]:
                caller.close()
            async with Client(served.url, served.presence.token) as client:
                assert await until(lambda: _is_let_in(client))
                (repo,) = await client.scan_repos()
                session = await client.create_session(repo.id, agent="demo")
                await client.prompt(session.id, "say hello")

                async def is_answered() -> bool:
                    return (await client.last_turn(session.id)).status == "completed"

                await until(is_answered)
    finally:
        assert served.stop() == 0
    assert "Traceback" not in served.complaints()


def _listener(served: Served) -> socket.socket:
    host, port = served.url.removeprefix("http://").split(":")
    caller = socket.create_connection((host, int(port)))
    lines = ("GET /api/events HTTP/1.1", f"Host: {host}", f"Authorization: Bearer {served.presence.token}")
    caller.sendall("\r\n".join((*lines, "", "")).encode())
    return caller


def _first_word(caller: socket.socket) -> bytes:
    caller.settimeout(SECONDS)
    return caller.recv(65536)


def _problem(answer: bytes) -> dict[str, object]:
    problem: dict[str, object] = json.loads(answer.partition(b"\r\n\r\n")[2])
    return problem


async def _is_let_in(client: Client) -> bool:
    try:
        return (await client.me()).user == "local"
    except (Unreachable, Refused):
        return False
