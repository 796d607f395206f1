"""The JSON files of question sets, read and written as the AUQ programs do."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from holdfast import files
from holdfast.questions.errors import AtomicReadError, AtomicWriteError

Json = dict[str, Any]

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
    try:
        files.replace(path, content, verify=True)
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


def _object(content: bytes) -> Json:
    value = json.loads(content, parse_constant=_refuse_constant)
    if not isinstance(value, dict):
        raise ValueError("The file holds no JSON object")
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")
