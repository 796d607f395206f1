"""Whether the stored data keeps its promises. A healthy store answers with nothing."""

from __future__ import annotations

from holdfast.store.records import forged_audit_words
from holdfast.store.transaction import Transaction

PROMISES = {
    "check_heads": "session {0}: the head says {1} messages, but the messages end at {2} and number {3}",
    "check_times": "session {0}: message {1} is not found by its time",
    "check_turns": "session {0}: the head says {1} turns, but the turns end at {2} and number {3}",
    "check_counts": "the counts say {0} sessions, but there are {1}",
    "check_compactions": "session {0}: it says {1} compactions, but there are {2}",
    "check_revisions": "session {0}: it is at revision {1}, but a row is at {2}",
}


async def broken_promises(tx: Transaction) -> list[str]:
    found = [
        sentence.format(*row) for statement, sentence in PROMISES.items() for row in await tx.all(statement)
    ]
    forged = await forged_audit_words(tx)
    return [*found, *(f"audit entry {pk}: its words are not those that were written" for pk in forged)]
