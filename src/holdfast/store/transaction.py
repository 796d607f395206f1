"""What an operation of the store is written against: a transaction that runs named statements.

Operations are coroutines, so that one text serves both engines. On PostgreSQL they really wait;
on SQLite they run through in the thread that owns the connection and never suspend.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator, Sequence
from typing import Any, Protocol, TypeAlias, TypeVar

T = TypeVar("T")


class Row(Protocol):
    """A tuple of SQLite's, or a record of PostgreSQL's."""

    def __getitem__(self, index: Any, /) -> Any: ...

    def __iter__(self) -> Iterator[Any]: ...

    def __len__(self) -> int: ...


class Transaction(Protocol):
    advanced: set[int]
    """The sessions that were changed in it, by their internal keys."""

    def text(self, statement: str) -> str:
        """The SQL behind a name."""

    async def one(self, statement: str, *parameters: Any) -> Row | None:
        """The first row, or None."""

    async def all(self, statement: str, *parameters: Any) -> Sequence[Row]:
        """Every row."""

    async def run(self, statement: str, *parameters: Any) -> None:
        """A write whose rows nobody needs."""

    async def many(self, statement: str, rows: Sequence[Sequence[Any]]) -> None:
        """One write per row."""

    async def query(self, sql: str, *parameters: Any) -> Sequence[Row]:
        """Every row of SQL that was put together from fixed pieces (a listing's filters)."""


Operation: TypeAlias = Callable[[Transaction], Coroutine[Any, Any, T]]


def run_through(coroutine: Coroutine[Any, Any, T]) -> T:
    """The result of an operation whose transaction never waits."""
    try:
        coroutine.send(None)
    except StopIteration as finished:
        return finished.value  # type: ignore[no-any-return]
    coroutine.close()
    raise RuntimeError("an operation of the store awaited something other than its transaction")
