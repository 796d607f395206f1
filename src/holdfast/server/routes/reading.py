"""What people read: Markdown as HTML, a session as a document, and what was folded in it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Request
from fastapi import Query as QueryOf
from pydantic import Field
from starlette.responses import Response, StreamingResponse

from holdfast.server import shapes
from holdfast.server.export import Format, exported
from holdfast.server.routes.common import (
    EVERYWHERE,
    Body,
    CallerOf,
    PartsOf,
    Query,
    SessionPath,
    Text,
    View,
    answers,
    problem_answer,
    rendered,
)
from holdfast.server.routes.route import Route
from holdfast.server.sse import while_listening

router = APIRouter(prefix="/api", tags=["reading"], route_class=Route)

MEDIA_TYPES = {Format.MARKDOWN: "text/markdown", Format.JSON: "application/json"}
ENDINGS = {Format.MARKDOWN: "md", Format.JSON: "json"}


class Texts(Body):
    texts: Annotated[list[Text], Field(max_length=1000)]


class Export(Query):
    format: Literal["markdown", "json"] = "markdown"


def _documents() -> dict[int | str, dict[str, Any]]:
    described: dict[int | str, dict[str, Any]] = {
        200: {
            "description": "The session, to be saved as a file.",
            "content": {
                MEDIA_TYPES[Format.MARKDOWN]: {"schema": {"type": "string"}},
                MEDIA_TYPES[Format.JSON]: {"schema": {"$ref": "#/components/schemas/Session"}},
            },
        }
    }
    for problem in (*EVERYWHERE, 404):
        described[problem] = problem_answer()
    return described


@router.post("/markdown", responses=answers(shapes.RenderedTexts))
async def render_markdown(body: Texts, request: Request, parts: PartsOf, caller: CallerOf) -> Response:
    """Markdown texts as HTML that is safe to show, in the same order. Those that take long stay plain."""
    html = await while_listening(request.receive, parts.renderer.render(body.texts, caller.principal))
    return rendered(shapes.RenderedTexts(html=html))


@router.get("/sessions/{id}/export", response_class=StreamingResponse, responses=_documents())
async def export_session(
    session_id: SessionPath, wanted: Annotated[Export, QueryOf()], view: View
) -> Response:
    """A session as one file."""
    session = await view.get_session(session_id)
    form = Format(wanted.format)
    name = f'attachment; filename="session-{session.id}.{ENDINGS[form]}"'
    document = exported(view, session.id, form)
    return StreamingResponse(document, headers={"Content-Disposition": name}, media_type=MEDIA_TYPES[form])


@router.get("/sessions/{id}/compactions", responses=answers(shapes.Compactions, 200, 404))
async def list_compactions(session_id: SessionPath, view: View) -> Response:
    """The compactions of a session, in the order in which they were made, and what a model is shown now."""
    return rendered(shapes.Compactions.of(await view.list_compactions(session_id)))
