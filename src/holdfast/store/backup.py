"""Where a backup is written: beside its target, which appears when the backup is whole."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from holdfast.errors import StoreError


@contextmanager
def published(target: Path) -> Iterator[Path]:
    """A file to write to, which becomes `target` at the end of the block and is gone if that fails.

    It is its owner's alone, like the store: all that was said is in it.
    """
    if target.exists():
        raise _exists(target)
    partial = target.with_name(f"{target.name}.partial-{os.getpid()}")
    try:
        os.close(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    except OSError as error:
        raise StoreError(f"{target} cannot be written: {error.strerror}.") from error
    try:
        yield partial
        file = os.open(partial, os.O_RDONLY)
        try:
            os.fsync(file)
        finally:
            os.close(file)
        os.link(partial, target)  # unlike a rename, it never takes the place of another file
    except FileExistsError:
        raise _exists(target) from None
    finally:
        partial.unlink(missing_ok=True)


def _exists(target: Path) -> StoreError:
    return StoreError(f"{target} already exists; a backup never overwrites.")
