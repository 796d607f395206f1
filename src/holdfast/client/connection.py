"""A server over HTTP: what it answers as structs, what it streams as events, what it refuses as an error."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from typing import Any, TypeVar

import msgspec

from holdfast.errors import HoldfastError, MissingExtra
from holdfast.server import shapes

try:
    import httpx2
except ImportError:
    raise MissingExtra("The client", "client") from None

T = TypeVar("T")

SECONDS = 60.0
"""How long an answer may take, and how long a feed may be silent: four times its heartbeat."""


MODEL_SECONDS = 3600.0
"""How long an answer may take that a model has to think about."""


class Unreachable(HoldfastError):
    """The server did not answer. Whether it did what was asked is not known."""

    code = "unreachable"
    status = 503
    retriable = True


class Refused(HoldfastError):
    """The server said no, and why."""

    code = "refused"

    def __init__(self, problem: shapes.Problem) -> None:
        super().__init__(problem.detail)
        self.problem = problem


class Connection:
    def __init__(self, url: str, token: str) -> None:
        self.url = url
        self._http = httpx2.AsyncClient(
            base_url=url,
            headers={"Authorization": f"Bearer {token}"},
            timeout=SECONDS,
            verify=url.startswith("https:"),  # reading all certificates takes longer than a command
        )

    async def close(self) -> None:
        await self._http.aclose()

    async def get(self, path: str, shape: type[T], query: Mapping[str, Any] | None = None) -> T:
        return await self.call("GET", path, shape, query=query)

    async def post(
        self, path: str, shape: type[T], body: Mapping[str, Any] | None = None, *, seconds: float = SECONDS
    ) -> T:
        return await self.call("POST", path, shape, body=body, seconds=seconds)

    async def call(
        self,
        method: str,
        path: str,
        shape: type[T],
        *,
        query: Mapping[str, Any] | None = None,
        body: Mapping[str, Any] | None = None,
        seconds: float = SECONDS,
    ) -> T:
        content = await self.content(method, path, query=query, body=body, seconds=seconds)
        return msgspec.json.decode(content, type=shape)

    async def content(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: Mapping[str, Any] | None = None,
        seconds: float = SECONDS,
    ) -> bytes:
        """The bytes of an answer."""
        wanted = {name: value for name, value in (query or {}).items() if value is not None}
        try:
            response = await self._http.request(
                method, path, params=wanted, json=body, timeout=httpx2.Timeout(SECONDS, read=seconds)
            )
        except httpx2.TransportError as error:
            raise Unreachable(
                f"The server at {self.url} does not answer ({error}); is it running? `holdfast doctor` knows."
            ) from error
        if not response.is_success:
            raise _refusal(response)
        return response.content

    async def pieces(self, path: str, query: Mapping[str, Any]) -> AsyncGenerator[bytes, None]:
        """The bytes of a long answer as they come."""
        try:
            async with self._http.stream("GET", path, params=query) as response:
                if not response.is_success:
                    await response.aread()
                    raise _refusal(response)
                async for piece in response.aiter_bytes():
                    yield piece
        except httpx2.TransportError as error:
            raise self._gone(error) from error

    async def events(
        self,
        path: str,
        *,
        method: str = "GET",
        body: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> AsyncGenerator[httpx2.ServerSentEvent, None]:
        """The events of one connection, which ends as connections do."""
        wanted = {"Accept": "text/event-stream", **(headers or {})}
        try:
            async with self._http.stream(method, path, json=body, headers=wanted) as response:
                if not response.is_success:
                    await response.aread()
                    raise _refusal(response)
                async for event in httpx2.EventSource(response, max_event_size=None):
                    if event.data:
                        yield event
        except httpx2.TransportError as error:
            raise self._gone(error) from error

    def _gone(self, error: httpx2.TransportError) -> Unreachable:
        return Unreachable(f"The server at {self.url} is gone: {error}.")


def _refusal(response: httpx2.Response) -> HoldfastError:
    """Why the server said no; what may be different in a moment is as if it had not answered."""
    try:
        problem = msgspec.json.decode(response.content, type=shapes.Problem)
    except msgspec.DecodeError:
        return Unreachable(f"What answers at {response.url} is not Holdfast (status {response.status_code}).")
    if problem.status in (502, 503, 504) and problem.code in ("closing", "store_unavailable"):
        return Unreachable(problem.detail)
    return Refused(problem)
