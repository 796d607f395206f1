"""For those who keep the server running."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

import holdfast
from holdfast.server import shapes
from holdfast.server.metrics import CONTENT_TYPE_LATEST
from holdfast.server.routes.common import EVERYWHERE, AdminOf, PartsOf, answers, problem_answer, rendered
from holdfast.server.routes.route import Route

router = APIRouter(tags=["operations"], route_class=Route)


@router.head("/healthz", include_in_schema=False)
@router.get(
    "/healthz",
    responses={200: answers(shapes.Health)[200]},
    openapi_extra={"security": []},
)
async def get_health() -> Response:
    """Whether the server answers at all."""
    return rendered(shapes.Health(status="ok", version=holdfast.__version__))


@router.head("/readyz", include_in_schema=False)
@router.get("/readyz", responses=answers(shapes.Health))
async def get_readiness(parts: PartsOf) -> Response:
    """Whether the server can do its work: its store answers, and is the one that it opened."""
    await parts.store.ready()
    return rendered(shapes.Health(status="ok", version=holdfast.__version__))


@router.get(
    "/metrics",
    responses={
        200: {
            "description": "Figures for Prometheus.",
            "content": {CONTENT_TYPE_LATEST: {"schema": {"type": "string"}}},
        },
        **{status: problem_answer() for status in EVERYWHERE},
    },
)
async def get_metrics(parts: PartsOf, admin: AdminOf) -> Response:
    """Figures of the whole server, for admins."""
    metrics = parts.metrics
    for status, count in (await parts.store.count_sessions()).items():
        metrics.sessions.labels(status.value).set(count)
    metrics.pending.set(len(await parts.store.as_system().pending_turns()))
    metrics.queued.set(sum(max(0, agent.turns - 1) for agent in parts.supervisor.agents.values()))
    metrics.committed(*parts.store.commits)
    metrics.listeners.set(parts.hub.listeners)
    metrics.agents.set(len(parts.supervisor.agents))
    metrics.places.set(parts.supervisor.limit)
    return Response(metrics.render(), headers={"Content-Type": CONTENT_TYPE_LATEST})
