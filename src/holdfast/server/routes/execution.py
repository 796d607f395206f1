"""Instructions to models: one route for every kind of client, and the turns read, replayed, run again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Annotated, Any, Literal

import msgspec
from fastapi import APIRouter, Header
from fastapi import Query as QueryOf
from pydantic import AfterValidator, Field
from starlette.responses import Response

from holdfast.errors import HoldfastError
from holdfast.execution.answer import ExecuteResponse
from holdfast.execution.events import ExecutionEvent, TextAdded
from holdfast.execution.input import MAX_FILES, ActiveFile, normalized
from holdfast.execution.reading import SummaryPage, summaries
from holdfast.execution.replay import Replay, replay
from holdfast.model.ids import SessionId, TurnId
from holdfast.model.path import MAX_PATH, MAX_STEP, relative_path
from holdfast.server import shapes
from holdfast.server.hub import HEARTBEAT, HEARTBEAT_SECONDS
from holdfast.server.problems import problem_of
from holdfast.server.routes.common import (
    COUNTING,
    JSON,
    UUID,
    Body,
    Label,
    PartsOf,
    Query,
    SessionPath,
    Text,
    TurnPath,
    View,
    answers,
    not_upwards,
    rendered,
)
from holdfast.server.routes.route import Route
from holdfast.server.sse import MEDIA_TYPE as EVENTS
from holdfast.server.sse import EventStream, frame
from holdfast.store.options import SessionFilter

router = APIRouter(prefix="/api", tags=["execution"], route_class=Route)

LINES = "application/x-ndjson"

LAST_INDEX = 99999
"""The index of the last line of a stream of lines, by which clients know it."""


def _file_path(path: str) -> str:
    return relative_path(not_upwards(path))


_REST = rf"[^/\\\x00-\x1f\x7f]{{0,{MAX_STEP - 3}}}"
_NAME = rf"[^/\\.\x00-\x1f\x7f]{_REST}"
_FIRST = rf"([A-Za-z]([^:/\\\x00-\x1f\x7f]{_REST})?|[^A-Za-z/\\.\x00-\x1f\x7f]{_REST}|\.{{1,2}}{_NAME})"
"""The first step of a path: `C:` would be a drive."""

Instruction = Annotated[str, Field(pattern=r"^\s*[^\s\x00][^\x00]*$", examples=["What is this about?"])]
FilePath = Annotated[
    str,
    AfterValidator(_file_path),
    # Only described: what a client is told should be a sentence.
    Field(json_schema_extra={"pattern": rf"^{_FIRST}(/\.{{0,2}}{_NAME})*$", "maxLength": MAX_PATH}),
]


class File(Body):
    path: FilePath
    content: Text | None = None
    is_touched: bool = False


class Execute(Body):
    client_type: Literal["browser", "cli", "thick"] = "browser"
    instruction: Instruction
    agent_context_id: Label | None = None
    conversation_context_id: Label | None = None
    session_id: Annotated[str, Field(pattern=UUID)] | None = None
    mode: Literal["ask", "edit"] = "ask"
    workspace_id: Label | None = None
    repo: Label | None = None
    language: Label | None = None
    active_files: Annotated[list[File], Field(default_factory=list, max_length=MAX_FILES)]


class Rerun(Body):
    instruction: Instruction | None = None
    active_files: Annotated[list[File], Field(max_length=MAX_FILES)] | None = None


class SummaryListing(Query):
    user_id: Label | None = None
    """Sessions that this user owns or took part in."""
    limit: Annotated[int, Field(ge=1, le=1000)] = 20
    offset: Annotated[int, Field(**COUNTING)] = 0


def _streams() -> dict[int | str, dict[str, Any]]:
    described = answers(ExecuteResponse, 200, 404, 409, 503)
    for kind in (EVENTS, LINES):
        described[200]["content"][kind] = {"schema": {"type": "string"}}
    return described


@router.post("/ai/agent/execute", responses=_streams())
async def execute(
    body: Execute,
    parts: PartsOf,
    view: View,
    accept: Annotated[str, Header()] = JSON,
    key: Annotated[str | None, Header(alias="Idempotency-Key", min_length=1, max_length=512)] = None,
) -> Response:
    """Give a model an instruction, and the answer when it is there.

    A turn that was opened and failed is answered with `kind` `error`. With `Accept:
    text/event-stream` the stages and the text come as events, and the answer is the last of them;
    with `application/x-ndjson` the text comes in lines.
    """
    asked = normalized(body.model_dump(by_alias=True, exclude_none=True))
    if EVENTS not in accept and LINES not in accept:
        return rendered(await parts.orchestrator.execute(view, asked, key=key))
    told: asyncio.Queue[ExecutionEvent | None] = asyncio.Queue()
    running = (await parts.orchestrator.start(view, asked, key=key, tell=told.put_nowait)).answer
    running.add_done_callback(lambda _: told.put_nowait(None))
    if EVENTS in accept:
        return EventStream(_events(told, running))
    stream = EventStream(_lines(told, running))
    stream.headers["content-type"] = LINES
    return stream


@router.get("/ai/agent/sessions", responses=answers(SummaryPage))
async def list_summaries(
    wanted: Annotated[SummaryListing, QueryOf()], parts: PartsOf, view: View
) -> Response:
    """Sessions in a line each: contexts by name, and how the last turn went."""
    contexts = await parts.orchestrator.contexts.of(view)
    listing = SessionFilter(participant=wanted.user_id, limit=wanted.limit, offset=wanted.offset)
    return rendered(await summaries(view, contexts, listing))


@router.get("/contexts", responses=answers(shapes.Contexts))
async def list_contexts(parts: PartsOf, view: View) -> Response:
    """Who can answer an instruction, and what the work can be about."""
    return rendered(shapes.Contexts.of(await parts.orchestrator.contexts.of(view)))


@router.post("/sessions/{id}/turns/{turnId}/rerun", responses=answers(ExecuteResponse, 200, 404, 409, 503))
async def rerun_turn(
    session_id: SessionPath, turn_id: TurnPath, body: Rerun, parts: PartsOf, view: View
) -> Response:
    """A new turn with the instruction of an earlier one, which stays as it was."""
    files = None if body.active_files is None else tuple(map(_file, body.active_files))
    answer = await parts.orchestrator.rerun(
        view, SessionId(session_id), TurnId(turn_id), instruction=body.instruction, active_files=files
    )
    return rendered(answer)


@router.get("/sessions/{id}/turns/{turnId}/replay", responses=answers(Replay, 200, 404))
async def replay_turn(session_id: SessionPath, turn_id: TurnPath, parts: PartsOf, view: View) -> Response:
    """Make a turn's request again from what it refers to, and say whether it is the one that was sent."""
    return rendered(await replay(view, parts.blobs, SessionId(session_id), TurnId(turn_id)))


def _file(file: File) -> ActiveFile:
    return ActiveFile(path=file.path, content=file.content, is_touched=file.is_touched)


async def _events(
    told: asyncio.Queue[ExecutionEvent | None], running: asyncio.Task[ExecuteResponse]
) -> AsyncGenerator[bytes, None]:
    while True:
        try:
            async with asyncio.timeout(HEARTBEAT_SECONDS):
                event = await told.get()
        except TimeoutError:
            yield HEARTBEAT
            continue
        if event is None:
            break
        name = "delta" if isinstance(event, TextAdded) else "stage"
        yield frame(name, msgspec.json.encode(event))
    yield frame(*_outcome(running))


async def _lines(
    told: asyncio.Queue[ExecutionEvent | None], running: asyncio.Task[ExecuteResponse]
) -> AsyncGenerator[bytes, None]:
    index = 0
    while (event := await told.get()) is not None:
        if isinstance(event, TextAdded):
            yield msgspec.json.encode({"kind": "partial", "deltaText": event.text, "index": index}) + b"\n"
            index += 1
    _, final = _outcome(running)
    last = {"kind": "final", "final": msgspec.Raw(final), "index": LAST_INDEX}
    yield msgspec.json.encode(last) + b"\n"


def _outcome(running: asyncio.Task[ExecuteResponse]) -> tuple[str, bytes]:
    """What a stream ends with: the answer, or why nobody knows how the turn went."""
    try:
        return "answer", msgspec.json.encode(running.result())
    except HoldfastError as error:
        return "problem", bytes(problem_of(error).body)
