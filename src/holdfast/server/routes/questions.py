"""Question sets: what agents ask, and what people answer."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path
from fastapi import Query as QueryOf
from pydantic import BeforeValidator, Field
from starlette.responses import Response

from holdfast.model.question import Answer, QuestionStatus
from holdfast.server import shapes
from holdfast.server.inbox import as_shape, as_shapes
from holdfast.server.routes.common import (
    Body,
    CallerOf,
    PartsOf,
    Query,
    Text,
    View,
    answers,
    integral,
    one_or_more,
    rendered,
)
from holdfast.server.routes.route import Route

router = APIRouter(prefix="/api/questions", tags=["questions"], route_class=Route)

UUID4 = "^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-4[0-9a-fA-F]{3}-[89abAB][0-9a-fA-F]{3}-[0-9a-fA-F]{12}$"

SetPath = Annotated[str, Path(alias="id", description="The question set's id.", pattern=UUID4)]


EVERY_STATUS = frozenset(QuestionStatus)


class Listing(Query):
    status: (
        Annotated[
            str,
            Field(description="One status, or several with commas.", pattern=one_or_more(QuestionStatus)),
        ]
        | None
    ) = None


class GivenAnswer(Body):
    question_index: Annotated[int, Field(ge=0, le=1000, examples=[0]), BeforeValidator(integral)]
    selected_option: Annotated[Text | None, Field(examples=["Yes"])] = None
    selected_options: list[Text] | None = None
    custom_text: Text | None = None


class Answers(Body):
    answers: Annotated[
        list[GivenAnswer],
        Field(min_length=1, max_length=1000, examples=[[{"questionIndex": 0, "selectedOption": "Yes"}]]),
    ]


class Rejection(Body):
    reason: Text | None = None


@router.get("", responses=answers(shapes.QuestionSets))
async def list_questions(
    wanted: Annotated[Listing, QueryOf()], parts: PartsOf, caller: CallerOf, view: View
) -> Response:
    """Question sets that the caller may see, oldest first."""
    statuses = frozenset(map(QuestionStatus, wanted.status.split(","))) if wanted.status else EVERY_STATUS
    found = await parts.inbox.list(view, caller.principal, statuses)
    return rendered(shapes.QuestionSets(questions=as_shapes(found)))


@router.get("/{id}", responses=answers(shapes.QuestionSet, 200, 404))
async def get_question(set_id: SetPath, parts: PartsOf, caller: CallerOf, view: View) -> Response:
    return rendered(as_shape(await parts.inbox.get(view, caller.principal, set_id)))


@router.post("/{id}/answer", responses=answers(shapes.QuestionSet, 200, 404, 409))
async def answer_question(
    set_id: SetPath, body: Answers, parts: PartsOf, caller: CallerOf, view: View
) -> Response:
    """Answer a question set. The first answer stands."""
    given = [
        Answer(
            question_index=each.question_index,
            selected_option=each.selected_option,
            selected_options=None if each.selected_options is None else tuple(each.selected_options),
            custom_text=each.custom_text,
        )
        for each in body.answers
    ]
    return rendered(as_shape(await parts.inbox.answer(view, caller, set_id, given)))


@router.post("/{id}/reject", responses=answers(shapes.QuestionSet, 200, 404, 409))
async def reject_question(
    set_id: SetPath, parts: PartsOf, caller: CallerOf, view: View, body: Rejection | None = None
) -> Response:
    """Refuse to answer, with or without a reason."""
    reason = None if body is None else body.reason
    return rendered(as_shape(await parts.inbox.reject(view, caller, set_id, reason)))
