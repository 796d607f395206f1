"""Listing sessions: any filter, newest first, with an exact total that is not counted.

A page is read from an index that ends in the order asked for; several statuses are several such
reads, merged. Totals come from `session_counts`, which triggers keep; only filters that table
does not know (chat peers, time ranges) are counted by reading.
"""

from __future__ import annotations

from typing import Any

from holdfast.errors import InvalidInput
from holdfast.model.ids import id_bytes
from holdfast.model.status import SessionStatus
from holdfast.model.times import to_ms
from holdfast.store.options import SessionFilter, SessionOrder, SessionPage
from holdfast.store.scope import Scope
from holdfast.store.sessions import session_from_row, unknown_repo
from holdfast.store.statements import checked
from holdfast.store.transaction import Transaction

_COUNTED = ("owner", "agent", "repo_pk")


async def page(tx: Transaction, scope: Scope, wanted: SessionFilter) -> SessionPage:
    if not scope.may_list(wanted.owner):
        return SessionPage([], 0, wanted.limit, wanted.offset, None)
    equal = await _equalities(tx, scope, wanted)
    conditions, values = _conditions(equal, wanted)
    statuses = sorted(wanted.status) if wanted.status is not None else [None]
    column = "updated_at" if wanted.order is SessionOrder.UPDATED else "pk"
    conditions, values = _from_cursor(conditions, values, wanted)
    reads = []
    parameters: list[Any] = list(values)
    reach = wanted.offset + wanted.limit + 1
    for status in statuses:
        clauses = list(conditions)
        if status is not None:
            parameters.append(str(status))
            clauses.append(f"status = ${len(parameters)}")
        where = f"WHERE {' AND '.join(clauses)}" if clauses else ""
        parameters.append(reach)
        reads.append(
            f"SELECT * FROM (SELECT pk, updated_at FROM sessions {where} "
            f"ORDER BY {column} DESC, pk DESC LIMIT ${len(parameters)}) AS part"
        )
    chosen = " UNION ALL ".join(reads)
    parameters += [wanted.limit + 1, wanted.offset]
    sql = tx.text("session_page").replace("CHOSEN", chosen).replace("ORDERED", column)
    sql = sql.replace("LIMITED", f"LIMIT ${len(parameters) - 1} OFFSET ${len(parameters)}")
    rows = await tx.query(checked(sql), *parameters) if statuses else []
    following = None
    if len(rows) > wanted.limit:
        rows = rows[: wanted.limit]
        following = _cursor(wanted.order, *rows[-1][-2:])
    total = await _total(tx, equal, wanted, len(rows) if following is None and not wanted.before else None)
    return SessionPage(
        [session_from_row(row[:-2]) for row in rows], total, wanted.limit, wanted.offset, following
    )


async def totals(tx: Transaction) -> dict[SessionStatus, int]:
    """How many sessions of all organizations are in each status."""
    counted: dict[str, int] = {status: int(n) for status, n in await tx.all("session_totals")}
    return {status: counted.get(status, 0) for status in SessionStatus}


async def _equalities(tx: Transaction, scope: Scope, wanted: SessionFilter) -> dict[str, Any]:
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
    if agent := (scope.agent or wanted.agent_id):
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


def _conditions(equal: dict[str, Any], wanted: SessionFilter) -> tuple[list[str], list[Any]]:
    conditions = [f"{column} = ${number}" for number, column in enumerate(equal, 1)]
    values = list(equal.values())
    for comparison, moment in _ranges(wanted):
        values.append(to_ms(moment))
        conditions.append(f"{comparison} ${len(values)}")
    if wanted.text is not None:
        values.append(f"%{_literal(wanted.text.lower())}%")
        conditions.append(f"lower(title) LIKE ${len(values)} ESCAPE '!'")
    if wanted.participant is not None:
        values.append(wanted.participant)
        number = len(values)
        conditions.append(
            f"(owner = ${number} OR EXISTS (SELECT 1 FROM turns t "
            f"WHERE t.session_pk = sessions.pk AND t.created_by = ${number}))"
        )
    return conditions, values


def _literal(text: str) -> str:
    """`text` in which LIKE finds no wildcard."""
    return text.replace("!", "!!").replace("%", "!%").replace("_", "!_")


def _ranges(wanted: SessionFilter) -> list[tuple[str, Any]]:
    ranges = (
        ("created_at >", wanted.created_after),
        ("created_at <", wanted.created_before),
        ("updated_at >", wanted.updated_after),
        ("updated_at <", wanted.updated_before),
    )
    return [(comparison, moment) for comparison, moment in ranges if moment is not None]


def _read(wanted: SessionFilter) -> bool:
    """Whether only reading sessions tells how many match."""
    return bool(_ranges(wanted)) or wanted.text is not None or wanted.participant is not None


def _from_cursor(
    conditions: list[str], values: list[Any], wanted: SessionFilter
) -> tuple[list[str], list[Any]]:
    if wanted.before is None:
        return conditions, values
    kind, _, place = wanted.before.partition("-")
    updated_at, _, pk = place.partition("-")
    if kind != wanted.order.value or not updated_at.isdigit() or not pk.isdigit():
        raise InvalidInput(f"{wanted.before!r} is not a cursor of this listing; take a page's `next`.")
    number = len(values)
    if wanted.order is SessionOrder.UPDATED:
        earlier = f"(updated_at, pk) < (${number + 1}, ${number + 2})"
        return [*conditions, earlier], [*values, int(updated_at), int(pk)]
    return [*conditions, f"pk < ${number + 1}"], [*values, int(pk)]


def _cursor(order: SessionOrder, pk: int, updated_at: int) -> str:
    return f"{order.value}-{updated_at}-{pk}"


async def _total(tx: Transaction, equal: dict[str, Any], wanted: SessionFilter, seen: int | None) -> int:
    if seen is not None and (seen or not wanted.offset):
        return wanted.offset + seen
    if "organization" in equal and not (set(equal) - {"organization", *_COUNTED}) and not _read(wanted):
        row_key = {"owner": "", "agent": "", "repo_pk": 0} | equal
        rows = await tx.all("session_counts", *(row_key[column] for column in ("organization", *_COUNTED)))
        return sum(n for status, n in rows if wanted.status is None or status in wanted.status)
    conditions, values = _conditions(equal, wanted)
    if wanted.status is not None:
        first = len(values) + 1
        values += [str(status) for status in sorted(wanted.status)]
        numbers = ", ".join(f"${number}" for number in range(first, len(values) + 1))
        conditions.append(f"status IN ({numbers})")
    where = f"WHERE {' AND '.join(conditions)}" if conditions else ""
    rows = await tx.query(checked(f"SELECT count(*) FROM sessions {where}"), *values)
    return int(rows[0][0])
