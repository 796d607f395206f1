"""ACP agents that answer chats: a runner of the gateway over the supervisor.

The supervisor keeps the record of the turn as it does for every prompt; what it stores is followed
and told on. An agent that is not running is started again in the chat's session, and one that
completed for want of work goes on where it stopped.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress

from holdfast.agents.supervisor import Supervisor
from holdfast.model.ids import RepoId
from holdfast.model.session import NewSession
from holdfast.model.turn import Turn
from holdfast.routing.events import Outgoing, TurnStarted
from holdfast.routing.following import follow_turn
from holdfast.routing.runner import Exchange

STOP_SECONDS = 10.0
"""How long a chat waits for its agent to end an interrupted turn."""


class AgentRunner:
    """Runs a chat's agent, which the catalogue names as the bindings do, in a repository."""

    joins = False
    """A prompt is stored by the supervisor, so it cannot be there before."""

    def __init__(self, supervisor: Supervisor, repo_id: RepoId) -> None:
        self._supervisor = supervisor
        self.opening: NewSession | None = NewSession(repo_id=repo_id)

    async def run(self, exchange: Exchange) -> AsyncGenerator[Outgoing, None]:
        store, session_id = exchange.store, exchange.session.id
        await self._supervisor.resume(store, session_id)
        since = (await store.get_session(session_id)).rev
        turn = await self._supervisor.prompt(store, session_id, exchange.text)
        yield TurnStarted(exchange.decision, exchange.session, turn)
        try:
            async with aclosing(follow_turn(store, turn, since)) as events:
                async for event in events:
                    yield event
        except (asyncio.CancelledError, GeneratorExit):
            await asyncio.shield(self._stop(exchange, turn))
            raise

    async def _stop(self, exchange: Exchange, turn: Turn) -> None:
        """Have the agent stop, and wait until the turn says so; the next prompt waits for that anyway."""
        store, session_id = exchange.store, exchange.session.id
        await self._supervisor.cancel_turn(store, session_id)
        with suppress(TimeoutError):
            async with (
                asyncio.timeout(STOP_SECONDS),
                aclosing(follow_turn(store, turn, turn.rev - 1)) as events,
            ):
                async for _ in events:
                    pass
