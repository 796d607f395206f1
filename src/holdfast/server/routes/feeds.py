"""The change feed: server-sent events, and the same by long-polling."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Annotated, Any

from fastapi import APIRouter, Header, Request
from fastapi import Query as QueryOf
from pydantic import Field
from starlette.responses import Response

from holdfast.server import shapes
from holdfast.server.inbox import MARK_DIGITS
from holdfast.server.routes.common import (
    MAX_INT,
    CallerOf,
    PartsOf,
    Query,
    SessionPath,
    View,
    answers,
    rendered,
)
from holdfast.server.routes.route import Route
from holdfast.server.sse import MEDIA_TYPE, EventStream, while_listening
from holdfast.store.feed import RevisionAhead

router = APIRouter(tags=["changes"], route_class=Route)

MAX_WAIT_SECONDS = 60

LastEventId = Annotated[
    str,
    Header(
        alias="Last-Event-ID",
        description="Where to go on; what a browser sends by itself.",
        pattern="^[0-9]{1,18}$",
    ),
]


EVENT = {
    "type": "object",
    "properties": {
        "event": {"type": "string"},
        "id": {"type": "string"},
        "data": {"type": "string"},
        "retry": {"type": "integer"},
    },
}


class Since(Query):
    since: Annotated[int, Field(ge=0, le=MAX_INT, description="The last revision seen.")] | None = None
    wait: (
        Annotated[
            float,
            Field(ge=0, le=MAX_WAIT_SECONDS, description="Answer with JSON, after so many seconds at most."),
        ]
        | None
    ) = None


class SinceMark(Since):
    questions_mark: Annotated[str, Field(pattern=f"^[0-9a-f]{{{MARK_DIGITS}}}$")] | None = None
    """The `questionsMark` of the answer before, with `wait`: then only other question sets are news."""


def _described(
    shape: type[shapes.Changes] | type[shapes.ChangedEverything],
) -> dict[int | str, dict[str, Any]]:
    described = answers(shape, 200, 404, 409, 503)
    described[200]["content"][MEDIA_TYPE] = {"schema": EVENT}
    return described


@router.get("/api/sessions/{id}/events", responses=_described(shapes.Changes))
async def follow_session(
    session_id: SessionPath,
    wanted: Annotated[Since, QueryOf()],
    request: Request,
    parts: PartsOf,
    caller: CallerOf,
    view: View,
    last_event_id: LastEventId = "",
) -> Response:
    """What changed in a session, then each change as it is committed.

    Events are called `change`, their id is the session's revision, and their data is what `wait`
    answers with. `gone` says that there will be no more.
    """
    session = await view.get_session(session_id)
    since = _since(wanted, last_event_id) or 0
    if since > session.rev:
        raise RevisionAhead(since, session.rev)
    with ExitStack() as place:
        place.enter_context(parts.feeds.place(caller))
        if wanted.wait is not None:
            waiting = parts.feeds.wait_for_session(view, caller, session, since, wanted.wait)
            changes = await while_listening(request.receive, waiting)
            return rendered(shapes.Changes.of(changes))
        return EventStream(parts.feeds.session(view, caller, session, since), place.pop_all())


@router.get("/api/events", responses=_described(shapes.ChangedEverything))
async def follow_everything(
    wanted: Annotated[SinceMark, QueryOf()],
    request: Request,
    parts: PartsOf,
    caller: CallerOf,
    view: View,
    last_event_id: LastEventId = "",
) -> Response:
    """Which sessions changed, and which questions, of those that the caller may see.

    Events called `sessions` have a position as their id; without one to go on from, the first gives
    the position of now. Events called `questions` say which question sets came, changed or are gone;
    one with `isAll` names every set there is. The first of a connection does.
    """
    since = _since(wanted, last_event_id)
    position = await view.position()
    if since is not None and since > position:
        raise RevisionAhead(since, position)
    with ExitStack() as place:
        place.enter_context(parts.feeds.place(caller))
        if wanted.wait is not None:
            known = position if since is None else since
            waiting = parts.feeds.wait_for_everything(view, caller, known, wanted.questions_mark, wanted.wait)
            return rendered(await while_listening(request.receive, waiting))
        return EventStream(parts.feeds.listing(view, caller, since), place.pop_all())


def _since(wanted: Since, last_event_id: str) -> int | None:
    """Where to go on. A browser that comes back repeats its first address, and adds what it saw last."""
    return int(last_event_id) if last_event_id else wanted.since
