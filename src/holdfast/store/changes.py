"""What happened in a session after a revision, and which sessions changed after a position.

Every row carries the revision at which it last changed. A change is found by one indexed read
per kind of row, and a client that repeats a read, or reads from an older revision, only sees
rows again that it already has.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import msgspec

from holdfast.model.ids import MessageId, SessionId, id_text
from holdfast.model.message import message_from_row
from holdfast.model.session import SessionRef
from holdfast.store import sessions, standing
from holdfast.store.options import ChangedSessions, Changes, Delta
from holdfast.store.records import compaction_from_row
from holdfast.store.scope import Scope
from holdfast.store.transaction import Row, Transaction
from holdfast.store.turns import turn_from_row


class Streaming(msgspec.Struct, frozen=True):
    """A message that a follower has as it stood at one of its chunks."""

    message_id: MessageId
    chunk: int
    """The key of that chunk; that of the floor where there was none."""


class Position(msgspec.Struct, frozen=True):
    """How much of a session a follower has."""

    rev: int
    streaming: Mapping[int, Streaming] = {}
    """The open messages it was given, by their internal keys: of these it needs only the rest."""


async def since(tx: Transaction, scope: Scope, ref: SessionRef, rev: int, limit: int) -> Changes:
    """Up to `limit` changed rows after `rev`, the earliest first. The caller reads in one snapshot."""
    changes, _ = await after(tx, scope, ref, Position(rev), limit)
    return changes


async def after(
    tx: Transaction, scope: Scope, ref: SessionRef, position: Position, limit: int
) -> tuple[Changes, Position]:
    """What changed after a follower's position, and the position it has then."""
    found = await sessions.find(tx, scope, ref, writing=False)
    session = await sessions.get(tx, scope, ref)
    rev = position.rev
    if session.rev <= rev:
        return Changes(session, [], [], [], session.rev, False), position
    floors = await standing.open_floors(tx, found.pk)
    said = await _messages(tx, found.pk, rev, floors, position.streaming, limit + 1)
    turns = [turn_from_row(row) for row in await tx.all("turns_changed_after", found.pk, rev, limit + 1)]
    folds = await tx.all("compactions_changed_after", found.pk, rev, limit + 1)
    compactions = [compaction_from_row(row) for row in folds]
    revisions = sorted(
        [row[4] for row in said]
        + [turn.rev for turn in turns]
        + [compaction.rev for compaction in compactions]
    )
    more = len(revisions) > limit
    upto = revisions[limit - 1] if more else session.rev
    latest = {row[0]: message_from_row(*row[1:4]) for row in said if row[4] <= upto}
    deltas: list[Delta] = []
    streaming: dict[int, Streaming] = {}
    for message_pk, floor in floors.items():
        message = latest.get(message_pk)
        # Whoever has reached `upto` otherwise need not look at this page: what is later is not over with it.
        if message is not None and message.rev <= upto:
            assert message.id is not None
            streaming[message_pk] = Streaming(message.id, await _last_chunk(tx, message_pk, floor))
        elif known := position.streaming.get(message_pk):
            streaming[message_pk] = known if more else await _rest(tx, message_pk, known, deltas)
    changes = Changes(
        session,
        list(latest.values()),
        [turn for turn in turns if turn.rev <= upto],
        [compaction for compaction in compactions if compaction.rev <= upto],
        upto,
        more,
        deltas,
    )
    return changes, Position(upto, streaming)


async def sessions_after(tx: Transaction, scope: Scope, position: int, limit: int) -> ChangedSessions:
    """Up to `limit` sessions that the caller may list and that changed after `position`."""
    everybody = scope.principal is None or scope.principal.is_admin
    visible = (scope.organization, position, "" if everybody else scope.user, scope.agent or "", limit + 1)
    last, _ = await last_change(tx)
    changed = await tx.all("sessions_changed_after", *visible)
    deleted = await tx.all("sessions_deleted_after", *visible)
    numbers = sorted([row[-1] for row in changed] + [row[-1] for row in deleted])
    more = len(numbers) > limit
    upto = numbers[limit - 1] if more else last
    return ChangedSessions(
        [sessions.session_from_row(row[:-1]) for row in changed if row[-1] <= upto],
        [SessionId(id_text(raw)) for raw, number in deleted if number <= upto],
        upto,
        more,
    )


async def last_change(tx: Transaction) -> tuple[int, bool]:
    """The position of the last session that changed, and whether others are still to be numbered."""
    row = await tx.one("changes_position")
    assert row is not None
    return row[0], bool(row[1])


async def _messages(
    tx: Transaction,
    session_pk: int,
    rev: int,
    floors: dict[int, int],
    known: Collection[int],
    limit: int,
) -> list[Row]:
    """Rows of `(pk, seq, rev, body, position)`; the position is where in the feed the row belongs."""
    floor = await tx.one("last_seq_at", session_pk, rev)
    created = await tx.all("messages_created_after", session_pk, floor[0] if floor else 0, limit)
    changed = await tx.all("messages_changed_after", session_pk, rev, limit)
    unknown = [message_pk for message_pk in floors if message_pk not in known]
    streaming = [row for message_pk in unknown if (row := await tx.one("message_row", message_pk))]
    current = await standing.as_they_stand(tx, floors, [*created, *changed])
    for pk, seq, at_rev, body, _ in await standing.as_they_stand(tx, floors, streaming):
        if at_rev > rev:
            current.append((pk, seq, at_rev, body, at_rev))
    return sorted(current, key=lambda row: row[4])


async def _last_chunk(tx: Transaction, message_pk: int, floor: int) -> int:
    row = await tx.one("last_chunk", floor, message_pk)
    return max(floor, row[0]) if row else floor


async def _rest(tx: Transaction, message_pk: int, known: Streaming, deltas: list[Delta]) -> Streaming:
    """Add to `deltas` what was said after the follower's chunk; where the follower is then."""
    chunks = await tx.all("chunks_after", known.chunk, message_pk)
    deltas += [Delta(known.message_id, rev, msgspec.json.decode(f'"{text}"')) for _, text, rev in chunks]
    return Streaming(known.message_id, chunks[-1][0]) if chunks else known
