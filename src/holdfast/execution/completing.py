"""A turn that a model answered, completed: the answer as blobs first, then as the turn's row."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from typing import NamedTuple

from holdfast.blobs import BlobId, Blobs, blob_url
from holdfast.execution.bundle import BundleRefused, parse_bundle
from holdfast.execution.responses import ModelAnswer
from holdfast.model.session import Session
from holdfast.model.text import readable
from holdfast.model.turn import Turn, TurnAnswer, summary
from holdfast.store.store import Store


class KeptAnswer(NamedTuple):
    """An answer as blobs: its text, and the response as the server gave it."""

    text: BlobId
    payload: BlobId


async def keep_answer(blobs: Blobs, session: Session, answer: ModelAnswer) -> KeptAnswer:
    return KeptAnswer(
        *await asyncio.gather(
            blobs.put(session.organization, answer.text.encode()),
            blobs.put(session.organization, answer.payload),
        )
    )


async def complete(
    store: Store,
    session: Session,
    turn: Turn,
    answer: ModelAnswer,
    kept: KeptAnswer,
    *,
    received: datetime,
    kept_for: timedelta | None,
    warnings: tuple[str, ...] = (),
) -> Turn:
    """`kept_for` is how long the provider keeps the response; None when it does not go on from it.

    Nor does it go on from one that asks for a tool, before it is given what the tool said.
    """
    chained = kept_for is not None and answer.response_id is not None and not answer.tool_requests
    return await store.complete_turn(
        session.id,
        turn.id,
        TurnAnswer(
            agent_answer_summary=summary(readable(answer.text)),
            full_agent_answer_url=blob_url(kept.text),
            openai_response_id=answer.response_id,
            openai_response_received_at=received,
            openai_chain_expires_at=received + kept_for if chained and kept_for else None,
            openai_response_payload_url=blob_url(kept.payload),
            warnings=(*warnings, *_warnings(answer)),
            usage=answer.usage,
            stop_reason=answer.stop_reason,
        ),
    )


def _warnings(answer: ModelAnswer) -> list[str]:
    warnings = [
        f"The model asked to call the tool {each.name!r}, which nobody does here."
        for each in answer.tool_requests
    ]
    try:
        parse_bundle(answer.text)
    except BundleRefused as error:
        warnings.append(str(error))
    if answer.stop_reason == "max_output_tokens":
        warnings.append("The answer ends where the limit of output tokens was reached.")
    return warnings
