"""Turns: opened pending, completed or failed once, never changed again."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from holdfast.errors import Conflict, NotFound
from holdfast.model.content import encode_json
from holdfast.model.ids import SessionId, TurnId, id_bytes, id_text
from holdfast.model.message import Message
from holdfast.model.session import SessionRef
from holdfast.model.status import require_live
from holdfast.model.times import from_ms, to_ms
from holdfast.model.turn import (
    ActiveFileRef,
    ChunkRef,
    NewTurn,
    Recipe,
    Turn,
    TurnAnswer,
    TurnFailure,
    TurnProgress,
    TurnStatus,
    ending_moment,
    require_pending,
)
from holdfast.model.usage import TokenUsage
from holdfast.store import messages, sessions
from holdfast.store.scope import Scope
from holdfast.store.transaction import Row, Transaction

# Prepared here, once: msgspec (0.22) crashes the process when two threads are the first to decode a struct.
_chunk_refs = msgspec.json.Decoder(tuple[ChunkRef, ...]).decode
_file_refs = msgspec.json.Decoder(tuple[ActiveFileRef, ...]).decode
_texts = msgspec.json.Decoder(tuple[str, ...]).decode
_recipe = msgspec.json.Decoder(Recipe).decode


async def add(
    tx: Transaction,
    scope: Scope,
    ref: SessionRef,
    new: NewTurn,
    turn_id: TurnId,
    expected: int | None,
    now: int,
) -> Turn:
    found = await sessions.find(tx, scope, ref, writing=True)
    require_live(found.status)
    _, rev = await sessions.advance(tx, found.pk, now, turns=1, expected=expected)
    found = await sessions.find(tx, scope, ref, writing=True)
    require_live(found.status)
    await sessions.activate(tx, found)
    await tx.run(
        "insert_turn",
        *(found.pk, id_bytes(turn_id, "turn id"), rev, new.created_by or scope.user, now, new.mode),
        *(new.conversation_id, new.previous_openai_response_id, new.openai_model, new.instruction_summary),
        *(new.full_instruction_url, new.openai_request_payload_url),
        *(_json(new.chunk_refs), _json(new.active_file_refs), _json(new.warnings)),
    )
    return await _get(tx, found.pk, turn_id)


async def repeated(tx: Transaction, scope: Scope, ref: SessionRef, new: NewTurn) -> Turn | None:
    """The turn that an earlier call opened under the same id, if it was opened to do the same."""
    if new.id is None:
        return None
    found = await sessions.find(tx, scope, ref, writing=True)
    row = await tx.one("turn_by_id", found.pk, id_bytes(new.id, "turn id"))
    if row is None:
        return None
    earlier = turn_from_row(row)
    if (earlier.instruction_summary, earlier.mode) != (new.instruction_summary, new.mode):
        raise Conflict(f"Another turn already has the id {new.id}; give a new one its own id.")
    return earlier


async def progress(
    tx: Transaction, scope: Scope, ref: SessionRef, turn_id: TurnId, known: TurnProgress, now: int
) -> Turn:
    pk, turn, rev = await _pending(tx, scope, ref, turn_id, now)
    await tx.run(
        "progress_turn",
        *(rev, known.openai_response_id, known.previous_openai_response_id, known.openai_model),
        known.openai_request_payload_url,
        None if known.chunk_refs is None else _json(known.chunk_refs),
        None if known.active_file_refs is None else _json(known.active_file_refs),
        _json(turn.warnings + known.warnings),
        known.conversation_id,
        None if known.recipe is None else _json(known.recipe),
        *(pk, id_bytes(turn_id)),
    )
    return await _get(tx, pk, turn_id)


async def complete(
    tx: Transaction, scope: Scope, ref: SessionRef, turn_id: TurnId, answer: TurnAnswer, now: int
) -> Turn:
    return await _end(tx, scope, ref, turn_id, TurnStatus.COMPLETED, answer, now)


async def fail(
    tx: Transaction, scope: Scope, ref: SessionRef, turn_id: TurnId, failure: TurnFailure, now: int
) -> Turn:
    return await _end(tx, scope, ref, turn_id, TurnStatus.FAILED, failure, now)


async def get(tx: Transaction, scope: Scope, ref: SessionRef, turn_id: TurnId) -> Turn:
    found = await sessions.find(tx, scope, ref, writing=False)
    return await _get(tx, found.pk, turn_id)


async def session_of(tx: Transaction, scope: Scope, turn_id: TurnId) -> SessionId:
    row = await tx.one("session_of_turn", id_bytes(turn_id, "turn id"))
    if row is None:
        raise NotFound(f"No turn {turn_id} is visible here; check the id, and who asks.")
    found = await sessions.find(tx, scope, id_text(row[0]), writing=False)
    return SessionId(id_text(found.id))


async def of_message(tx: Transaction, scope: Scope, message: Message) -> Turn | None:
    """The turn in which a message was said or is answered, in whichever session; None when there is none."""
    stored = await messages.earlier(tx, message)
    if stored is None or stored.turn_id is None:
        return None
    return await get(tx, scope, await session_of(tx, scope, stored.turn_id), stored.turn_id)


async def last(tx: Transaction, scope: Scope, ref: SessionRef) -> Turn | None:
    found = await sessions.find(tx, scope, ref, writing=False)
    row = await tx.one("last_turn", found.pk)
    return turn_from_row(row) if row else None


async def answered(tx: Transaction, scope: Scope, ref: SessionRef, before: int) -> Turn | None:
    """The last turn before a sequence number that a model answered."""
    found = await sessions.find(tx, scope, ref, writing=False)
    row = await tx.one("answered_turn", found.pk, before)
    return turn_from_row(row) if row else None


async def after(tx: Transaction, scope: Scope, ref: SessionRef, sequence: int, limit: int) -> list[Turn]:
    found = await sessions.find(tx, scope, ref, writing=False)
    return [turn_from_row(row) for row in await tx.all("turns_after", found.pk, sequence, limit)]


async def pending(tx: Transaction) -> list[Turn]:
    """Every pending turn of every session, for whoever recovers them after a crash."""
    return [turn_from_row(row) for row in await tx.all("pending_turns")]


def turn_from_row(row: Row) -> Turn:
    # fmt: off
    (
        raw_id, session_id, sequence, rev, status, created_by, created_at, status_at, received_at, expires_at,
        mode, conversation_id, response_id, previous_response_id, model, instruction_summary, instruction_url,
        answer_summary, answer_url, request_url, response_url, chunk_refs, file_refs, warnings, errors,
        input_tokens, output_tokens, stop_reason, recipe,
    ) = row
    # fmt: on
    return Turn(
        id=TurnId(id_text(raw_id)),
        session_id=SessionId(id_text(session_id)),
        sequence_number=sequence,
        rev=rev,
        status=TurnStatus(status),
        created_by=created_by,
        created_at=from_ms(created_at),
        status_at=from_ms(status_at),
        openai_response_received_at=_moment(received_at),
        openai_chain_expires_at=_moment(expires_at),
        mode=mode,
        conversation_id=conversation_id,
        openai_response_id=response_id,
        previous_openai_response_id=previous_response_id,
        openai_model=model,
        instruction_summary=instruction_summary,
        full_instruction_url=instruction_url,
        agent_answer_summary=answer_summary,
        full_agent_answer_url=answer_url,
        openai_request_payload_url=request_url,
        openai_response_payload_url=response_url,
        chunk_refs=_chunk_refs(chunk_refs),
        active_file_refs=_file_refs(file_refs),
        warnings=_texts(warnings),
        errors=_texts(errors),
        usage=TokenUsage(input_tokens, output_tokens),
        stop_reason=stop_reason,
        recipe=None if recipe is None else _recipe(recipe),
    )


async def _end(
    tx: Transaction,
    scope: Scope,
    ref: SessionRef,
    turn_id: TurnId,
    status: TurnStatus,
    ended: TurnAnswer | TurnFailure,
    now: int,
) -> Turn:
    found = await sessions.find(tx, scope, ref, writing=True)
    turn = await _get(tx, found.pk, turn_id)
    if _ended_so(turn, status, ended):
        return turn  # the answer to an earlier call was lost
    pk, turn, rev = await _pending(tx, scope, ref, turn_id, now)
    answer = ended if isinstance(ended, TurnAnswer) else None
    await tx.run(
        "end_turn",
        *(rev, status.value, to_ms(ending_moment(ended, from_ms(now))), ended.openai_response_id),
        *(_ms(ended.openai_response_received_at), _ms(ended.openai_chain_expires_at)),
        *(answer and answer.agent_answer_summary, answer and answer.full_agent_answer_url),
        ended.openai_response_payload_url,
        _json(turn.warnings + ended.warnings),
        _json(turn.errors + (ended.errors if isinstance(ended, TurnFailure) else ())),
        *(ended.usage.input, ended.usage.output, ended.stop_reason),
        *(pk, id_bytes(turn_id)),
    )
    if ended.usage != TokenUsage():
        await tx.run("add_usage", ended.usage.input, ended.usage.output, pk)
    return await _get(tx, pk, turn_id)


def _ended_so(turn: Turn, status: TurnStatus, ended: TurnAnswer | TurnFailure) -> bool:
    """Whether the turn stands as ending it this way would have left it."""
    answer = ended if isinstance(ended, TurnAnswer) else None
    failure = ended if isinstance(ended, TurnFailure) else None
    return (
        turn.status is status
        and ended.openai_response_id in (None, turn.openai_response_id)
        and turn.warnings[len(turn.warnings) - len(ended.warnings) :] == ended.warnings
        and (
            *(_ms(turn.openai_response_received_at), _ms(turn.openai_chain_expires_at)),
            *(turn.agent_answer_summary, turn.full_agent_answer_url, turn.openai_response_payload_url),
            *(turn.errors, turn.usage, turn.stop_reason),
        )
        == (
            *(_ms(ended.openai_response_received_at), _ms(ended.openai_chain_expires_at)),
            *(answer and answer.agent_answer_summary, answer and answer.full_agent_answer_url),
            ended.openai_response_payload_url,
            *(failure.errors if failure else (), ended.usage, ended.stop_reason),
        )
    )


async def _pending(
    tx: Transaction, scope: Scope, ref: SessionRef, turn_id: TurnId, now: int
) -> tuple[int, Turn, int]:
    """The session's key, the turn, and the revision at which it may now be changed."""
    found = await sessions.find(tx, scope, ref, writing=True)
    require_pending(turn_id, (await _get(tx, found.pk, turn_id)).status)
    _, rev = await sessions.advance(tx, found.pk, now)
    turn = await _get(tx, found.pk, turn_id)
    require_pending(turn_id, turn.status)
    return found.pk, turn, rev


async def _get(tx: Transaction, session_pk: int, turn_id: TurnId) -> Turn:
    row = await tx.one("turn_by_id", session_pk, id_bytes(turn_id, "turn id"))
    if row is None:
        raise NotFound(f"The session has no turn {turn_id}.")
    return turn_from_row(row)


def _json(value: Any) -> str:
    return encode_json(value, "turn").decode()


def _moment(ms: int | None) -> datetime | None:
    return None if ms is None else from_ms(ms)


def _ms(moment: datetime | None) -> int | None:
    return None if moment is None else to_ms(moment)
