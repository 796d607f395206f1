"""The index: bringing it up to date with a repository, and searching it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Header
from pydantic import BeforeValidator, Field
from starlette.responses import Response

from holdfast.errors import HoldfastError
from holdfast.retrieval import Found, Indexed, SearchFilter
from holdfast.retrieval.chunk import LIMIT
from holdfast.retrieval.retrieval import MOST
from holdfast.server.hub import HEARTBEAT, HEARTBEAT_SECONDS
from holdfast.server.problems import problem_of
from holdfast.server.routes.common import (
    JSON,
    Body,
    CallerOf,
    Label,
    PartsOf,
    Text,
    View,
    answers,
    integral,
    rendered,
)
from holdfast.server.routes.route import Route
from holdfast.server.sse import MEDIA_TYPE, EventStream, frame

router = APIRouter(prefix="/api/retrieval", tags=["retrieval"], route_class=Route)


class Search(Body):
    query: Text
    repository: Label | None = None
    workspace: Label | None = None
    language: Label | None = None
    path: Text | None = None
    limit: Annotated[int, Field(ge=1, le=MOST), BeforeValidator(integral)] = LIMIT


class Index(Body):
    path: Annotated[str, Field(pattern=r"^[^\x00]+$", max_length=4096)]
    """A directory in the workspace root, absolute or relative to it."""
    repository: Label | None = None
    """What to call it; by default as the directory of the repository is called."""


class Step(msgspec.Struct, frozen=True):
    done: int
    total: int


@router.post("/search", responses=answers(Found))
async def search(body: Search, parts: PartsOf, caller: CallerOf) -> Response:
    """The chunks of the caller's organization that are nearest to a question, with their exact text."""
    wanted = SearchFilter(
        repository=body.repository, workspace=body.workspace, language=body.language, path=body.path
    )
    found = await parts.retrieval.search(caller.principal.organization, body.query, wanted, limit=body.limit)
    return rendered(found)


def _indexing() -> dict[int | str, dict[str, Any]]:
    described = answers(Indexed, 200, 404, 409)
    described[200]["content"][MEDIA_TYPE] = {"schema": {"type": "string"}}
    return described


@router.post("/index", responses=_indexing())
async def index(
    body: Index,
    parts: PartsOf,
    caller: CallerOf,
    view: View,
    accept: Annotated[str, Header()] = JSON,
) -> Response:
    """Bring the index up to date with a directory in the workspace root.

    With `Accept: text/event-stream`, events named `progress` say how many files of how many have been
    looked at, and the last event is `indexed` or `problem`. Who stops listening stops the run.
    """
    root = await parts.supervisor.repositories.indexable(view, body.path)
    steps: asyncio.Queue[Step | None] = asyncio.Queue()

    async def run() -> Indexed:
        indexed = await parts.retrieval.index(
            caller.principal.organization,
            root,
            repository=body.repository,
            progress=lambda done, total: steps.put_nowait(Step(done, total)),
        )
        await view.audit("retrieval.index", "done", subject=str(root))
        return indexed

    if MEDIA_TYPE not in accept:
        return rendered(await run())
    running = asyncio.create_task(run())
    running.add_done_callback(lambda _: steps.put_nowait(None))
    return EventStream(_events(steps, running))


async def _events(
    steps: asyncio.Queue[Step | None], running: asyncio.Task[Indexed]
) -> AsyncGenerator[bytes, None]:
    try:
        while True:
            try:
                async with asyncio.timeout(HEARTBEAT_SECONDS):
                    step = await steps.get()
            except TimeoutError:
                yield HEARTBEAT
                continue
            if step is None:
                break
            yield frame("progress", msgspec.json.encode(step))
        try:
            yield frame("indexed", msgspec.json.encode(running.result()))
        except HoldfastError as error:
            yield frame("problem", bytes(problem_of(error).body))
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
