"""The ASGI application: the gate, the routes, the page, and the document that describes them."""

from __future__ import annotations

import time
from collections.abc import Iterable, MutableMapping
from pathlib import Path
from random import getrandbits
from typing import Any
from urllib.parse import urlsplit

import msgspec
from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from starlette.middleware.gzip import GZipMiddleware
from starlette.responses import FileResponse, Response
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

import holdfast
from holdfast.server import problems, shapes
from holdfast.server.gate import Gate, hostname
from holdfast.server.limits import RateLimit
from holdfast.server.parts import Parts
from holdfast.server.routes import (
    admin,
    blobs,
    compactions,
    execution,
    feeds,
    operations,
    questions,
    reading,
    repos,
    retrieval,
    sessions,
)
from holdfast.server.routes.common import problem_answer
from holdfast.telemetry import bound

WEB = Path(__file__).parent / "web"

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")


def create_app(parts: Parts) -> ASGIApp:
    api = FastAPI(
        title="Holdfast",
        version=holdfast.__version__,
        description="Durable sessions for AI agents.",
        openapi_url="/api/openapi.json",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        telemetry={
            "metrics": False,  # ours are in /metrics
            "logs": False,  # ours go to standard error
            "operation_spans": False,
            "exclude": _is_untraced,
        },
    )
    api.state.parts = parts
    problems.add_handlers(api)
    serving = (sessions, execution, compactions, feeds, questions, repos, retrieval, reading, blobs, admin)
    for module in (*serving, operations):
        # Not `include_router`, which looks for the route in a tree of routers, twice for each request.
        api.router.routes.extend(module.router.routes)
    api.add_route("/", _page, include_in_schema=False)
    api.mount("/assets", GZipMiddleware(StaticFiles(directory=WEB / "assets")))
    api.openapi = lambda: _described(api)  # type: ignore[method-assign]
    settings = parts.settings.server
    per_second = settings.requests_per_second
    gate = Gate(
        api,
        store=parts.store,
        doorkeeper=parts.doorkeeper,
        hosts=[*LOOPBACK, *_names(settings.host), *settings.hosts, *_public_name(settings.public_url)],
        public_url=settings.public_url,
        requests=RateLimit(per_second, burst=2 * per_second),
        max_body=settings.max_body_bytes,
    )
    return _Observed(gate, parts)


class _Observed:
    """Counts and times every answer, and gives each request an id that its log lines carry."""

    def __init__(self, app: ASGIApp, parts: Parts) -> None:
        self._app = app
        self._metrics = parts.metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()
        status = 500

        async def noting(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            with bound(request=f"{getrandbits(48):012x}", **_names_in(scope["path"])):
                await self._app(scope, receive, noting)
        finally:
            route = getattr(scope.get("route"), "path", "other")
            self._metrics.requests.labels(scope["method"], route, status).inc()
            self._metrics.seconds.labels(route).observe(time.perf_counter() - began)


async def _page(request: Any) -> Response:
    return FileResponse(WEB / "index.html")


def _described(api: FastAPI) -> dict[str, Any]:
    """The OpenAPI document, with our shapes and with what the gate answers."""
    if api.openapi_schema is None:
        document = get_openapi(
            title=api.title, version=api.version, description=api.description, routes=api.routes
        )
        _, components = msgspec.json.schema_components(
            shapes.PUBLISHED, ref_template="#/components/schemas/{name}"
        )
        schemas = document.setdefault("components", {}).setdefault("schemas", {})
        assert not schemas.keys() & components.keys(), "two shapes of one name: each would stand for both"
        schemas.update(components)
        for name in ("HTTPValidationError", "ValidationError"):
            schemas.pop(name, None)
        document["components"]["securitySchemes"] = {
            "token": {"type": "http", "scheme": "bearer"},
            "cookie": {"type": "apiKey", "in": "cookie", "name": api.state.parts.doorkeeper.cookie},
        }
        document["security"] = [{"token": []}, {"cookie": []}]
        for operation in _operations(document):
            operation["responses"].pop("422", None)
            if "requestBody" in operation:
                for status in ("408", "413", "415"):
                    operation["responses"][status] = problem_answer()
        api.openapi_schema = document
    return api.openapi_schema


def _operations(document: dict[str, Any]) -> Iterable[dict[str, Any]]:
    return (operation for path in document["paths"].values() for operation in path.values())


def _is_untraced(scope: MutableMapping[str, Any]) -> bool:
    """A span shows the query, in which the sign-in link has its secret; and one who listens does nothing."""
    path: str = scope["path"]
    return path == "/sign-in" or path.endswith("/events")


def _names(host: str) -> list[str]:
    """What a server that listens on `host` is called: nothing, where that means every address."""
    return [] if host in ("0.0.0.0", "::", "") else [f"[{host}]" if ":" in host else host]


def _public_name(url: str | None) -> list[str]:
    return [hostname(urlsplit(url).netloc)] if url else []


def _names_in(path: str) -> dict[str, str]:
    """The session and turn that a path is about."""
    steps = path.split("/")
    named = {}
    if steps[:3] == ["", "api", "sessions"] and len(steps) > 3:
        named["session"] = steps[3][:36]
        if len(steps) > 5 and steps[4] == "turns":
            named["turn"] = steps[5][:36]
    return named
