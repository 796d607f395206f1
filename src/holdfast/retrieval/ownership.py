"""Who has a directory open that only one process may: a lock, and the owner's number in it."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from holdfast.retrieval.errors import IndexInUse

NAME = "owner"


class Ownership:
    """This process's hold on a directory, from construction to `release`. It ends with the process, too."""

    def __init__(self, directory: Path) -> None:
        self._file = os.open(directory / NAME, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = os.pread(self._file, 20, 0).decode(errors="replace").strip()
            os.close(self._file)
            raise IndexInUse(directory, int(owner) if owner.isdigit() else None) from None
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        os.close(self._file)
