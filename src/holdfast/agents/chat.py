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
from holdfast.model.content import TextContent
from holdfast.model.ids import RepoId, TurnId
from holdfast.model.message import Message, Role
from holdfast.model.session import NewSession
from holdfast.model.turn import Turn, TurnStatus
from holdfast.routing.events import MessageEnded, Outgoing, TextAdded, TurnEnded, TurnStarted
from holdfast.routing.runner import Exchange
from holdfast.store.options import Changes

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
        answer = _Answer(turn.id)
        try:
            async with aclosing(store.follow(session_id, since)) as items:
                async for changes in items:
                    for event in answer.told(changes):
                        yield event
                    if ended := answer.ended(changes):
                        yield TurnEnded(ended)
                        return
        except (asyncio.CancelledError, GeneratorExit):
            await asyncio.shield(self._stop(exchange, turn))
            raise

    async def _stop(self, exchange: Exchange, turn: Turn) -> None:
        """Have the agent stop, and wait until the turn says so; the next prompt waits for that anyway."""
        store, session_id = exchange.store, exchange.session.id
        await self._supervisor.cancel_turn(store, session_id)
        answer = _Answer(turn.id)
        with suppress(TimeoutError):
            async with (
                asyncio.timeout(STOP_SECONDS),
                aclosing(store.follow(session_id, turn.rev - 1)) as items,
            ):
                async for changes in items:
                    if answer.ended(changes):
                        return


class _Answer:
    """How much of a turn's messages was told."""

    def __init__(self, turn_id: TurnId) -> None:
        self._turn_id = turn_id
        self._told: dict[str, int] = {}
        """Characters told, of the texts that are still being said."""

    def told(self, changes: Changes) -> list[Outgoing]:
        events: list[Outgoing] = []
        for message in changes.messages:
            if message.turn_id == self._turn_id and message.role is not Role.USER:
                events += self._message(message)
        for delta in changes.deltas:
            if delta.message_id in self._told:
                self._told[delta.message_id] += len(delta.text)
                events.append(TextAdded(delta.text))
        return events

    def ended(self, changes: Changes) -> Turn | None:
        for turn in changes.turns:
            if turn.id == self._turn_id and turn.status is not TurnStatus.PENDING:
                return turn
        return None

    def _message(self, message: Message) -> list[Outgoing]:
        assert message.id is not None
        events: list[Outgoing] = []
        if message.role is Role.AGENT and isinstance(message.content, TextContent):
            if rest := message.text[self._told.get(message.id, 0) :]:
                events.append(TextAdded(rest))
            self._told[message.id] = len(message.text)
        if not message.open:
            self._told.pop(message.id, None)
            events.append(MessageEnded(message))
        return events
