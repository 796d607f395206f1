"""Asking git about a repository whose own settings nobody has vouched for.

No program that the repository names is run: no hook, no file system monitor, no transport.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

SECONDS = 10.0


def output(path: Path, *arguments: str, seconds: float = SECONDS) -> bytes | None:
    """What git prints when it is run at `path`; None when it fails, or takes too long."""
    command = ["git", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-C", str(path)]
    environment = {
        "PATH": os.environ.get("PATH", ""),
        "LC_ALL": "C.UTF-8",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_ALLOW_PROTOCOL": "",  # nothing that is missing is fetched, by whatever program
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "safe.directory",
        "GIT_CONFIG_VALUE_0": "*",
    }
    try:
        answer = subprocess.run(
            [*command, *arguments],
            capture_output=True,
            env=environment,
            timeout=seconds,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return answer.stdout if answer.returncode == 0 else None


def said(path: Path, *arguments: str) -> str | None:
    """The same as text, where there is any."""
    answer = output(path, *arguments)
    return None if answer is None else answer.decode(errors="replace").strip().replace("\0", "") or None
