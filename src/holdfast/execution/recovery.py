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
from holdfast.errors import TurnEnded
from holdfast.execution.completing import complete, keep_answer
from holdfast.execution.errors import ModelError, Orphaned
from holdfast.execution.responses import ModelAnswer, Provider
from holdfast.model.message import Message
from holdfast.model.session import Session
from holdfast.model.turn import Turn, TurnFailure
from holdfast.routing.hold import let_go, take_hold
from holdfast.store.store import Store
from holdfast.telemetry import bound

log = logging.getLogger("holdfast.execution")

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

    async def recover(self) -> None:
        for session_id, turn_id in await self._store.claim_abandoned_turns():
            with bound(session=session_id, turn=turn_id):
                session = await self._store.get_session(session_id)
                await self._end(session, await self._store.get_turn(session_id, turn_id))

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
            await hold.store.append_messages(session.id, [Message.agent(answer.text)], turn_id=turn.id)
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

    async def _fetched(self, turn: Turn) -> ModelAnswer | None:
        if turn.openai_response_id is None or turn.recipe is None or turn.openai_model is None:
            return None
        for provider in self._providers.values():
            if provider.chains and provider.is_that_of(turn.recipe.provider, turn.openai_model):
                return await provider.fetch(turn.openai_response_id)
        return None


def _failure(error: Orphaned | ModelError) -> TurnFailure:
    return TurnFailure(errors=(str(error),), stop_reason=error.code)
