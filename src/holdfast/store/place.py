"""Where a process runs, as nothing that is kept on a disk can say it.

A copy of a database has the numbers of processes in it that serve the original. They mean something only in
the same directory, until the machine is started again, and in the same container.
"""

from __future__ import annotations

import hashlib
from contextlib import suppress
from pathlib import Path

BOOT = Path("/proc/sys/kernel/random/boot_id")
PROCESSES = Path("/proc/self/ns/pid")


def place_of(directory: Path) -> str:
    """A name of this directory, start of the machine and namespace of processes."""
    here = directory.stat()
    told = [str(here.st_dev), str(here.st_ino)]
    with suppress(OSError):  # Linux alone says these
        told += [BOOT.read_text().strip(), str(PROCESSES.stat().st_ino)]
    return hashlib.sha256(" ".join(told).encode()).hexdigest()[:16]
