"""A call of a store: one operation, in one transaction, on behalf of whoever the view is of."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any, Concatenate, ParamSpec, TypeVar

from holdfast.errors import AccessDenied, InvalidInput, StoreError
from holdfast.model.records import (
    AuditEntry,
)
from holdfast.store import (
    records,
)
from holdfast.store.runtime import Runtime
from holdfast.store.scope import Scope
from holdfast.store.transaction import Transaction

log = logging.getLogger("holdfast.store")

P = ParamSpec("P")
T = TypeVar("T")

Scoped = Callable[Concatenate[Transaction, Scope, P], Coroutine[Any, Any, T]]
"""An operation on behalf of somebody."""


class Calls:
    def __init__(self, runtime: Runtime, scope: Scope) -> None:
        self._runtime = runtime
        self._engine = runtime.engine
        self._scope = scope

    async def audit(
        self,
        action: str,
        outcome: str,
        *,
        subject: str | None = None,
        detail: dict[str, Any] | None = None,
        once: bool = False,
    ) -> None:
        """Record what this view's caller did, decided or was denied.

        With `once`, nothing is recorded if the action is on record for this subject already.
        """
        entry = AuditEntry(
            action=action,
            outcome=outcome,
            organization=self._scope.organization,
            user=self._scope.user,
            subject=subject,
            door=(detail or {}).get("door") or self._scope.door,
            detail=detail or {},
        )
        add = records.add_audit_once if once else records.add_audit
        await self._engine.write(partial(add, entry=entry, now=self._runtime.clock()))

    async def _read(self, operation: Scoped[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._admitted(self._engine.read(lambda tx: operation(tx, self._scope, *args, **kwargs)))

    async def _glance(self, operation: Scoped[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """A read of few rows."""
        return await self._admitted(
            self._engine.read(lambda tx: operation(tx, self._scope, *args, **kwargs), brief=True)
        )

    async def _snapshot(self, operation: Scoped[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """A read whose statements see one state."""
        return await self._admitted(
            self._engine.read(lambda tx: operation(tx, self._scope, *args, **kwargs), snapshot=True)
        )

    async def _glance_at_once(self, operation: Scoped[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """A read of few rows, whose statements see one state."""
        work = self._engine.read(
            lambda tx: operation(tx, self._scope, *args, **kwargs), snapshot=True, brief=True
        )
        return await self._admitted(work)

    async def _write(self, operation: Scoped[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        result = await self._admitted(
            self._engine.write(lambda tx: operation(tx, self._scope, *args, **kwargs))
        )
        self._runtime.committed()
        return result

    async def _admitted(self, work: Awaitable[T]) -> T:
        """The result; a denial is recorded before it is answered."""
        try:
            return await work
        except AccessDenied as denial:
            try:
                await self.audit(
                    "store.access", "denied", subject=self._scope.agent, detail={"reason": str(denial)}
                )
                denial.on_record = True
            except StoreError as error:
                log.error("a denial is not on record: %s (%s)", error, denial)
            raise
        except OverflowError:
            raise InvalidInput("A number of the call is larger than any that can be stored.") from None
        except UnicodeEncodeError:
            raise InvalidInput("A text of the call is not valid Unicode.") from None
