"""Which processes have a database open: each keeps a mark of its own beside it."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from glob import escape
from pathlib import Path

from holdfast.errors import StoreUnavailable
from holdfast.store.marks import Mark, is_abandoned
from holdfast.store.place import place_of

OPENING_SECONDS = 60
"""How long to wait for another process that opens, creates or migrates the database."""

_LOOK_SECONDS = 0.02


class Ownership:
    """This process's mark on a database, from construction to `release`."""

    def __init__(self, path: Path) -> None:
        self._database = path
        self.owner = f"{os.urandom(8).hex()}.{place_of(path.parent)}"
        self._mark = Mark(_file(path, self.owner))

    def dead(self, owners: Iterable[str]) -> set[str]:
        return {owner for owner in owners if owner != self.owner and _is_dead(_file(self._database, owner))}

    def release(self) -> None:
        self._mark.release()


@contextmanager
def opening(path: Path) -> Iterator[None]:
    """Let one process at a time open, create or migrate a database, and clear the marks of dead ones."""
    name = path.with_name(f"{path.name}-lock")
    lock = os.open(name, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        _acquire(lock, name)
        for mark in path.parent.glob(f"{escape(path.name)}-owner-*"):
            if _is_dead(mark):
                mark.unlink(missing_ok=True)
        yield
    finally:
        os.close(lock)


def _acquire(lock: int, name: Path) -> None:
    deadline = time.monotonic() + OPENING_SECONDS
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() >= deadline:
                raise StoreUnavailable(
                    f"Another process has held {name} for {OPENING_SECONDS} seconds; it upgrades the "
                    "database, or it hangs. Wait for it, or end it, and try again."
                ) from None
            time.sleep(_LOOK_SECONDS)  # the system has no wait for a lock that ends by itself


def _file(path: Path, owner: str) -> Path:
    return path.with_name(f"{path.name}-owner-{owner}")


def _is_dead(mark: Path) -> bool:
    try:
        return is_abandoned(mark)
    except FileNotFoundError:
        return True
    except PermissionError:
        return False  # of another user, whose processes we cannot judge
