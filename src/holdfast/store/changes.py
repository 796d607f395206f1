"""The change feed: what happened in a session after a revision.

Every row carries the revision at which it last changed. A change is found by one indexed read
per kind of row, and a client that repeats a read, or reads from an older revision, only sees
rows again that it already has.
"""

from __future__ import annotations

from holdfast.model.message import message_from_row
from holdfast.model.session import SessionRef
from holdfast.store import messages, sessions
from holdfast.store.options import Changes
from holdfast.store.records import compaction_from_row
from holdfast.store.scope import Scope
from holdfast.store.transaction import Row, Transaction
from holdfast.store.turns import turn_from_row


async def since(tx: Transaction, scope: Scope, ref: SessionRef, rev: int, limit: int) -> Changes:
    """Up to `limit` changed rows after `rev`, the earliest first. The caller reads in one snapshot."""
    found = await sessions.find(tx, scope, ref, writing=False)
    session = await sessions.get(tx, scope, ref)
    if session.rev <= rev:
        return Changes(session, [], [], [], session.rev, False)
    said = await _messages(tx, found.pk, rev, limit + 1)
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
    latest = {row[0]: row for row in said if row[4] <= upto}
    return Changes(
        session,
        [message_from_row(*row[1:4]) for row in latest.values()],
        [turn for turn in turns if turn.rev <= upto],
        [compaction for compaction in compactions if compaction.rev <= upto],
        upto,
        more,
    )


async def _messages(tx: Transaction, session_pk: int, rev: int, limit: int) -> list[Row]:
    """Rows of `(pk, seq, rev, body, position)`; the position is where in the feed the row belongs."""
    floor = await tx.one("last_seq_at", session_pk, rev)
    created = await tx.all("messages_created_after", session_pk, floor[0] if floor else 0, limit)
    changed = await tx.all("messages_changed_after", session_pk, rev, limit)
    floors = await messages.open_floors(tx, session_pk)
    streaming = [row for message_pk in floors if (row := await tx.one("message_row", message_pk))]
    current = await messages.as_they_stand(tx, floors, [*created, *changed])
    for pk, seq, at_rev, body, _ in await messages.as_they_stand(tx, floors, streaming):
        if at_rev > rev:
            current.append((pk, seq, at_rev, body, at_rev))
    return sorted(current, key=lambda row: row[4])
