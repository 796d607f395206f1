"""The command line that confines a program by Landlock and seccomp, where there are no namespaces.

Paths keep their names: what stands in for another path is not there. The program finds its home by `HOME`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

from holdfast.agents.sandbox.kinds import launcher
from holdfast.agents.sandbox.places import Access, Place

DEVICES = (
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
    "/dev/shm",
    "/dev/ptmx",
    "/dev/pts",
)


def command_line(
    sandlock: Path,
    places: Sequence[Place],
    command: Sequence[str],
    directory: Path,
    *,
    network: bool,
) -> list[str]:
    readable = [place.source for place in places if place.access is Access.READ]
    writable = [place.source for place in places if place.access is Access.WRITE]
    hidden = [place.source for place in places if place.access is Access.HIDDEN]
    options = {
        "fs_readable": [*map(str, readable), "/proc"],
        "fs_writable": [*map(str, writable), *(device for device in DEVICES if Path(device).exists())],
        "fs_denied": [str(path) for path in hidden],
        "net_allow": ["*"] if network else [],
        "net_allow_bind": ["*"] if network else [],
        "cwd": str(directory),
    }
    return launcher("landlock", str(sandlock), json.dumps(options), str(os.getpid()), *command)
