"""Where a backup is written: beside its target, which appears when the backup is whole."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from holdfast.errors import StoreError


@contextmanager
def published(target: Path) -> Iterator[Path]:
    """A file to write to, which becomes `target` at the end of the block and is gone if that fails."""
    if target.exists():
        raise StoreError(f"{target} already exists; a backup never overwrites.")
    partial = target.with_name(f"{target.name}.partial-{os.getpid()}")
    try:
        yield partial
        file = os.open(partial, os.O_RDONLY)
        try:
            os.fsync(file)
        finally:
            os.close(file)
        partial.rename(target)
    finally:
        partial.unlink(missing_ok=True)
