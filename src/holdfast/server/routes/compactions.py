"""What a model is shown of a session: shortened on demand, and taken back."""

from __future__ import annotations

from typing import Annotated

import msgspec
from fastapi import APIRouter, Path
from pydantic import Field
from starlette.responses import Response

from holdfast.compaction.on_demand import compact_on_demand
from holdfast.compaction.policy import policy_of
from holdfast.compaction.strategies import STRATEGIES
from holdfast.execution.reported import weighed_as_sent
from holdfast.model.ids import CompactionId
from holdfast.server import shapes
from holdfast.server.routes.common import UUID, Body, PartsOf, SessionPath, View, answers, rendered
from holdfast.server.routes.route import Route

router = APIRouter(prefix="/api/sessions/{id}", tags=["sessions"], route_class=Route)

CompactionPath = Annotated[str, Path(alias="compactionId", description="The compaction's id.", pattern=UUID)]


class Compact(Body):
    strategy: Annotated[str, Field(pattern=f"^({'|'.join(STRATEGIES)})$")] | None = None
    """The one of the agent's settings, with its parameters, when none is given."""


@router.post("/compact", responses=answers(shapes.Compacted, 200, 404, 409, 502))
async def compact_session(
    session_id: SessionPath, parts: PartsOf, view: View, body: Compact | None = None
) -> Response:
    """Shorten what a model is shown of a session. Every message stays stored as it is."""
    session = await view.get_session(session_id, writing=True)
    settings = parts.settings
    policy = policy_of(session, settings.agents, settings.contexts, settings.providers)
    if body is not None and body.strategy is not None:
        policy = msgspec.structs.replace(policy, strategy=body.strategy)
    weigh = weighed_as_sent(view, parts.blobs, session)
    done = await compact_on_demand(view, session, policy, weigh)
    await view.audit("session.compact", "done", subject=session.id)
    return rendered(shapes.Compacted(compaction=None if done is None else shapes.Compaction.of(done)))


@router.post("/compactions/{compactionId}/undo", responses=answers(shapes.Compaction, 200, 404, 409))
async def undo_compaction(session_id: SessionPath, compaction_id: CompactionPath, view: View) -> Response:
    """Take a compaction back, and with it those that were made on top of it."""
    undone = await view.undo_compaction(session_id, CompactionId(compaction_id))
    await view.audit("session.expand", "done", subject=session_id)
    return rendered(shapes.Compaction.of(undone))
