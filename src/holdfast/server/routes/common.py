"""What routes share: who is calling, their view of the store, and how an answer is described."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any

import msgspec
from fastapi import Depends, Path, Request
from pydantic import AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field
from pydantic.alias_generators import to_camel
from starlette.responses import Response

from holdfast.errors import AccessDenied
from holdfast.server.doorkeeper import Caller
from holdfast.server.gate import Traversal
from holdfast.server.parts import Parts
from holdfast.server.problems import MEDIA_TYPE as PROBLEM_TYPE
from holdfast.server.problems import UUID as UUID
from holdfast.store.store import Store

MAX_INT = 2**62
"""The largest revision, sequence number or position that can be asked about."""

COUNTING: dict[str, Any] = {"ge": 0, "le": MAX_INT}

JSON = "application/json"


def _iso(value: object) -> object:
    """A number would be taken for seconds since 1970."""
    if not isinstance(value, str) or "T" not in value.upper():
        raise ValueError("it is a time as in 2026-11-15T23:20:00.123Z")
    return value


def integral(value: object) -> object:
    """`value`, as an integer where it is one: JSON does not tell 1.0 from 1."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


EVERYWHERE = (400, 401, 403, 429, 503, 507)
"""What any request may be answered with: it is wrong, or not allowed, or the store cannot now."""

NO_NUL = r"^[^\x00]*$"

Text = Annotated[str, Field(pattern=NO_NUL)]
Label = Annotated[str, Field(pattern=NO_NUL, min_length=1, max_length=512)]
Moment = Annotated[AwareDatetime, BeforeValidator(_iso), Field(strict=False)]


class Body(BaseModel):
    """A request's body: nothing in it is converted or ignored."""

    model_config = ConfigDict(
        strict=True, extra="forbid", alias_generator=to_camel, validate_by_name=False, validate_by_alias=True
    )


class Query(BaseModel):
    """A request's query: nothing in it is ignored."""

    model_config = ConfigDict(
        extra="forbid", alias_generator=to_camel, validate_by_name=False, validate_by_alias=True
    )


# What a request depends on is asked for by coroutines: FastAPI runs plain functions in threads.


async def _parts(request: Request) -> Parts:
    parts: Parts = request.app.state.parts
    return parts


async def _caller(request: Request) -> Caller:
    caller: Caller = request.scope["holdfast.caller"]
    return caller


async def _view(request: Request) -> Store:
    return (await _parts(request)).store.as_principal((await _caller(request)).principal).through("http")


async def _admin(request: Request) -> Caller:
    caller = await _caller(request)
    if not caller.principal.is_admin:
        raise AccessDenied("Only an admin of the organization may do this.")
    return caller


PartsOf = Annotated[Parts, Depends(_parts)]
CallerOf = Annotated[Caller, Depends(_caller)]
AdminOf = Annotated[Caller, Depends(_admin)]
View = Annotated[Store, Depends(_view)]
"""The store as the caller may see it."""

SessionPath = Annotated[str, Path(alias="id", description="The session's id.", pattern=UUID)]
TurnPath = Annotated[str, Path(alias="turnId", description="The turn's id.", pattern=UUID)]


def one_or_more(choices: Iterable[str]) -> str:
    """The pattern of a list of choices with commas between them."""
    each = "|".join(choices)
    return f"^({each})(,({each}))*$"


def not_upwards(path: str) -> str:
    """`path`, unless it would lead out of the place it begins in: that is denied, and kept on record."""
    if ".." in path.replace("\\", "/").split("/"):
        raise Traversal(f"{path[:80]!a} must not lead out of the place it begins in.")
    return path


def rendered(shape: msgspec.Struct, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(msgspec.json.encode(shape), status, headers, JSON)


def answers(
    shape: type[msgspec.Struct], status: int = 200, *problems: int
) -> dict[int | str, dict[str, Any]]:
    """The answers of a route for the OpenAPI document: that of success, and the problems it may have."""
    described: dict[int | str, dict[str, Any]] = {
        status: {"description": _sentence(shape), "content": {JSON: {"schema": _ref(shape.__name__)}}}
    }
    for problem in (*EVERYWHERE, *problems):
        described[problem] = problem_answer()
    return described


def problem_answer() -> dict[str, Any]:
    return {"description": "What went wrong.", "content": {PROBLEM_TYPE: {"schema": _ref("Problem")}}}


def _ref(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{name}"}


def _sentence(shape: type[msgspec.Struct]) -> str:
    return (shape.__doc__ or f"{shape.__name__}.").split("\n")[0]
