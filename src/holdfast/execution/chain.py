"""The chain of responses that a request may go on from, and what was sent in it already.

A chain lives at the provider and ends there, after thirty days or sooner; the session does not. A
request goes on from the last response only when the provider is known to keep them, it is the same
model with the same credentials, the response has not expired, and since then what a model is shown of
the session has not been compacted, and nothing was said outside of turns.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

import msgspec

from holdfast.compaction.layout import chain_in_effect
from holdfast.execution.history import plain
from holdfast.model.ids import CompactionId
from holdfast.model.session import Session
from holdfast.model.turn import Turn, TurnStatus
from holdfast.store.options import HistoryOptions
from holdfast.store.store import Store

MARGIN = timedelta(minutes=5)
"""How long before its end a chain is no longer gone on with."""

PAGE = 50


class Chain(msgspec.Struct, frozen=True, kw_only=True):
    conversation_id: str | None
    """The turn it began with; None for a new one."""
    previous_response_id: str | None
    """The response to go on from; None sends everything that was said before."""
    compaction: CompactionId | None
    """What a model is shown of the session is as this compaction leaves it."""
    turns: Sequence[Turn]
    """Those whose part of the conversation the model has, or is sent with this request."""
    warning: str | None = None
    """Why an earlier chain is not gone on with."""

    @property
    def files(self) -> dict[str, str]:
        """The hash of each file as it was last sent."""
        sent = (ref for turn in self.turns for ref in turn.active_file_refs if ref.was_sent_to_llm)
        return {ref.path: ref.content_hash for ref in sent}

    @property
    def chunks(self) -> set[tuple[str, str]]:
        return {(ref.chunk_id, ref.content_hash) for turn in self.turns for ref in turn.chunk_refs}


async def find_chain(
    store: Store, session: Session, turn: Turn, fingerprint: str, *, chains: bool, now: datetime
) -> Chain:
    compaction = await _compaction_in_effect(store, session)
    last = await store.answered_turn(session.id, before=turn.sequence_number)
    if last is None or last.recipe is None:
        return Chain(conversation_id=None, previous_response_id=None, compaction=compaction, turns=())
    broken = _broken(last, fingerprint, compaction, now) if chains else None
    if chains and broken is None and await _is_more_said(store, session, last):
        broken = "Something was said since the last turn that the provider does not have."
    if chains and broken is None:
        assert last.conversation_id is not None
        return Chain(
            conversation_id=last.conversation_id,
            previous_response_id=last.openai_response_id,
            compaction=compaction,
            turns=await _turns(store, session, last.conversation_id, turn),
        )
    return Chain(
        conversation_id=None,
        previous_response_id=None,
        compaction=compaction,
        turns=await _turns(store, session, None, turn) if compaction is None else (),
        warning=f"CHAIN_REBUILT: {broken} Everything said before was sent again." if broken else None,
    )


def _broken(last: Turn, fingerprint: str, compaction: CompactionId | None, now: datetime) -> str | None:
    """Why the chain of the last answered turn cannot be gone on with."""
    assert last.recipe is not None
    expires = last.openai_chain_expires_at
    if last.openai_response_id is None or last.conversation_id is None:
        return "The provider gave the last response no id."
    if last.recipe.provider != fingerprint:
        return "The model, its provider or the credentials are others than before."
    if last.recipe.compaction != compaction:
        return "The session was compacted."
    if expires is None:
        return "The last response was not kept, or waits for what a tool says."
    if now >= expires - MARGIN:
        return "The provider keeps responses only for a time, and the last one is too old."
    return None


async def _is_more_said(store: Store, session: Session, last: Turn) -> bool:
    """Whether something was said after a turn that belongs to no other."""
    before: int | None = None
    while page := await store.get_history(session.id, HistoryOptions(before=before, limit=PAGE)):
        for message in reversed(page.messages):
            if message.turn_id == last.id:
                return False
            if message.turn_id is None and plain(message) and not message.metadata.get("unanswered"):
                return True
        before = page.messages[0].seq
    return False


async def _compaction_in_effect(store: Store, session: Session) -> CompactionId | None:
    if not session.compaction_count:
        return None
    _, outlines = await store.compaction_outlines(session.id)
    chain = chain_in_effect(outlines)
    return chain[-1].id if chain else None


async def _turns(store: Store, session: Session, conversation_id: str | None, before: Turn) -> list[Turn]:
    """The answered turns of a chain, or of all."""
    return [
        turn
        async for turn in store.every_turn(session.id)
        if turn.sequence_number < before.sequence_number
        and turn.status is TurnStatus.COMPLETED
        and turn.recipe is not None
        and conversation_id in (None, turn.conversation_id)
    ]
