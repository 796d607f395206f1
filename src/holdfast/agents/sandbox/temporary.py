"""The temporary directory of one sandbox. It goes with its session, or with the next start of a server."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import mkdtemp


class TemporaryPlace:
    """Its owner holds a lock on it, so that nobody takes it away meanwhile."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        with _opened(directory) as above:
            fcntl.flock(above, fcntl.LOCK_SH)  # nobody tidies before ours has its lock
            self.path = Path(mkdtemp(dir=directory))
            self._lock = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            fcntl.flock(self._lock, fcntl.LOCK_SH)

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)


def tidy(directory: Path) -> None:
    """Remove those whose owners are gone."""
    if not directory.is_dir():
        return
    with _opened(directory) as above:
        fcntl.flock(above, fcntl.LOCK_EX)
        for path in directory.iterdir():
            with suppress(BlockingIOError, FileNotFoundError), _opened(path) as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(path, ignore_errors=True)


@contextmanager
def _opened(directory: Path) -> Iterator[int]:
    opened = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield opened
    finally:
        os.close(opened)
