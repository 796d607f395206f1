"""Chunks of streaming messages: written as they come, folded into the message when it ends."""

from __future__ import annotations

from collections.abc import Sequence, Set

import msgspec

from holdfast.errors import MessageFinal, SessionNotFound
from holdfast.model.content import interrupted
from holdfast.model.ids import MessageId, id_bytes
from holdfast.model.lease import Lease
from holdfast.model.message import Message, message_from_row
from holdfast.model.tokens import TokenCounter
from holdfast.store import sessions
from holdfast.store.standing import with_count, with_text
from holdfast.store.transaction import Transaction


class Chunk(msgspec.Struct, frozen=True):
    session_pk: int
    message_pk: int
    text: str
    """Escaped."""
    after: int | None = None
    """Where it begins in the stream's text, when an earlier try may have stored some of it."""
    lease: Lease | None = None
    """In whose name it is written."""


async def locate(tx: Transaction, message_id: MessageId) -> tuple[int, int]:
    """The internal keys of a message and its session."""
    row = await tx.one("message_by_id", id_bytes(message_id, "message id"))
    if row is None or await tx.one("open_message", row[0]) is None:
        raise MessageFinal(message_id)
    return row[1], row[0]


async def write(tx: Transaction, chunks: Sequence[Chunk], now: int) -> dict[int, int]:
    """Store chunks of many streams; the revision of each by message.

    A stream that is gone is left out, as is one whose turn went to another holder: its message ends there.
    """
    revisions: dict[int, int] = {}
    for chunk in sorted(chunks, key=lambda chunk: chunk.session_pk):  # every node locks in this order
        try:
            _, rev = await sessions.advance(tx, chunk.session_pk, now)
        except SessionNotFound:
            continue
        opened = await tx.one("open_message", chunk.message_pk)
        if opened is None:
            continue
        if not await _is_held(tx, chunk):
            await _cut(tx, chunk.message_pk, opened[0], rev)
            continue
        stored = (
            await tx.all("chunks_of_message", opened[0], chunk.message_pk) if chunk.after is not None else []
        )
        if text := _missing(chunk, [text for text, _ in stored]):
            await tx.run("insert_chunk", chunk.message_pk, rev, text)
        revisions[chunk.message_pk] = rev
    return revisions


async def end(
    tx: Transaction,
    message_id: MessageId,
    chunk: Chunk,
    now: int,
    *,
    again: bool,
    counter: TokenCounter | None = None,
) -> Message | None:
    """Fold a stream, with what was not yet written of it, into its message, which is then final.

    `again` says that an earlier try may have done so: then what it left is the answer. None when the turn
    went to another holder, and the message has ended with what was stored of it before.
    """
    try:
        _, rev = await sessions.advance(tx, chunk.session_pk, now)
    except SessionNotFound:
        raise MessageFinal(message_id) from None
    row = await tx.one("message_by_id", id_bytes(message_id, "message id"))
    opened = await tx.one("open_message", chunk.message_pk)
    if row is None:
        raise MessageFinal(message_id)
    _, _, seq, stored_rev, body = row
    if opened is None:
        message = message_from_row(seq, stored_rev, body)
        if again and not message.metadata.get("interrupted"):
            return message
        raise MessageFinal(message_id)
    if not await _is_held(tx, chunk):
        await _cut(tx, chunk.message_pk, opened[0], rev)
        return None
    stored = [text for text, _ in await tx.all("chunks_of_message", opened[0], chunk.message_pk)]
    folded = with_count(with_text(body, [*stored, _missing(chunk, stored)], partial=False), counter)
    await _close(tx, chunk.message_pk, folded, rev)
    return message_from_row(seq, rev, folded)


async def owners(tx: Transaction) -> list[str]:
    """Who has messages open."""
    return [row[0] for row in await tx.all("open_message_owners")]


async def fold_abandoned(tx: Transaction, dead: Set[str], owner: str, now: int) -> int:
    """Close the open messages of writers that are gone, with the text they had; how many there were."""
    claimed = [row for each in dead for row in await tx.all("claim_open_messages", owner, each)]
    for message_pk, session_pk, floor in claimed:
        _, rev = await sessions.advance(tx, session_pk, now)
        await _cut(tx, message_pk, floor, rev)
    return len(claimed)


async def _is_held(tx: Transaction, chunk: Chunk) -> bool:
    """Whether the turn in which a chunk is said is still its writer's."""
    if chunk.lease is None:
        return True
    row = await tx.one("lease_token", chunk.session_pk)
    return row is not None and row[0] == chunk.lease.token


async def _cut(tx: Transaction, message_pk: int, floor: int, rev: int) -> None:
    """Close an open message with the text it has."""
    row = await tx.one("message_row", message_pk)
    assert row is not None
    stored = await tx.all("chunks_of_message", floor, message_pk)
    await _close(tx, message_pk, _cut_short(row[3], [text for text, _ in stored]), rev)


async def _close(tx: Transaction, message_pk: int, body: str, rev: int) -> None:
    await tx.run("close_message", message_pk)
    await tx.run("change_message", body, rev, message_pk)


def _missing(chunk: Chunk, stored: Sequence[str]) -> str:
    """What of a chunk is not yet among the stored pieces of its stream."""
    if chunk.after is None:
        return chunk.text
    return chunk.text[max(0, sum(map(len, stored)) - chunk.after) :]


def _cut_short(body: str, more: Sequence[str]) -> str:
    """A body whose writer died: its content closed, and marked, so that nobody takes it for the whole."""
    parts = msgspec.json.decode(with_text(body, more), type=dict[str, msgspec.Raw])
    content = interrupted(msgspec.json.decode(parts["content"]))
    metadata = msgspec.json.decode(parts.get("metadata", b"{}")) | {"interrupted": True}
    return msgspec.json.encode(parts | {"content": content, "metadata": metadata}).decode()
