"""The paths by which clients, models and indexes name files: relative, and the same on every system."""

from __future__ import annotations

import re

from holdfast.errors import InvalidInput
from holdfast.model.text import storable

MAX_PATH = 1024
MAX_STEP = 255
"""Bytes in the name of one file or directory, on the file systems in use."""

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_DRIVE = re.compile(r"[A-Za-z]:")


def relative_path(path: str) -> str:
    """`path`, if it names something below a directory: no root, no drive, no step upwards, no backslash.

    This looks at the text alone; where a link would lead, whoever opens the file checks.
    """
    shown = ascii(path[:80])
    if not path or len(path) > MAX_PATH:
        raise InvalidInput(f"A path has 1 to {MAX_PATH} characters; this one has {len(path)}: {shown}.")
    storable(path, "path")
    if _CONTROL.search(path) or "\\" in path or _DRIVE.match(path) or path.startswith("/"):
        raise InvalidInput(f"{shown} is not a relative path with forward slashes.")
    steps = path.split("/")
    if any(step in ("", ".", "..") for step in steps):
        raise InvalidInput(f"{shown} must name a file without empty, '.' or '..' steps.")
    if any(len(step.encode()) > MAX_STEP for step in steps):
        raise InvalidInput(f"A name in {shown} has more than {MAX_STEP} bytes.")
    return path
