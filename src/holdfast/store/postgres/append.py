"""Appends of many callers as one statement."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.errors import HoldfastError, SessionNotFound
from holdfast.model.ids import id_bytes
from holdfast.model.key import SessionKey
from holdfast.model.message import Message
from holdfast.store.messages import Append, placed
from holdfast.store.scope import Found
from holdfast.store.sessions import found_from_row
from holdfast.store.transaction import Transaction

Outcome = list[Message] | HoldfastError | None
"""What became of an append: its messages, its error, or None where it must be run by itself."""


async def append_many(tx: Transaction, appends: Sequence[Append]) -> list[Outcome]:
    outcomes: list[Outcome] = [None] * len(appends)
    found = await _find(tx, appends)
    admitted: dict[int, list[int]] = {}
    for number, append in enumerate(appends):
        try:
            session = _admitted(append, found)
        except HoldfastError as error:
            outcomes[number] = error
        else:
            admitted.setdefault(session.pk, []).append(number)
    counts = [sum(len(appends[n].messages) for n in numbers) for numbers in admitted.values()]
    rows = [
        (pk, place, message.id, message.at, message.body)
        for pk, numbers in admitted.items()
        for place, message in enumerate((message for n in numbers for message in appends[n].messages), 1)
    ]
    if not rows:
        return [[] if outcome is None else outcome for outcome in outcomes]
    now = max(append.now for append in appends)
    for pk, seq, rev in await tx.all(
        "append_many", list(admitted), counts, now, *map(list, zip(*rows, strict=True))
    ):
        for number in admitted[pk]:
            messages = appends[number].messages
            outcomes[number] = [placed(each, seq + n, rev + n) for n, each in enumerate(messages, 1)]
            seq, rev = seq + len(messages), rev + len(messages)
    return outcomes


async def _find(tx: Transaction, appends: Sequence[Append]) -> dict[object, Found]:
    """The sessions named by id or by key, under both names."""
    ids, organizations, keys = set(), [], []
    for append in appends:
        if isinstance(append.ref, SessionKey):
            organizations.append(append.scope.organization)
            keys.append(str(append.ref))
        else:
            ids.add(id_bytes(append.ref, "session id"))
    found: dict[object, Found] = {}
    for *columns, key in await tx.all("find_sessions", list(ids), organizations, keys):
        session = found_from_row(columns)
        found[session.id] = found[session.organization, key] = session
    return found


def _admitted(append: Append, found: dict[object, Found]) -> Found:
    append.scope.admit_key(append.ref)
    by_key = isinstance(append.ref, SessionKey)
    name = (append.scope.organization, str(append.ref)) if by_key else id_bytes(str(append.ref), "session id")
    session = found.get(name)
    if session is None:
        raise SessionNotFound(append.ref)
    append.scope.admit(session, append.ref, writing=True)
    return session
