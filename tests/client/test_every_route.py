"""Every route of the server is a method of the client, and each method calls a route that there is."""

import inspect
import re
from collections.abc import AsyncIterator, Awaitable
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import pytest

from holdfast.client import Client, Refused
from holdfast.store.ids import new_id
from tests.server.servers import Served

NOT_FOR_PROGRAMS = {
    ("GET", "/sign-in"): "the browser's way in",
    ("POST", "/api/sign-out"): "takes the browser's cookie away",
    ("GET", "/healthz"): "for whoever keeps the server running",
    ("GET", "/metrics"): "for Prometheus",
}

GIVEN: dict[str, Any] = {
    "answers": [],
    "changes": {"title": "new"},
    "request": {"instruction": "Say hello."},
    "texts": ["*hello*"],
    "value": True,
}
"""What methods are called with; everything else that they ask for is an id."""


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    served = Served(tmp_path)
    served.start()
    yield served
    assert served.stop() == 0


@pytest.mark.usefixtures("process")
async def test_every_route_is_a_method(served: Served) -> None:
    async with Client(served.url, served.presence.token) as client:
        called: set[tuple[str, str]] = set()

        async def note(request: httpx2.Request) -> None:
            called.add((request.method, request.url.path))

        client._server._http.event_hooks = {"request": [note]}
        for name, method in inspect.getmembers(client, inspect.ismethod):
            if not name.startswith("_") and name not in ("find", "close"):
                await _called(method)
        document = msgspec.json.decode(await client._server.content("GET", "/api/openapi.json"))
    routes = {
        (method.upper(), path)
        for path, methods in document["paths"].items()
        for method in methods
        if (method.upper(), path) not in NOT_FOR_PROGRAMS
    }
    assert {route for route in routes if not any(_is_of(call, route) for call in called)} == set()
    assert {call for call in called if not any(_is_of(call, route) for route in routes)} == {
        ("GET", "/api/openapi.json")
    }


async def _called(method: Any) -> None:
    """Call it with something of the right form; the server may well say no to it."""
    asked = inspect.signature(method).parameters.values()
    given = {
        each.name: GIVEN.get(each.name, new_id())
        for each in asked
        if each.default is inspect.Parameter.empty and each.kind is not inspect.Parameter.VAR_KEYWORD
    }
    for each in asked:
        if each.kind is inspect.Parameter.VAR_KEYWORD:
            given |= GIVEN[each.name]
    try:
        answer = method(**given)
        await (answer if isinstance(answer, Awaitable) else anext(answer))
    except Refused:
        pass


def _is_of(call: tuple[str, str], route: tuple[str, str]) -> bool:
    pattern = re.sub(r"\{\w+\}", "[^/]+", route[1])
    return call[0] == route[0] and re.fullmatch(pattern, call[1]) is not None
