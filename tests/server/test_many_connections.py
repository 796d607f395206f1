"""More connections than a process may have: room is left for the work, and who is not let in is told."""

import asyncio
import json
import socket
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import pytest

from holdfast.client import Client, Refused, Unreachable
from holdfast.server import files
from tests.server.servers import Served, owner_of
from tests.waiting import SECONDS, until

FILES = 400


class Poor(Served):
    """A server that may have few files open."""

    files = FILES


@pytest.mark.req("SEC-19")
@pytest.mark.usefixtures("process")
async def test_a_flood_of_listeners_leaves_room_for_others_and_for_the_work(tmp_path: Path) -> None:
    served = Poor(tmp_path, HOLDFAST_SERVER_REQUESTS_PER_SECOND="10000")
    served.repository()
    served.start()
    try:
        owner = owner_of(served)
        tokens = [(await owner.post("/api/tokens", {"user": name})).json()["secret"] for name in "abc"]
        places = files.connections_among(FILES) // 2
        with ExitStack() as flood:
            codes = await _flood(flood, served, tokens[0], places + 10)
            assert codes == {"": places, "too_many_listeners": 10}
            assert (await owner.get("/api/me")).status_code == 200

            codes = await _flood(flood, served, tokens[1], places)
            codes += await _flood(flood, served, tokens[2], FILES)
            assert codes["too_many_connections"] > 0
        with ExitStack() as flood:
            await _flood(flood, served, tokens[0], places)
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


async def _flood(opened: ExitStack, served: Served, token: str, listeners: int) -> Counter[str]:
    """What so many more listeners of one user are told: the code of a problem, or nothing when they hear."""
    callers = [opened.enter_context(_listener(served, token)) for _ in range(listeners)]
    codes: Counter[str] = Counter()
    for caller in callers:
        heard = await asyncio.to_thread(_first_word, caller)
        if heard.startswith(b"HTTP/1.1 200 "):
            codes[""] += 1
            continue
        refused = json.loads(heard.partition(b"\r\n\r\n")[2])
        assert refused["retriable"]
        codes[refused["code"]] += 1
    return codes


def _listener(served: Served, token: str) -> socket.socket:
    host, port = served.url.removeprefix("http://").split(":")
    caller = socket.create_connection((host, int(port)))
    lines = ("GET /api/events HTTP/1.1", f"Host: {host}", f"Authorization: Bearer {token}")
    caller.sendall("\r\n".join((*lines, "", "")).encode())
    return caller


def _first_word(caller: socket.socket) -> bytes:
    caller.settimeout(SECONDS)
    heard = caller.recv(65536)
    while not heard.startswith(b"HTTP/1.1 200 ") and not heard.endswith(b"}"):  # the rest of a problem
        heard += caller.recv(65536)
    return heard


async def _is_let_in(client: Client) -> bool:
    try:
        return (await client.me()).user == "local"
    except (Unreachable, Refused):
        return False
