"""Search: the sessions whose title has a text, or one of whose messages has all of its words.

The words of messages are kept by `word_index.py`, with a mark of whose they are, so that what others
said is not even looked at. Whether a caller may see a session is decided as in every listing; the
marks only make it quick.

What a search costs is bounded: of a frequent word only the newest messages count, of a frequent title
the newest sessions, and then the page says so.
"""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.model.ids import SessionId
from holdfast.model.message import message_from_row
from holdfast.model.words import Sought, readable
from holdfast.store import listing
from holdfast.store.known import KnownSessions
from holdfast.store.options import Match, SessionFilter, SessionOrder, SessionPage
from holdfast.store.scope import Scope
from holdfast.store.statements import checked
from holdfast.store.transaction import Row, Transaction
from holdfast.store.word_index import mark

NEWEST = 5000
"""Messages and titles that a search finds. A word that is in more of them does not tell sessions apart."""

MATCHES = 100
"""Sessions of a page that come with the message that was found."""

Place = tuple[int, int]
"""Where a session stands in a listing: when it changed last, and its key."""

_WHOSE = ("organization", "owner")


class Found(msgspec.Struct, frozen=True):
    """A page, and by session the message that was found."""

    page: SessionPage
    rows: dict[SessionId, Row]

    def with_matches(self, text: str) -> SessionPage:
        """The page with some of what each message says. Where messages are long, this takes a while."""
        sought = Sought.of(text)
        matches = {session_id: _match(row, sought) for session_id, row in self.rows.items()}
        return msgspec.structs.replace(self.page, matches=matches)


async def find(
    tx: Transaction, scope: Scope, wanted: SessionFilter, unread: int, known: KnownSessions
) -> Found:
    """A page of the sessions found. `unread` is how many messages could not be looked at."""
    if wanted.text is None or not scope.may_list(wanted.owner):
        return Found(SessionPage([], 0, wanted.limit, wanted.offset, None), {})
    sought = Sought.of(wanted.text)
    equal = await listing.equalities(tx, scope, wanted)
    titled = await _titled(tx, equal, wanted.text)
    hits = await _hits(tx, equal, sought)
    newest = await _newest_by_session(tx, hits)
    places = await _listed(tx, equal, wanted, sorted({*titled, *newest}))
    chosen, following = _chosen(places, wanted)
    sessions = await listing.sessions_at(tx, wanted.order, _json([pk for _, pk in chosen]), known)
    page = SessionPage(
        sessions=list(sessions.values()),
        total=len(places),
        limit=wanted.limit,
        offset=wanted.offset,
        next=following,
        is_all=max(len(titled), len(hits)) < NEWEST,
        unread=unread,
    )
    shown = [pk for pk in sessions if pk in newest][:MATCHES]
    return Found(page, {sessions[pk].id: await _row(tx, newest[pk]) for pk in shown})


async def _titled(tx: Transaction, equal: dict[str, Any], text: str) -> list[int]:
    """The newest sessions with `text` in their titles, of those whose messages are looked at."""
    whose = {column: equal[column] for column in _WHOSE if column in equal}
    conditions = [f"{column} = ${number}" for number, column in enumerate(whose, 1)]
    conditions.append(f"lower(title) LIKE ${len(whose) + 1} ESCAPE '!'")
    sql = tx.text("titled_sessions").replace("CONDITIONS", " AND ".join(conditions))
    sql = sql.replace("LIMITED", f"${len(whose) + 2}")
    rows = await tx.query(checked(sql), *whose.values(), f"%{_literal(text.lower())}%", NEWEST)
    return [row[0] for row in rows]


def _literal(text: str) -> str:
    """`text` in which LIKE finds no wildcard."""
    return text.replace("!", "!!").replace("%", "!%").replace("_", "!_")


async def _hits(tx: Transaction, equal: dict[str, Any], sought: Sought) -> list[int]:
    """The newest messages with these words."""
    if not sought.words:
        return []
    words = [*_marks(equal), *sought.words]
    found = await _with_words(tx, words, "")
    if len(found) < NEWEST and sought.has_prefix:
        # Every word that begins like this is looked up, which is worth it only if the word itself is rare.
        found = await _with_words(tx, words, "*")
    return found


async def _with_words(tx: Transaction, words: list[str], end: str) -> list[int]:
    return [row[0] for row in await tx.all("messages_with_words", _json(words), end, NEWEST)]


def _marks(equal: dict[str, Any]) -> list[str]:
    """Whose messages to look at: an owner's, or all of an organization's, or everybody's."""
    return [mark(*(equal[column] for column in _WHOSE if column in equal))] if "organization" in equal else []


async def _newest_by_session(tx: Transaction, hits: list[int]) -> dict[int, int]:
    """For each session that messages belong to, the newest of them."""
    newest: dict[int, int] = {}
    for message_pk, session_pk in await tx.all("sessions_of_messages", _json(hits)):
        newest[session_pk] = max(message_pk, newest.get(session_pk, 0))
    return newest


async def _listed(
    tx: Transaction, equal: dict[str, Any], wanted: SessionFilter, pks: list[int]
) -> list[Place]:
    """Those of some sessions that belong in the listing: all else that was asked for holds for them."""
    after = [_json(pks)]
    conditions, values = listing.with_status(*listing.conditions_of(equal, wanted, after), wanted)
    sql = tx.text("listed_sessions").replace("CONDITIONS", " AND ".join(["true", *conditions]))
    return [(updated_at, pk) for updated_at, pk in await tx.query(checked(sql), *values)]


def _chosen(places: list[Place], wanted: SessionFilter) -> tuple[list[Place], str | None]:
    """A page of these, and where the next one begins."""
    begin = 0 if wanted.order is SessionOrder.UPDATED else 1
    before = listing.place_of(wanted)
    rest = [place for place in places if before is None or place[begin:] < before[begin:]]
    rest.sort(key=lambda place: place[begin:], reverse=True)
    end = wanted.offset + wanted.limit
    chosen = rest[wanted.offset : end]
    if len(rest) <= end or not chosen:
        return chosen, None
    updated_at, pk = chosen[-1]
    return chosen, listing.cursor(wanted.order, pk, updated_at)


async def _row(tx: Transaction, message_pk: int) -> Row:
    row = await tx.one("message_row", message_pk)
    assert row is not None  # it was found in this very snapshot
    return row


def _match(row: Row, sought: Sought) -> Match:
    _, seq, rev, body, _ = row
    message = message_from_row(seq, rev, body)
    assert message.id is not None
    return Match(message.id, seq, sought.snippet(readable(body)))


def _json(values: list[Any]) -> str:
    return msgspec.json.encode(values).decode()
