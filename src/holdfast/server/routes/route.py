"""How a request becomes a call of its route.

FastAPI reads the declarations of our routes and writes the OpenAPI document from them. Its general
machinery for filling in arguments takes longer than most of our answers, though, because it looks at
every declaration anew for every request. Where a route needs only what is known here (parts of the path,
one model of the query, one of the body, what depends on the request alone), its arguments are worked out
once, and pydantic checks the same declarations. Other routes are left to FastAPI.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from functools import partial
from inspect import iscoroutinefunction, signature
from typing import Any, TypeGuard, get_args, get_type_hints

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.params import Depends, Path, Query
from fastapi.routing import APIRoute
from pydantic import BaseModel, TypeAdapter, ValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

Handler = Callable[[Request], Coroutine[Any, Any, Response]]
Depended = Callable[[Request], Awaitable[Any]]
Check = Callable[[object], Any]


class Route(APIRoute):
    def __init__(self, path: str, endpoint: Callable[..., Any], **declared: Any) -> None:
        super().__init__(path, endpoint, **declared)
        arguments = Arguments(endpoint)
        if arguments.known:
            self.app = _answering(arguments.handler())


class Arguments:
    """What an endpoint is called with, by where it comes from."""

    def __init__(self, endpoint: Callable[..., Awaitable[Response]]) -> None:
        self._endpoint = endpoint
        self._depended: list[tuple[str, Depended]] = []
        self._path: list[tuple[str, str, Check]] = []
        self._query: list[tuple[str, Check]] = []
        self._body: list[tuple[str, Check]] = []
        hints = get_type_hints(endpoint, include_extras=True)
        hints.pop("return", None)
        self.known = all(self._place(name, hint) for name, hint in hints.items())

    def handler(self) -> Handler:
        endpoint, depended, path = self._endpoint, self._depended, self._path
        query, body = self._query, self._body

        async def handle(request: Request) -> Response:
            values = {name: await dependency(request) for name, dependency in depended}
            errors: list[dict[str, Any]] = []
            for name, alias, check in path:
                try:
                    values[name] = check(request.path_params[alias])
                except ValidationError as error:
                    errors += _located(error, ("path", alias))
            asked: dict[str, str] = {}
            if request.scope["query_string"]:
                asked = dict(request.query_params)
                errors += _repeated(request) if query else _unknown(asked)
            for name, check in query:
                try:
                    values[name] = check(asked)
                except ValidationError as error:
                    errors += _located(error, ("query",))
            for name, check in body:
                try:
                    values[name] = check(await _sent(request))
                except ValidationError as error:
                    errors += _located(error, ("body",))
                except RequestValidationError as error:
                    errors += error.errors()
            if errors:
                raise RequestValidationError(errors)
            return await endpoint(**values)

        return handle

    def _place(self, name: str, hint: Any) -> bool:
        """Note where an argument comes from; whether that is known here."""
        if hint is Request:
            self._depended.append((name, _itself))
            return True
        if isinstance(hint, type) and issubclass(hint, BaseModel):
            self._body.append((name, partial(TypeAdapter(hint).validate_python, from_attributes=True)))
            return True
        declared = next((each for each in get_args(hint) if isinstance(each, Depends | Path | Query)), None)
        match declared:
            case Depends(dependency=dependency) if _asks_only(dependency):
                self._depended.append((name, dependency))
            case Path(alias=str(alias)):
                self._path.append((name, alias, TypeAdapter(hint).validate_python))
            case Query() if issubclass(model := get_args(hint)[0], BaseModel):
                self._query.append((name, TypeAdapter(model).validate_python))
            case _:
                return False
        return True


def _unknown(asked: Iterable[str]) -> list[dict[str, Any]]:
    """That a route which takes no query was given one."""
    return [{"loc": ("query", name), "msg": "Unexpected", "type": "extra_forbidden"} for name in asked]


def _repeated(request: Request) -> list[dict[str, Any]]:
    """Parameters that are given more than once, of which all but one would be ignored."""
    names = Counter(name for name, _ in request.query_params.multi_items())
    said = {"msg": "It is given more than once", "type": "repeated"}
    return [{"loc": ("query", name), **said} for name, times in names.items() if times > 1]


def _answering(handle: Handler) -> ASGIApp:
    """Without the stacks that FastAPI keeps for what its own arguments open; errors are the application's."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        response = await handle(Request(scope, receive, send))
        await response(scope, receive, send)

    return answer


def _asks_only(dependency: Callable[..., Any] | None) -> TypeGuard[Depended]:
    """Whether what is depended on is a coroutine of the request alone."""
    return iscoroutinefunction(dependency) and list(signature(dependency).parameters) == ["request"]


async def _itself(request: Request) -> Request:
    return request


async def _sent(request: Request) -> Any:
    """The body, which the gate has seen to be declared as JSON."""
    text = await request.body()
    if not text:
        raise RequestValidationError([{"loc": ("body",), "msg": "Field required", "type": "missing"}])
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        said = {"loc": ("body", error.pos), "msg": "JSON decode error", "type": "json_invalid"}
        raise RequestValidationError([said]) from None
    except (ValueError, RecursionError):  # not UTF-8, nested too deeply, a number of thousands of digits
        raise HTTPException(400, "There was an error parsing the body") from None


def _located(error: ValidationError, place: Sequence[str]) -> list[dict[str, Any]]:
    """The errors, with the part of the request that they are in."""
    return [{**each, "loc": (*place, *each["loc"])} for each in error.errors(include_url=False)]
