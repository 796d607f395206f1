"""Answering in a session whose turn is held: the message that came, and those that joined.

Whoever joined earlier turns and was left without an answer, because their holder was stopped or
killed, comes first; then the message itself; then whoever joined meanwhile.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing, suppress
from typing import TypeAlias

from holdfast.errors import HoldfastError
from holdfast.model.ids import MessageId, SessionId
from holdfast.model.lease import LeaseLost
from holdfast.model.message import Message
from holdfast.model.session import Session
from holdfast.model.turn import CHAT, Turn, TurnFailure, TurnStatus
from holdfast.routing.bindings import Decision
from holdfast.routing.events import Outgoing, TurnEnded, TurnStarted
from holdfast.routing.hold import Hold, TurnInterrupted, let_go
from holdfast.routing.joining import unanswered
from holdfast.routing.runner import Exchange, Runner
from holdfast.store.ending import to_its_end
from holdfast.store.store import Store

log = logging.getLogger("holdfast.routing")

History: TypeAlias = Callable[[Store, SessionId], Awaitable[Sequence[Message]]]
Tell: TypeAlias = Callable[[Outgoing], None]


class Answering:
    def __init__(
        self, hold: Hold, decision: Decision, runner: Runner, session: Session, history: History, tell: Tell
    ) -> None:
        self._hold = hold
        self._store = hold.store
        self._decision = decision
        self._runner = runner
        self._session = session
        self._history = history
        self._tell = tell
        self._tried: set[MessageId | None] = set()
        """Those who joined and had their chance here: nobody is tried again and again."""

    async def answer(self, message: Message, *, overtaken: bool = False) -> None:
        """Answer the message and whoever joined, and give the hold up.

        When the runner cannot answer the message, those who joined are answered all the same. One that is
        `overtaken` by a later one is stored and interrupted.
        """
        released = False
        failed: HoldfastError | None = None
        try:
            await self._answer_joined()
            if overtaken:
                self._hold.interrupt()
            try:
                await self._answer_once(message)
            except LeaseLost:
                raise
            except HoldfastError as error:
                failed = error
            while not released:
                released = await to_its_end(self._hold.release(leave_joined=not self._runner.joins))
                if not released and not await self._answer_joined():
                    break
        finally:
            if not released:
                await asyncio.shield(self._give_up())
        if failed is not None:
            raise failed

    async def _answer_once(self, message: Message) -> None:
        turn = await self._store.turn_of(message)
        if turn is None or turn.status is TurnStatus.PENDING:
            await self._run([message], stored=False)
        elif message.id not in self._tried:
            self._tell(TurnEnded(turn))

    async def _answer_joined(self) -> bool:
        """Answer those who joined and wait; whether there were any."""
        if not self._runner.joins:
            return False
        waiting = await unanswered(self._store, self._session.id)
        asked = [message for message in waiting if message.id not in self._tried]
        if not asked:
            return False
        self._tried |= {message.id for message in asked}
        try:
            await self._run(asked, stored=True)
        except LeaseLost:
            raise
        except HoldfastError as error:
            log.warning("session %s: who joined is not answered yet: %s", self._session.id, error)
        return True

    async def _run(self, asked: Sequence[Message], *, stored: bool) -> None:
        """Have the runner take the turn; an interrupted one has ended, too."""
        started: list[Turn] = []

        async def run() -> None:
            exchange = await self._exchange(asked, stored=stored)
            async with aclosing(self._runner.run(exchange)) as events:
                async for event in events:
                    if isinstance(event, TurnStarted):
                        started.append(event.turn)
                        self._hold.begin()
                    self._tell(event)

        try:
            await self._hold.during(run(), begun=False)
        except TurnInterrupted:
            for turn in started:
                self._tell(TurnEnded(await self._store.get_turn(self._session.id, turn.id)))

    async def _exchange(self, asked: Sequence[Message], *, stored: bool) -> Exchange:
        history = await self._history(self._store, self._session.id)
        return Exchange(
            decision=self._decision,
            session=self._session,
            history=[each for each in history if each.id not in {one.id for one in asked if one.id}],
            asked=asked,
            stored=stored,
            store=self._store,
        )

    async def _give_up(self) -> None:
        """Leave the session as the next holder needs it, unless that one is there already."""
        with suppress(LeaseLost):
            await end_abandoned(self._store, await self._store.last_turn(self._session.id))
        await let_go(self._hold)


async def end_abandoned(store: Store, last: Turn | None) -> None:
    """A turn that is pending although the holder of the lease does not run it has nobody to end it."""
    if last is not None and last.status is TurnStatus.PENDING and last.mode == CHAT:
        await store.close_abandoned_messages()
        gone = TurnFailure(errors=("Whoever ran this turn is gone.",), stop_reason="abandoned")
        await store.fail_turn(last.session_id, last.id, gone)
