"""Which processes have a database open, told by the operating system's own file locks.

Every process that opens a database holds a lock on a file of its own beside it. The lock goes
when the process does, however it ends, and cannot be mistaken for that of another process that
was given the same number.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from glob import escape
from pathlib import Path


class Ownership:
    """This process's mark on a database, from construction to `release`."""

    def __init__(self, path: Path) -> None:
        self._database = path
        self.owner = os.urandom(8).hex()
        self._file = os.open(_file(path, self.owner), os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        fcntl.flock(self._file, fcntl.LOCK_EX)

    def dead(self, owners: Iterable[str]) -> set[str]:
        return {owner for owner in owners if owner != self.owner and _is_dead(_file(self._database, owner))}

    def release(self) -> None:
        _file(self._database, self.owner).unlink(missing_ok=True)
        os.close(self._file)


@contextmanager
def opening(path: Path) -> Iterator[None]:
    """Let one process at a time open, create or migrate a database, and clear the marks of dead ones."""
    lock = os.open(path.with_name(f"{path.name}-lock"), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for mark in path.parent.glob(f"{escape(path.name)}-owner-*"):
            if _is_dead(mark):
                mark.unlink(missing_ok=True)
        yield
    finally:
        os.close(lock)


def _file(path: Path, owner: str) -> Path:
    return path.with_name(f"{path.name}-owner-{owner}")


def _is_dead(mark: Path) -> bool:
    try:
        file = os.open(mark, os.O_RDWR)
    except FileNotFoundError:
        return True
    except PermissionError:
        return False  # of another user, whose processes we cannot judge
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(file)
    return True
