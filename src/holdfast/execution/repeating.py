"""Calls that are repeated: what makes two of them the same, and waiting for the turn of the first."""

from __future__ import annotations

from contextlib import aclosing
from hashlib import sha256

import msgspec

from holdfast.errors import NotFound
from holdfast.execution.input import ExecutionInput
from holdfast.model.ids import SessionId, TurnId
from holdfast.model.turn import Turn, TurnStatus
from holdfast.store.store import Store


def request_hash(asked: ExecutionInput) -> str:
    return sha256(msgspec.json.encode(asked, order="deterministic")).hexdigest()


async def ended_turn(view: Store, session_id: SessionId, turn_id: TurnId, *, since: int = 0) -> Turn:
    """A turn, once it has ended; `since` is a revision at which it had not."""
    async with aclosing(view.follow(session_id, since)) as items:
        async for changes in items:
            for turn in changes.turns:
                if turn.id == turn_id and turn.status is not TurnStatus.PENDING:
                    return turn
    raise NotFound(f"The session has no turn {turn_id} any more.")
