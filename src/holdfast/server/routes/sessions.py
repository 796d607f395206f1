"""Sessions, their messages and their turns."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec
from fastapi import APIRouter
from fastapi import Query as QueryOf
from pydantic import Field
from starlette.responses import Response, StreamingResponse

from holdfast.agents.supervisor import Supervisor
from holdfast.errors import InvalidInput, NotFound
from holdfast.execution.orchestrator import Orchestrator
from holdfast.model.ids import RepoId, SessionId, TurnId
from holdfast.model.records import Repo
from holdfast.model.session import Session, SessionPatch
from holdfast.model.status import SessionStatus, require_transition
from holdfast.server import shapes
from holdfast.server.parts import Parts
from holdfast.server.routes.common import (
    COUNTING,
    JSON,
    UUID,
    Body,
    Label,
    Moment,
    PartsOf,
    Query,
    SessionPath,
    Text,
    TurnPath,
    View,
    answers,
    one_or_more,
    rendered,
)
from holdfast.server.routes.route import Route
from holdfast.store.options import CURSOR, HistoryOptions, SessionFilter, SessionOrder
from holdfast.store.store import Store
from holdfast.telemetry import identified

router = APIRouter(prefix="/api/sessions", tags=["sessions"], route_class=Route)

MAX_PAGE = 1000
LATEST = 50
"""Messages that come with a session of which only the latest were asked for."""


Title = Annotated[Text, Field(max_length=1000)]


def _optional(schema: dict[str, Any]) -> None:
    """A field that may be left out, and then says nothing, whatever its default in Python."""
    schema.pop("default", None)


class NewSession(Body):
    repo_id: Annotated[str, Field(pattern=UUID)]
    agent: Label | None = None
    title: Title | None = None


class Listing(Query):
    repo_id: Annotated[str, Field(pattern=UUID)] | None = None
    status: (
        Annotated[
            str,
            Field(description="One status, or several with commas.", pattern=one_or_more(SessionStatus)),
        ]
        | None
    ) = None
    agent: Label | None = None
    q: Annotated[Label, Field(description="Some of the title, or words of one message.")] | None = None
    order: Literal["created", "updated"] = "created"
    limit: Annotated[int, Field(ge=1, le=MAX_PAGE)] = 20
    offset: Annotated[int, Field(**COUNTING)] = 0
    before: Annotated[str, Field(description="The `next` of the page before.", pattern=CURSOR)] | None = None


class Details(Query):
    messages: Literal["all", "latest", "none"] = "all"


class SessionChanges(Body):
    title: Title | None = None
    description: Text | None = None
    category: Text | None = None
    status: Literal["archived", "completed"] = Field("archived", json_schema_extra=_optional)
    is_public: bool = Field(False, json_schema_extra=_optional)
    is_draft: bool = Field(False, json_schema_extra=_optional)
    custom: dict[str, Any] = Field(default_factory=dict)
    """Merged by RFC 7396: a null removes a key."""
    metadata: dict[str, Any] = Field(default_factory=dict)
    """Merged into `custom.metadata`."""


class Prompt(Body):
    text: Annotated[str, Field(pattern=r"^[^\x00]*[^\s\x00][^\x00]*$", description="Not only blanks.")]


class Mode(Body):
    mode: Annotated[Label, Field(examples=["plan"])]


class Model(Body):
    model: Annotated[Label, Field(examples=["obedient-mini"])]


class Config(Body):
    config_id: Label
    value: str | bool | int | float


class History(Query):
    since: Annotated[Moment, Field(description="Only messages later than this.")] | None = None
    after: Annotated[int, Field(description="Only messages after this `seq`.", **COUNTING)] | None = None
    before: Annotated[int, Field(description="The latest before this `seq`.", **COUNTING)] | None = None
    limit: Annotated[int, Field(ge=1, le=MAX_PAGE)] = 100


class TurnListing(Query):
    after: Annotated[int, Field(description="Only turns after this number.", **COUNTING)] = 0
    limit: Annotated[int, Field(ge=1, le=MAX_PAGE)] = 100


class Removal(Query):
    purge: bool = False
    """Delete the session and everything in it."""


@router.post("", status_code=201, responses=answers(shapes.Session, 201, 404, 409, 502, 503, 504))
async def create_session(new: NewSession, parts: PartsOf, view: View) -> Response:
    """Start an agent in a repository, and open a session with it."""
    session = await parts.supervisor.create(view, RepoId(new.repo_id), agent=new.agent, title=new.title)
    await view.audit("session.create", "done", subject=session.id)
    identified(session=session.id)
    shape = shapes.Session.of(session, await _repo(view, session))
    return rendered(shape, 201, {"Location": f"/api/sessions/{session.id}"})


@router.get("", responses=answers(shapes.SessionPage, 200, 404))
async def list_sessions(wanted: Annotated[Listing, QueryOf()], view: View) -> Response:
    """Sessions, newest first, without their messages. A further page goes on in the order of the first."""
    page = await view.list(
        SessionFilter(
            repo_id=RepoId(wanted.repo_id) if wanted.repo_id else None,
            status=set(wanted.status.split(",")) if wanted.status is not None else None,
            agent_id=wanted.agent,
            text=wanted.q,
            order=SessionOrder(wanted.before.partition("-")[0] if wanted.before else wanted.order),
            limit=wanted.limit,
            offset=wanted.offset,
            before=wanted.before,
        )
    )
    return rendered(shapes.SessionPage.of(page))


@router.get("/{id}", responses=answers(shapes.Session, 200, 404))
async def get_session(
    session_id: SessionPath, details: Annotated[Details, QueryOf()], view: View
) -> Response:
    """A session with its repository and its messages, oldest first."""
    session = await view.get_session(session_id)
    head = msgspec.json.encode(shapes.Session.of(session, await _repo(view, session)))
    if details.messages == "none":
        return Response(head, media_type=JSON)
    if details.messages == "latest":
        page = await view.history_page_json(session.id, HistoryOptions(limit=LATEST))
        return Response(head[:-1] + b',"messages":[' + page.text + b"]}", media_type=JSON)
    return StreamingResponse(_whole(head, view.history_json(session.id)), media_type=JSON)


@router.get("/{id}/messages", responses=answers(shapes.MessagePage, 200, 404))
async def list_messages(
    session_id: SessionPath, wanted: Annotated[History, QueryOf()], view: View
) -> Response:
    """Messages in order, from the first one on, or backwards from `before`."""
    forwards = wanted.before is None
    page = await view.history_page_json(
        session_id,
        HistoryOptions(
            limit=wanted.limit,
            after=wanted.after or 0 if forwards else wanted.after,
            before=wanted.before,
            since=_moment(wanted.since),
        ),
    )
    following = page.newer if forwards else page.older
    end = b"null" if following is None else str(following).encode()
    return Response(b'{"messages":[' + page.text + b'],"next":' + end + b"}", media_type=JSON)


@router.patch("/{id}", responses=answers(shapes.Session, 200, 404, 409))
async def patch_session(
    session_id: SessionPath, patch: SessionChanges, parts: PartsOf, view: View
) -> Response:
    """Change a session. What is left out stays as it is; null clears a text."""
    given = {name: getattr(patch, name) for name in patch.model_fields_set - {"status", "custom", "metadata"}}
    custom = patch.custom | ({"metadata": patch.metadata} if patch.metadata else {})
    session = await view.get_session(session_id, writing=True)
    if "status" in patch.model_fields_set:  # all of it is done, or nothing
        require_transition(session.status, SessionStatus(patch.status), archived_from=session.archived_from)
    session = await view.patch(session_id, SessionPatch(**given, custom=custom))
    await view.audit(
        "session.change",
        "done",
        subject=session.id,
        detail={"fields": sorted(patch.model_dump(by_alias=True, exclude_unset=True))},
    )
    if "status" in patch.model_fields_set:
        session = await _end(parts, view, session.id, SessionStatus(patch.status))
    return rendered(shapes.Session.of(session, await _repo(view, session)))


@router.delete("/{id}", responses=answers(shapes.Session, 200, 404, 409))
async def delete_session(
    session_id: SessionPath, removal: Annotated[Removal, QueryOf()], parts: PartsOf, view: View
) -> Response:
    """End the session's agent and make it cancelled; with `purge`, delete it and its messages."""
    if removal.purge:
        session = await view.get_session(session_id, writing=True)
        if session.id in parts.supervisor.agents:
            session = await parts.supervisor.cancel(view, session.id)
        await view.delete(session.id)
    else:
        session = await parts.supervisor.cancel(view, session_id)
    await view.audit("session.purge" if removal.purge else "session.cancel", "done", subject=session.id)
    return rendered(shapes.Session.of(session))


@router.post("/{id}/prompt", status_code=202, responses=answers(shapes.Accepted, 202, 404, 409))
async def prompt(session_id: SessionPath, body: Prompt, parts: PartsOf, view: View) -> Response:
    """Store an instruction and queue it for the agent, without waiting for the answer."""
    turn = await parts.supervisor.prompt(view, session_id, body.text)
    identified(turn=turn.id)
    return rendered(shapes.Accepted(session_id=turn.session_id, turn=shapes.Turn.of(turn)), 202)


@router.post("/{id}/cancel", responses=answers(shapes.Session, 200, 404, 409))
async def cancel_turn(session_id: SessionPath, parts: PartsOf, view: View) -> Response:
    """Stop the running turn. The session stays active."""
    session = await view.get_session(session_id)
    return await _decided(view, "turn.cancel", await _service(parts, session).cancel_turn(view, session.id))


@router.post("/{id}/complete", responses=answers(shapes.Session, 200, 404, 409))
async def complete_session(session_id: SessionPath, parts: PartsOf, view: View) -> Response:
    """End the session's agent and make it completed."""
    return await _decided(view, "session.complete", await parts.supervisor.complete(view, session_id))


@router.post("/{id}/resume", responses=answers(shapes.Session, 200, 404, 409, 502, 503, 504))
async def resume_session(session_id: SessionPath, parts: PartsOf, view: View) -> Response:
    """Start the session's agent again, in the same session."""
    session = await view.get_session(session_id)
    return await _decided(view, "session.resume", await _service(parts, session).resume(view, session.id))


@router.post("/{id}/fork", status_code=201, responses=answers(shapes.Session, 201, 404, 409, 502, 503, 504))
async def fork_session(session_id: SessionPath, parts: PartsOf, view: View) -> Response:
    """A new session that knows what was said in this one."""
    session = await view.get_session(session_id)
    fork = await _service(parts, session).fork(view, session.id)
    return await _decided(view, "session.fork", fork, 201)


@router.post("/{id}/mode", responses=answers(shapes.Session, 200, 404, 409, 502, 504))
async def set_mode(session_id: SessionPath, body: Mode, parts: PartsOf, view: View) -> Response:
    """Choose one of the modes that the agent offers."""
    return await _decided(view, "session.mode", await parts.supervisor.set_mode(view, session_id, body.mode))


@router.post("/{id}/model", responses=answers(shapes.Session, 200, 404, 409, 502, 504))
async def set_model(session_id: SessionPath, body: Model, parts: PartsOf, view: View) -> Response:
    """Choose one of the models that the agent offers."""
    session = await parts.supervisor.set_model(view, session_id, body.model)
    return await _decided(view, "session.model", session)


@router.post("/{id}/config", responses=answers(shapes.Session, 200, 404, 409, 502, 504))
async def set_config(session_id: SessionPath, body: Config, parts: PartsOf, view: View) -> Response:
    """Set one of the options that the agent offers."""
    session = await parts.supervisor.set_config(view, session_id, body.config_id, body.value)
    return await _decided(view, "session.config", session)


@router.get("/{id}/turns", responses=answers(shapes.Turns, 200, 404))
async def list_turns(
    session_id: SessionPath, wanted: Annotated[TurnListing, QueryOf()], view: View
) -> Response:
    """Turns in order."""
    turns = await view.list_turns(session_id, after=wanted.after, limit=wanted.limit + 1)
    page = turns[: wanted.limit]
    following = page[-1].sequence_number if len(turns) > wanted.limit else None
    return rendered(shapes.Turns(turns=tuple(map(shapes.Turn.of, page)), next=following))


@router.get("/{id}/turns/last", responses=answers(shapes.Turn, 200, 404))
async def get_last_turn(session_id: SessionPath, view: View) -> Response:
    turn = await view.last_turn(session_id)
    if turn is None:
        raise NotFound("The session has no turn yet.")
    return rendered(shapes.Turn.of(turn))


@router.get("/{id}/turns/{turnId}", responses=answers(shapes.Turn, 200, 404))
async def get_turn(session_id: SessionPath, turn_id: TurnPath, view: View) -> Response:
    return rendered(shapes.Turn.of(await view.get_turn(session_id, TurnId(turn_id))))


@router.get("/{id}/turns/{turnId}/summary", responses=answers(shapes.TurnSummary, 200, 404))
async def get_turn_summary(session_id: SessionPath, turn_id: TurnPath, view: View) -> Response:
    """What was asked in a turn, and what came of it."""
    return rendered(shapes.TurnSummary.of(await view.get_turn(session_id, TurnId(turn_id))))


def _service(parts: Parts, session: Session) -> Orchestrator | Supervisor:
    """What leads a session: there is a process to it, or a model."""
    return parts.orchestrator if session.is_with_model else parts.supervisor


async def _end(parts: PartsOf, view: View, session_id: SessionId, status: SessionStatus) -> Session:
    """End a session's agent, or a model's turn; archived is then only a matter of the store."""
    if status is SessionStatus.COMPLETED or session_id in parts.supervisor.agents:
        session = await parts.supervisor.complete(view, session_id)
    if status is SessionStatus.ARCHIVED:
        session = await view.patch(session_id, SessionPatch(status=status))
        await parts.orchestrator.cancel_turn(view, session_id)
    await view.audit(f"session.{status.value}", "done", subject=session_id)
    return session


async def _decided(view: Store, action: str, session: Session, status: int = 200) -> Response:
    """Keep who decided it, and give the session as it then is."""
    await view.audit(action, "done", subject=session.id)
    return rendered(shapes.Session.of(session, await _repo(view, session)), status)


async def _repo(view: Store, session: Session) -> Repo | None:
    return None if session.repo_id is None else await view.get_repo(session.repo_id)


async def _whole(head: bytes, messages: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield head[:-1] + b',"messages":'
    async for piece in messages:
        yield piece
    yield b"}"


def _moment(moment: datetime | None) -> datetime | None:
    """`moment`, if the store can compare with it."""
    if moment is not None and not 1 < moment.year < 9999:
        raise InvalidInput(f"{moment.isoformat()} is too far away to be the time of a message.")
    return moment
