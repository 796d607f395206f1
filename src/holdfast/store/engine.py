"""What a database engine gives the store: reads, group-committed writes, and signs of life."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Set
from pathlib import Path
from typing import Protocol, TypeAlias, TypeVar

from holdfast.store.transaction import Operation

T = TypeVar("T")

Committed: TypeAlias = Callable[[Set[int]], None]
"""Takes the sessions that a commit changed, by their internal keys."""


class Engine(Protocol):
    owner: str
    """This process, as the owner of the messages it has open."""

    def listen(self, committed: Committed) -> None:
        """Be told, on the event loop, which sessions each commit of this process changed."""

    async def read(self, operation: Operation[T], *, snapshot: bool = False, brief: bool = False) -> T:
        """The operation's result. With `snapshot`, all its statements see one state.

        `brief` says that it reads few rows, each found by an index: an engine may then read on the
        event loop what takes less time than the way to a thread and back.
        """

    async def write(self, operation: Operation[T]) -> T:
        """The operation's result, once it is committed. An operation that fails changes nothing."""

    async def dead(self, owners: Iterable[str]) -> set[str]:
        """Those of `owners` that surely no longer run; one that is asked about again may have become sure."""

    async def ready(self) -> None:
        """Raise unless the database answers, and is the one that was opened, with the same schema."""

    async def problems(self) -> list[str]:
        """What is wrong with the database, as far as the engine itself can tell."""

    async def backup(self, target: Path) -> None:
        """A consistent copy, made while writers run."""

    async def vacuum(self) -> None:
        """Give free space back to the file system."""

    async def close(self) -> None: ...
