"""Listing sessions: any filter, newest first, with an exact total that is not counted.

A page is read from an index that ends in the order asked for; several statuses are several such
reads, merged. Totals come from `session_counts`, which triggers keep; only filters that table
does not know (chat peers, time ranges) are counted by reading.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import count
from typing import Any

from holdfast.errors import InvalidInput
from holdfast.model.ids import id_bytes
from holdfast.model.records import Contents
from holdfast.model.session import Session
from holdfast.model.status import SessionStatus
from holdfast.model.times import to_ms
from holdfast.store.known import KnownSessions
from holdfast.store.options import BRIEF, CURSOR, SessionFilter, SessionOrder, SessionPage
from holdfast.store.scope import Scope
from holdfast.store.sessions import unknown_repo
from holdfast.store.statements import checked
from holdfast.store.transaction import Transaction

_COUNTED = ("owner", "agent", "repo_pk")


async def page(tx: Transaction, scope: Scope, wanted: SessionFilter, known: KnownSessions) -> SessionPage:
    if not scope.may_list(wanted.owner):
        return SessionPage([], 0, wanted.limit, wanted.offset, None)
    equal = await equalities(tx, scope, wanted)
    conditions, values = conditions_of(equal, wanted)
    statuses = sorted(wanted.status) if wanted.status is not None else [None]
    column = column_of(wanted.order)
    conditions, values = _from_cursor(conditions, values, wanted)
    parameters: list[Any] = list(values)
    for status in statuses:
        parameters += ([] if status is None else [str(status)]) + [wanted.offset + wanted.limit + 1]
    parameters += [wanted.limit + 1, wanted.offset]
    by_status = 0 if wanted.status is None else len(statuses)
    sql = _page_sql(tx.text("session_page"), tuple(conditions), len(values), by_status, column)
    rows = await tx.query(sql, *parameters) if statuses else []
    following = None
    if len(rows) > wanted.limit:
        rows = rows[: wanted.limit]
        pk, _, updated_at = rows[-1]
        following = cursor(wanted.order, pk, updated_at)
    total = await _total(tx, equal, wanted, len(rows) if following is None and not wanted.before else None)
    sessions = await known.at(tx, [(pk, rev) for pk, rev, _ in rows])
    return SessionPage(sessions, total, wanted.limit, wanted.offset, following)


def is_brief(scope: Scope, wanted: SessionFilter) -> bool:
    """Whether a page is a matter of few rows: one index leads to them, and nothing has to be counted."""
    if scope.principal is None or not wanted.counted or wanted.offset + wanted.limit > BRIEF:
        return False
    owned = wanted.owner is not None or not scope.principal.is_admin
    narrowed = (scope.agent or wanted.agent_id, wanted.repo_id, wanted.status)
    return owned + sum(each is not None for each in narrowed) <= 1


@lru_cache(maxsize=256)
def _page_sql(text: str, conditions: tuple[str, ...], values: int, statuses: int, column: str) -> str:
    """The SQL of a page whose conditions take so many values: one read, or one for each status."""
    numbers = count(values + 1)
    reads = []
    for _ in range(statuses or 1):
        clauses = [*conditions, *([f"status = ${next(numbers)}"] if statuses else [])]
        where = f"WHERE {' AND '.join(clauses)}" if clauses else ""
        reads.append(
            f"SELECT * FROM (SELECT pk, updated_at FROM sessions {where} "
            f"ORDER BY {column} DESC, pk DESC LIMIT ${next(numbers)}) AS part"
        )
    sql = text.replace("CHOSEN", " UNION ALL ".join(reads)).replace("ORDERED", column)
    return checked(sql.replace("LIMITED", f"LIMIT ${next(numbers)} OFFSET ${next(numbers)}"))


async def sessions_at(
    tx: Transaction, order: SessionOrder, pks: str, known: KnownSessions
) -> dict[int, Session]:
    """Sessions by their keys, which are a JSON array, in the order of a listing."""
    chosen = tx.text("listed_sessions").replace("CONDITIONS", "true")
    sql = tx.text("session_page").replace("CHOSEN", chosen).replace("ORDERED", column_of(order))
    rows = await tx.query(checked(sql.replace("LIMITED", "")), pks)
    places = [(pk, rev) for pk, rev, _ in rows]
    return {pk: session for (pk, _), session in zip(places, await known.at(tx, places), strict=True)}


def column_of(order: SessionOrder) -> str:
    return "updated_at" if order is SessionOrder.UPDATED else "pk"


async def totals(tx: Transaction) -> dict[SessionStatus, int]:
    """How many sessions of all organizations are in each status."""
    counted: dict[str, int] = {status: int(n) for status, n in await tx.all("session_totals")}
    return {status: counted.get(status, 0) for status in SessionStatus}


async def contents(tx: Transaction) -> Contents:
    """How much there is of all organizations."""
    row = await tx.one("contents")
    assert row is not None
    organizations, sessions, messages, tokens, audit_entries = row
    return Contents(
        organizations=organizations,
        sessions=sessions,
        messages=messages,
        tokens=tokens,
        audit_entries=audit_entries,
    )


async def equalities(tx: Transaction, scope: Scope, wanted: SessionFilter) -> dict[str, Any]:
    """Column values that must hold, from the filter and from who is asking."""
    if wanted.agent_id is not None:
        scope.admit_agent(wanted.agent_id)
    owner = wanted.owner
    equal: dict[str, Any] = {}
    if scope.principal is not None:
        equal["organization"] = scope.organization
        if not scope.principal.is_admin:
            owner = scope.user
    if owner is not None:
        equal["owner"] = owner
    agent = wanted.agent_id if scope.agent is None else scope.agent
    if agent is not None:
        equal["agent"] = agent
    if wanted.repo_id is not None:
        row = await tx.one("repo_pk", scope.organization, id_bytes(wanted.repo_id, "repository id"))
        if row is None:
            raise unknown_repo(wanted.repo_id)
        equal["repo_pk"] = row[0]
    peer = {
        "channel": wanted.channel,
        "account": wanted.account_id,
        "peer_kind": wanted.peer_kind and wanted.peer_kind.value,
        "peer": wanted.peer_id,
    }
    return equal | {column: value for column, value in peer.items() if value is not None}


def conditions_of(
    equal: dict[str, Any], wanted: SessionFilter, after: Sequence[Any] = ()
) -> tuple[list[str], list[Any]]:
    """What must hold besides status and text. The parameters are numbered on from those of `after`."""
    values = list(after)
    conditions = []
    for column, value in equal.items():
        values.append(value)
        conditions.append(f"{column} = ${len(values)}")
    for comparison, moment in wanted.ranges:
        values.append(to_ms(moment))
        conditions.append(f"{comparison} ${len(values)}")
    if wanted.participant is not None:
        values.append(wanted.participant)
        number = len(values)
        conditions.append(
            f"(owner = ${number} OR EXISTS (SELECT 1 FROM turns t "
            f"WHERE t.session_pk = sessions.pk AND t.created_by = ${number}))"
        )
    return conditions, values


def with_status(
    conditions: list[str], values: list[Any], wanted: SessionFilter
) -> tuple[list[str], list[Any]]:
    """These conditions, and that the status is one of those wanted."""
    if wanted.status is None:
        return conditions, values
    first = len(values) + 1
    values = values + [str(status) for status in sorted(wanted.status)]
    numbers = ", ".join(f"${number}" for number in range(first, len(values) + 1))
    return [*conditions, f"status IN ({numbers})" if numbers else "false"], values


def cursor(order: SessionOrder, pk: int, updated_at: int) -> str:
    """What says where a page ends."""
    return f"{order.value}-{updated_at}-{pk}"


def place_of(wanted: SessionFilter) -> tuple[int, int] | None:
    """Where the page before ended: when its last session had changed, and the session's key."""
    if wanted.before is None:
        return None
    kind, _, place = wanted.before.partition("-")
    if kind != wanted.order.value or not re.match(CURSOR, wanted.before):
        raise InvalidInput(f"{wanted.before!r} is not a cursor of this listing; take a page's `next`.")
    updated_at, _, pk = place.partition("-")
    return int(updated_at), int(pk)


def _from_cursor(
    conditions: list[str], values: list[Any], wanted: SessionFilter
) -> tuple[list[str], list[Any]]:
    place = place_of(wanted)
    if place is None:
        return conditions, values
    number = len(values)
    if wanted.order is SessionOrder.UPDATED:
        earlier = f"(updated_at, pk) < (${number + 1}, ${number + 2})"
        return [*conditions, earlier], [*values, *place]
    return [*conditions, f"pk < ${number + 1}"], [*values, place[1]]


async def _total(tx: Transaction, equal: dict[str, Any], wanted: SessionFilter, seen: int | None) -> int:
    if seen is not None and (seen or not wanted.offset):
        return wanted.offset + seen
    if "organization" in equal and wanted.counted:
        row_key = {"owner": "", "agent": "", "repo_pk": 0} | equal
        rows = await tx.all("session_counts", *(row_key[column] for column in ("organization", *_COUNTED)))
        return sum(n for status, n in rows if wanted.status is None or status in wanted.status)
    conditions, values = with_status(*conditions_of(equal, wanted), wanted)
    where = f"WHERE {' AND '.join(conditions)}" if conditions else ""
    rows = await tx.query(checked(f"SELECT count(*) FROM sessions {where}"), *values)
    return int(rows[0][0])
