"""Turns that a process left pending when it died.

The next process claims them. A response whose id is known, and which the provider kept, is fetched;
any other turn fails as orphaned. The model is never called again by itself: it may have answered,
and would be paid twice.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta

from holdfast.blobs import Blobs
from holdfast.errors import NotFound, TurnEnded
from holdfast.execution.completing import complete, keep_answer
from holdfast.execution.errors import ModelError, Orphaned
from holdfast.execution.responses import ModelAnswer, Provider
from holdfast.model.ids import SessionId, TurnId
from holdfast.model.message import Message, Role
from holdfast.model.session import Session
from holdfast.model.turn import Turn, TurnFailure
from holdfast.routing.hold import let_go, take_hold
from holdfast.store.options import HistoryOptions
from holdfast.store.store import Store
from holdfast.telemetry import bound

log = logging.getLogger("holdfast.execution")

PAGE = 500
"""Messages that are read at a time."""

FETCHED = "The process that ran this turn is gone; the answer was fetched from the provider."


class Recovery:
    def __init__(
        self,
        store: Store,
        blobs: Blobs,
        providers: Mapping[str, Provider],
        kept_for: timedelta,
        clock: Callable[[], datetime],
    ) -> None:
        self._store = store
        self._blobs = blobs
        self._providers = providers
        self._kept_for = kept_for
        self._clock = clock
        self._claimed: list[tuple[SessionId, TurnId]] = []
        """Turns that are ours to end, and have not ended yet."""

    async def recover(self) -> None:
        """End what can be ended now. The rest is tried again by the next call: nobody else will."""
        self._claimed += await self._store.claim_abandoned_turns()
        for session_id, turn_id in tuple(self._claimed):
            with bound(session=session_id, turn=turn_id):
                try:
                    if await self._store.lease_seconds(session_id):
                        continue  # somebody is at work in the session, for as long as it takes
                    session = await self._store.get_session(session_id)
                    await self._end(session, await self._store.get_turn(session_id, turn_id))
                except NotFound:
                    log.debug("the turn was deleted with its session")
                except Exception as error:  # whatever it was, the other turns are ended
                    log.warning("the turn was left by a process that is gone, and cannot end yet: %s", error)
                    continue
            self._claimed.remove((session_id, turn_id))

    async def _end(self, session: Session, turn: Turn) -> None:
        hold = await take_hold(self._store, session.id)
        try:
            answer = await self._fetched(turn)
            if answer is None:
                log.warning("the turn was left by a process that is gone, and has failed")
                await hold.store.fail_turn(session.id, turn.id, _failure(Orphaned()))
                return
            log.warning("the turn was left by a process that is gone; its answer was fetched")
            kept = await keep_answer(self._blobs, session, answer)
            if left := answer.text.removeprefix(await self._said(turn)):
                await hold.store.append_messages(session.id, [Message.agent(left)], turn_id=turn.id)
            await complete(
                hold.store,
                session,
                turn,
                answer,
                kept,
                received=self._clock(),
                kept_for=self._kept_for,
                warnings=(FETCHED,),
            )
        except ModelError as error:
            await hold.store.fail_turn(session.id, turn.id, _failure(error))
        except TurnEnded:
            log.debug("the turn has ended meanwhile")
        finally:
            await let_go(hold)

    async def _said(self, turn: Turn) -> str:
        """What is stored of the answer already: its pieces as they came."""
        since = turn.created_at - timedelta(milliseconds=1)
        pieces: list[str] = []
        after = 0
        while page := await self._store.get_history(
            turn.session_id, HistoryOptions(after=after, since=since, limit=PAGE)
        ):
            pieces += [each.text for each in page if each.turn_id == turn.id and each.role is Role.AGENT]
            after = page.messages[-1].seq
        return "".join(pieces)

    async def _fetched(self, turn: Turn) -> ModelAnswer | None:
        if turn.openai_response_id is None or turn.recipe is None or turn.openai_model is None:
            return None
        for provider in self._providers.values():
            if provider.chains and provider.is_that_of(turn.recipe.provider, turn.openai_model):
                return await provider.fetch(turn.openai_response_id)
        return None


def _failure(error: Orphaned | ModelError) -> TurnFailure:
    return TurnFailure(errors=(str(error),), stop_reason=error.code)
