"""JSON files that are replaced whole: a reader sees the old content or the new, never a part.

The temporary file lies beside its target, so the rename stays inside one file system wherever
temporary directories are. A file that was written has reached the disk.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn
from uuid import uuid4

from holdfast.questions.errors import AtomicReadError, AtomicWriteError

Json = dict[str, Any]

TEMPORARY = ".tmp"
"""How the names of files that are being written end."""

TRIES = 3
FIRST_PAUSE = 0.05


def write_json(path: Path, value: Json) -> None:
    """Replace `path` as the AUQ programs write it: two spaces, no newline at the end, mode 0600."""
    try:
        text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False)
    except ValueError as error:
        raise AtomicWriteError(path, error) from error
    # Half of a surrogate pair, which a foreign file may hold, becomes its JSON escape.
    write(path, text.encode(errors="backslashreplace"))


def write(path: Path, content: bytes) -> None:
    temporary = path.with_name(f".{path.name}.{uuid4().hex}{TEMPORARY}")
    try:
        try:
            _write_through(temporary, content)
            if temporary.read_bytes() != content:
                raise OSError("Data verification failed after write")
            temporary.replace(path)
        except BaseException:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)
            raise
        sync_directory(path.parent)
    except OSError as error:
        raise AtomicWriteError(path, error) from error


def read_json(
    path: Path, *, tries: int = TRIES, pause: Callable[[float], object] = time.sleep
) -> Json | None:
    """The object in `path`; None when there is no such file.

    What cannot be read or parsed is tried again, after pauses that double: a program that does
    not write atomically may be half-way through.
    """
    for attempt in range(1, tries + 1):
        try:
            return _object(path.read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, ValueError, RecursionError) as error:
            if attempt == tries:
                raise AtomicReadError(path, error) from error
        pause(FIRST_PAUSE * 2 ** (attempt - 1))
    raise AssertionError("a read is tried at least once")


def make_directory(path: Path) -> None:
    """A directory for its owner alone, with those above it that are missing."""
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


def _object(content: bytes) -> Json:
    value = json.loads(content, parse_constant=_refuse_constant)
    if not isinstance(value, dict):
        raise ValueError("The file holds no JSON object")
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")
