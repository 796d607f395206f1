"""Sessions as a list of what was worked on: contexts by name, and how the last turn went.

Sessions keep the ids of contexts and nothing else of them; their names are put in here.
"""

from __future__ import annotations

import asyncio

import msgspec

from holdfast.execution.contexts import Contexts
from holdfast.model.session import Session
from holdfast.model.times import iso
from holdfast.model.turn import Turn, TurnStatus
from holdfast.store.options import SessionFilter
from holdfast.store.store import Store


class SessionSummary(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A session in a line."""

    id: str
    name: str
    key: str
    description: str | None = None
    category: str | None = None
    is_public: bool
    creation_date: str
    last_updated_date: str
    agent_context_id: str | None = None
    agent_context_name: str | None = None
    conversation_context_id: str | None = None
    conversation_context_name: str | None = None
    last_turn_status: TurnStatus | None = None
    last_turn_date: str | None = None
    turn_count: int


class SummaryPage(msgspec.Struct, frozen=True, kw_only=True):
    """Sessions in a line each, those that changed last first."""

    sessions: tuple[SessionSummary, ...]
    total: int
    limit: int
    offset: int


async def summaries(view: Store, contexts: Contexts, wanted: SessionFilter) -> SummaryPage:
    page = await view.list(wanted)
    last = await asyncio.gather(*(view.last_turn(session.id) for session in page))
    return SummaryPage(
        sessions=tuple(_summary(session, turn, contexts) for session, turn in zip(page, last, strict=True)),
        total=page.total,
        limit=page.limit,
        offset=page.offset,
    )


def _summary(session: Session, last: Turn | None, contexts: Contexts) -> SessionSummary:
    return SessionSummary(
        id=session.id,
        name=session.name,
        key=session.key_text,
        description=session.description,
        category=session.category,
        is_public=session.is_public,
        creation_date=iso(session.created_at),
        last_updated_date=iso(session.updated_at),
        agent_context_id=session.agent_context_id,
        agent_context_name=contexts.agent_name(session.agent_context_id),
        conversation_context_id=session.conversation_context_id,
        conversation_context_name=contexts.conversation_name(session.conversation_context_id),
        last_turn_status=last.status if last else None,
        last_turn_date=iso(last.status_at) if last else None,
        turn_count=session.turn_count,
    )
