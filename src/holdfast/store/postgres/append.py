"""Appends of many callers as one statement."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from holdfast.errors import HoldfastError, SessionNotFound
from holdfast.model.ids import id_bytes
from holdfast.model.key import SessionKey
from holdfast.model.message import Message
from holdfast.store.messages import Append
from holdfast.store.scope import Found
from holdfast.store.sessions import found_from_row
from holdfast.store.transaction import Transaction

Name = bytes | tuple[str, str]
"""A session's id, or its organization and key."""

Outcome = list[Message] | HoldfastError | None
"""What became of an append: its messages, its error, or None where it must be run by itself."""


async def append_many(tx: Transaction, appends: Sequence[Append]) -> list[Outcome]:
    outcomes: list[Outcome] = [None] * len(appends)
    names: dict[int, Name] = {}
    for number, append in enumerate(appends):
        try:
            names[number] = _name(append)
        except HoldfastError as error:
            outcomes[number] = error
    found = await _find(tx, names.values())
    admitted: dict[int, list[int]] = {}
    for number, name in names.items():
        try:
            admitted.setdefault(_admitted(appends[number], found.get(name)).pk, []).append(number)
        except HoldfastError as error:
            outcomes[number] = error
    rows = [
        (pk, place, message.id, message.at, message.body)
        for pk, numbers in admitted.items()
        for place, message in enumerate((message for n in numbers for message in appends[n].messages), 1)
    ]
    if not rows:
        return [[] if outcome is None else outcome for outcome in outcomes]
    columns = map(list, zip(*rows, strict=True))
    now = max(append.now for append in appends)
    for pk, seq, rev in await tx.all("append_many", *columns, now):
        tx.advanced.add(pk)
        for number in admitted[pk]:
            messages = appends[number].messages
            outcomes[number] = [each.placed(seq + n, rev + n) for n, each in enumerate(messages, 1)]
            seq, rev = seq + len(messages), rev + len(messages)
    return outcomes


def _name(append: Append) -> Name:
    append.scope.admit_key(append.ref)
    if isinstance(append.ref, SessionKey):
        return append.scope.organization, str(append.ref)
    return id_bytes(append.ref, "session id")


async def _find(tx: Transaction, names: Collection[Name]) -> dict[Name, Found]:
    """The sessions, under both of their names."""
    ids = [name for name in names if isinstance(name, bytes)]
    keys = [name for name in names if isinstance(name, tuple)]
    organizations, texts = [organization for organization, _ in keys], [text for _, text in keys]
    found: dict[Name, Found] = {}
    for *columns, key in await tx.all("find_sessions", ids, organizations, texts):
        session = found_from_row(columns)
        found[session.id] = found[session.organization, key] = session
    return found


def _admitted(append: Append, session: Found | None) -> Found:
    if session is None:
        raise SessionNotFound(append.ref)
    append.scope.admit(session, append.ref, writing=True)
    return session
