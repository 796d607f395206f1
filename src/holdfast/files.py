"""Files that are replaced whole, reach the disk, and belong to their owner alone."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

TEMPORARY = ".tmp"
"""How the names of files that are being written end."""


def replace(path: Path, content: bytes, *, verify: bool = False) -> None:
    """Write a file: a reader sees the old content or the new, never a part.

    The temporary file lies beside its target, so that the rename stays inside one file system.
    `verify` reads back what was written.
    """
    temporary = path.with_name(f".{path.name}.{uuid4().hex}{TEMPORARY}")
    try:
        _write_through(temporary, content)
        if verify and temporary.read_bytes() != content:
            raise OSError("Data verification failed after write")
        temporary.replace(path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise
    sync_directory(path.parent)


def make_directory(path: Path) -> None:
    """Make a directory, with those above it that are missing."""
    if not path.is_dir():
        make_directory(path.parent)
        path.mkdir(mode=0o700, exist_ok=True)


def sync_directory(path: Path) -> None:
    """Make a rename inside `path` last."""
    directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def _write_through(path: Path, content: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        os.fchmod(descriptor, 0o600)  # whatever the umask is
        file.write(content)
        file.flush()
        os.fsync(descriptor)
