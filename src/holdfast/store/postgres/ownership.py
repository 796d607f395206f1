"""Which nodes still use a database.

Every node holds an advisory lock with its writing connection. It may lose that for a moment, when
the server or something on the way to it is restarted, and gets it back; so a lock must have been
free for a while before its node counts as dead. The nodes of one machine know better: each keeps a
mark of its own in a directory of the machine, which tells at once.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import tempfile
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from holdfast.store.marks import Mark, is_abandoned
from holdfast.store.place import place_of
from holdfast.store.postgres.connection import Connection

RETURN_SECONDS = 10
"""How long a node may be without its connection. It tries every second to get it back."""

FREE_LOCKS = """
SELECT lock FROM unnest($1::bigint[]) AS lock WHERE NOT EXISTS (
    SELECT FROM pg_locks JOIN pg_database ON pg_database.oid = pg_locks.database
    WHERE datname = current_database() AND locktype = 'advisory' AND objsubid = 1
        AND classid::bigint << 32 | objid::bigint = lock
)
"""


class Ownership:
    """This node's mark, from construction to `release`. Its lock is taken by the writer."""

    def __init__(self) -> None:
        self.lock = secrets.randbits(62)
        self._marks = _directory()
        self.owner = f"{self.lock}.{_name(self._marks)}.{place_of(self._marks)}"
        self._mark = _make_mark(self._marks / self.owner)
        self._missing: dict[str, float] = {}
        """Since when the locks of nodes elsewhere have been free, as far as was looked."""

    async def dead(self, connection: Connection, owners: Iterable[str]) -> set[str]:
        others = set(owners) - {self.owner}
        rows = await connection.fetch(FREE_LOCKS, [_lock(owner) for owner in others])
        free = {lock for (lock,) in rows}
        now = time.monotonic()
        missing = {owner for owner in others if _lock(owner) in free}
        self._missing = {owner: self._missing.get(owner, now) for owner in missing}
        return {owner for owner in others if self._is_dead(owner, now)}

    def release(self) -> None:
        self._mark.release()

    def _is_dead(self, owner: str, now: float) -> bool:
        is_missing = owner in self._missing
        if owner.split(".")[1] != _name(self._marks):
            return is_missing and now - self._missing[owner] >= RETURN_SECONDS
        try:
            return is_abandoned(self._marks / owner)
        except FileNotFoundError:
            return is_missing


def _directory() -> Path:
    """Where the nodes of this machine and user keep their marks."""
    directory = Path(tempfile.gettempdir(), f"holdfast-nodes-{os.getuid()}")
    directory.mkdir(mode=0o700, exist_ok=True)
    return directory


def _name(directory: Path) -> str:
    """A name that no other machine's directory has, kept in it as a link that leads nowhere."""
    with suppress(FileExistsError):
        (directory / "name").symlink_to(secrets.token_hex(8))
    return str((directory / "name").readlink())


def _make_mark(path: Path) -> Mark:
    """A new mark, and none any more of nodes that are gone."""
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        fcntl.flock(directory, fcntl.LOCK_EX)  # nobody takes a mark that is being made for an abandoned one
        for mark in path.parent.glob("*.*"):
            with suppress(FileNotFoundError):
                if is_abandoned(mark):
                    mark.unlink()
        return Mark(path)
    finally:
        os.close(directory)


def _lock(owner: str) -> int:
    return int(owner.partition(".")[0])
