"""Bindings that people added while Holdfast runs; those of the settings are not here."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.errors import NotFound
from holdfast.model.content import encode_json
from holdfast.model.records import BindingRecord
from holdfast.model.times import from_ms
from holdfast.store.scope import Scope
from holdfast.store.transaction import Row, Transaction


async def add(tx: Transaction, scope: Scope, rule: dict[str, Any], now: int) -> BindingRecord:
    scope.admit_admin("add a binding")
    text = encode_json(rule, "binding").decode()
    row = await tx.one("insert_binding", scope.organization, text, now)
    assert row is not None
    return _from_row((row[0], text, now))


async def every(tx: Transaction, scope: Scope) -> list[BindingRecord]:
    return [_from_row(row) for row in await tx.all("bindings", scope.organization)]


async def remove(tx: Transaction, scope: Scope, number: int) -> BindingRecord:
    scope.admit_admin("remove a binding")
    row = await tx.one("delete_binding", scope.organization, number)
    if row is None:
        raise NotFound(f"There is no binding {number} in the store; list them to see their numbers.")
    return _from_row(row)


def _from_row(row: Row) -> BindingRecord:
    number, rule, created_at = row
    return BindingRecord(number=number, rule=msgspec.json.decode(rule), created_at=from_ms(created_at))
