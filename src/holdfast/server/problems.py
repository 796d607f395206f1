"""Errors as `application/problem+json`: every failure of every route has this one form."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import msgspec
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from holdfast.errors import HoldfastError, StoreError
from holdfast.server.shapes import Problem

log = logging.getLogger("holdfast.server")

MEDIA_TYPE = "application/problem+json"

UUID = r"^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$"
"""What an id looks like."""

_ALSO = {
    "retry_after": "retry_after",
    "session_status": "session_status",
    "turn_status": "turn_status",
    "current": "current_revision",
}
"""What errors carry besides their sentence, and how the problem calls it."""


def problem(
    status: int,
    detail: str,
    *,
    code: str | None = None,
    headers: Mapping[str, str] | None = None,
    **also: Any,
) -> Response:
    shape = Problem(
        type="about:blank",
        title=HTTPStatus(status).phrase,
        status=status,
        detail=detail,
        code=code or HTTPStatus(status).name.lower(),
        **also,
    )
    return Response(msgspec.json.encode(shape), status, dict(headers or {}), MEDIA_TYPE)


def problem_of(error: HoldfastError) -> Response:
    also = {
        there: value for here, there in _ALSO.items() if (value := getattr(error, here, None)) is not None
    }
    headers = {"Retry-After": str(also["retry_after"])} if "retry_after" in also else None
    if error.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        log.warning("%s: %s", error.code, error)
    detail = error.from_afar if isinstance(error, StoreError) else str(error)
    return problem(error.status, detail, code=error.code, headers=headers, retriable=error.retriable, **also)


def unexpected() -> Response:
    return problem(HTTPStatus.INTERNAL_SERVER_ERROR, "Something went wrong here; the server's log says what.")


def add_handlers(app: FastAPI) -> None:
    app.add_exception_handler(HoldfastError, _ours)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(ClientDisconnect, _left)
    app.add_exception_handler(Exception, _unexpected)


async def _ours(request: Request, error: Exception) -> Response:
    assert isinstance(error, HoldfastError)
    request.scope["holdfast.error"] = error
    return problem_of(error)


async def _invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    sentences = tuple(_sentence(each) for each in error.errors())
    return problem(HTTPStatus.BAD_REQUEST, sentences[0], code="invalid_input", errors=sentences)


async def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if isinstance(error.__cause__, HoldfastError):  # what we raised while FastAPI read the body
        return problem_of(error.__cause__)
    path = request.url.path
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        allowed = ", ".join(_allowed(request.app, path))
        detail = f"{path} does not take {request.method}; it takes {allowed}."
        return problem(error.status_code, detail, headers={"Allow": allowed})
    if error.status_code == HTTPStatus.NOT_FOUND:
        return problem(error.status_code, f"There is nothing at {path}.")
    return problem(error.status_code, str(error.detail), headers=error.headers)


async def _left(request: Request, error: Exception) -> Response:
    """What nobody reads: the figures and the log then say why the request ended."""
    return problem(HTTPStatus.BAD_REQUEST, "The request broke off; send it again.")


async def _unexpected(request: Request, error: Exception) -> Response:
    return unexpected()


def _allowed(app: FastAPI, path: str) -> list[str]:
    """The methods of all routes with this path: the router names only those of the first."""
    methods = set()
    for template, operations in app.openapi()["paths"].items():
        if re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", template), path):
            methods |= {method.upper() for method in operations}
    return sorted(methods) or ["GET"]


def _sentence(error: Mapping[str, Any]) -> str:
    """`limit: Input should be less than or equal to 1000.`"""
    place = ".".join(str(part) for part in error["loc"][1:]) or str(error["loc"][0])
    match error["type"]:
        case "json_invalid":
            return f"The body is not JSON: it goes wrong at character {place}."
        case "extra_forbidden":
            return f"{place}: there is nothing of this name here."
        case "missing":
            return f"{place}: it is missing."
        case "string_pattern_mismatch" if error["ctx"]["pattern"] == UUID:
            return f"{place}: it is not an id, which is 32 hexadecimal digits with four hyphens."
        case "string_pattern_mismatch" if "\0" in str(error["input"]):
            return f"{place}: it must not contain a NUL character."
        case _:
            return f"{place}: {error['msg']}."
