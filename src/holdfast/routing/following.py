"""Telling a bot of a turn that somebody else keeps the record of: what is stored is followed and told on."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

from holdfast.model.content import TextContent
from holdfast.model.ids import TurnId
from holdfast.model.message import Message, Role
from holdfast.model.turn import Turn, TurnStatus
from holdfast.routing.events import MessageEnded, Outgoing, TextAdded, TurnEnded
from holdfast.store.options import Changes
from holdfast.store.store import Store


async def follow_turn(store: Store, turn: Turn, since: int) -> AsyncGenerator[Outgoing, None]:
    """Everything that is said in a turn after a revision of its session, until the turn has ended."""
    answer = _Answer(turn.id)
    async with aclosing(store.follow(turn.session_id, since)) as items:
        async for changes in items:
            for event in answer.told(changes):
                yield event
            if ended := answer.ended(changes):
                yield TurnEnded(ended)
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
