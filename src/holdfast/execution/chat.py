"""Models that answer chats: a runner of the gateway over the orchestrator.

The gateway holds the session's turn, so the orchestrator runs it at once. What it stores is followed
and told on.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

from holdfast.execution.contexts import DEFAULT
from holdfast.execution.input import ExecutionInput
from holdfast.execution.orchestrator import INTERRUPTED, Orchestrator
from holdfast.model.session import NewSession
from holdfast.model.turn import TurnStatus
from holdfast.routing.events import Outgoing, TurnEnded, TurnStarted
from holdfast.routing.following import follow_turn
from holdfast.routing.runner import Exchange


class ModelRunner:
    """Answers with the model of a context, and what the index knows of a repository."""

    joins = False
    """An instruction is stored by the orchestrator, so it cannot be there before."""

    def __init__(
        self, orchestrator: Orchestrator, context: str = DEFAULT, *, repository: str | None = None
    ) -> None:
        """`context` is the id of an agent context: its name, for one of the settings."""
        self._orchestrator = orchestrator
        self.opening: NewSession | None = NewSession(agent_context_id=context, repo_name=repository)

    async def run(self, exchange: Exchange) -> AsyncGenerator[Outgoing, None]:
        store, session = exchange.store, exchange.session
        since = (await store.get_session(session.id)).rev
        (first, *_) = exchange.asked
        turn, running = await self._orchestrator.start(
            store,
            ExecutionInput(instruction=exchange.text, session_id=session.id),
            key=f"chat:{first.id}" if first.id is not None else None,
            said=exchange.asked,
            leased=True,
        )
        if turn.status is not TurnStatus.PENDING:  # this very message was answered before
            yield TurnEnded(turn)
            return
        try:
            yield TurnStarted(exchange.decision, session, turn)
            async with aclosing(follow_turn(store, turn, since)) as events:
                async for event in events:
                    yield event
            await asyncio.wait([running])
        except (asyncio.CancelledError, GeneratorExit):
            running.cancel(INTERRUPTED)
            await asyncio.shield(asyncio.wait([running]))
            raise
