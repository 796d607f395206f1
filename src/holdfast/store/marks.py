"""Signs of life: files that a process holds locked for as long as it lives.

The operating system lets go of the lock when the process ends, however it ends, and a lock cannot
be mistaken for that of another process that was given the same number.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path


class Mark:
    """This process's mark, from construction to `release`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        fcntl.flock(self._file, fcntl.LOCK_EX)

    def release(self) -> None:
        self._path.unlink(missing_ok=True)
        os.close(self._file)


def is_abandoned(mark: Path) -> bool:
    """Whether the process that made the mark is gone."""
    file = os.open(mark, os.O_RDWR)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(file)
    return True
