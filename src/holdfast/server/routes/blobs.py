"""Payloads in full, by the URLs that turns hold."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, Header, Path
from starlette.responses import Response

from holdfast.blobs.media import BINARY, JSON, TEXT, media_type
from holdfast.server.routes.common import CallerOf, PartsOf, problem_answer
from holdfast.server.routes.route import Route

router = APIRouter(prefix="/api", tags=["reading"], route_class=Route)

BlobPath = Annotated[str, Path(alias="id", description="The SHA-256 of its bytes.", pattern="^[0-9a-f]{64}$")]


def _payloads() -> dict[int | str, dict[str, Any]]:
    described: dict[int | str, dict[str, Any]] = {
        200: {
            "description": "The bytes as they were stored.",
            "content": {kind: {"schema": {}} for kind in (JSON, TEXT.partition(";")[0], BINARY)},
        },
        304: {"description": "The caller has it already."},
    }
    for problem in (400, 401, 403, 404, 429, 500, 503):
        described[problem] = problem_answer()
    return described


@router.get("/blobs/{id}", response_class=Response, responses=_payloads())
async def get_blob(
    blob: BlobPath,
    parts: PartsOf,
    caller: CallerOf,
    known: Annotated[str | None, Header(alias="If-None-Match")] = None,
) -> Response:
    """A blob of the caller's organization. It never changes, so whoever has it need not ask again."""
    data = await parts.blobs.get(caller.principal.organization, blob)
    headers = {"ETag": f'"{blob}"', "Cache-Control": "private, max-age=31536000, immutable"}
    if known is not None and blob in known:
        return Response(status_code=304, headers=headers)
    return Response(data, media_type=await asyncio.to_thread(media_type, data), headers=headers)
