"""Taking turns at the files of a question set.

`file_lock` is the lock the AUQ programs know: a file `{path}.lock` that holds the owner's process
id. They may delete it while it is held (a writer of theirs that gives up removes it), and they
take an empty one, so it keeps order with them and no more. Our own processes rely on `guard`, a
lock of the operating system on the directory itself: nobody can delete it, and it goes when its
process does.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

from holdfast.questions.errors import LockNotAcquired

LOCK_SECONDS = 5.0
"""How long we wait for a lock: as long as the AUQ programs do."""

STEP_SECONDS = 0.005

EMPTY_LOCK_SECONDS = 2.0
"""The age at which a lock without a process id was not just created, but left by a crash."""


@contextmanager
def guard(directory: Path, seconds: float = LOCK_SECONDS) -> Iterator[None]:
    """Hold a directory among our own processes and threads. FileNotFoundError when it is gone."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        deadline = time.monotonic() + seconds
        while not _try_flock(descriptor):
            _wait_until(deadline, directory)
        if not _is_at(descriptor, directory):  # deleted or renamed while we waited
            raise FileNotFoundError(directory)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def file_lock(path: Path, seconds: float = LOCK_SECONDS) -> Iterator[None]:
    """Hold `{path}.lock`. A lock whose owner is gone is removed; anybody else's is waited for.

    FileNotFoundError when the directory is gone.
    """
    lock = path.with_name(f"{path.name}.lock")
    deadline = time.monotonic() + seconds
    while (descriptor := _create(lock)) is None:
        if not _remove_if_stale(lock):
            _wait_until(deadline, path)
    try:
        yield
    finally:
        # Only our own: it may have been taken from us, and then another's stands at its place. The
        # open descriptor keeps the system from giving our file's number to that other file.
        if _is_at(descriptor, lock):
            lock.unlink(missing_ok=True)
        os.close(descriptor)


def _create(lock: Path) -> int | None:
    """The descriptor of a new lock with our mark in it; None when there is a lock already."""
    try:
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return None
    except FileNotFoundError:
        raise
    except OSError as error:
        raise LockNotAcquired(lock.with_suffix(""), error) from error
    try:
        os.write(descriptor, _own_mark(os.getpid()))
    except BaseException:
        lock.unlink(missing_ok=True)
        os.close(descriptor)
        raise
    return descriptor


def _remove_if_stale(lock: Path) -> bool:
    """Whether there is no lock any more. Several processes may find the same one stale: one removes it."""
    try:
        descriptor = os.open(lock, os.O_RDONLY)
    except FileNotFoundError:
        return True
    try:
        if not _is_stale(descriptor) or not _try_flock(descriptor):
            return False
        if _is_at(descriptor, lock):
            lock.unlink(missing_ok=True)
        return True
    finally:
        os.close(descriptor)


def _is_stale(descriptor: int) -> bool:
    pid, _, started = os.read(descriptor, 100).decode(errors="replace").strip().partition(" ")
    if not (pid.isascii() and pid.isdigit() and 0 < int(pid) < 2**31):
        return time.time() - os.fstat(descriptor).st_mtime > EMPTY_LOCK_SECONDS
    return not _exists(int(pid)) or _is_another(int(pid), started)


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # another user's process
        return True
    return True


def _is_another(pid: int, recorded: str) -> bool:
    """Whether the number now belongs to a process other than the one that started at the recorded time."""
    started = _started(pid)
    return started == ENDED or bool(recorded and started and started != recorded)


ENDED = "ended"


def _started(pid: int) -> str:
    """When a process was started, in whatever form this system tells it; empty when it does not."""
    if sys.platform == "linux":
        try:
            stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        except OSError:
            return ""
        fields = stat.rpartition(")")[2].split()
        state, started = fields[0], fields[19]
    else:
        command = ["ps", "-o", "stat=", "-o", "lstart=", "-p", str(pid)]
        # Without our environment, whose time zone would change the answer from process to process.
        output = subprocess.run(
            command, capture_output=True, text=True, env={"LC_ALL": "C"}, check=False
        ).stdout
        state, _, started = output.strip().partition(" ")
        started = "-".join(started.split())
    # A process that was killed, but not yet asked about by its parent, holds nothing any more.
    return ENDED if state.startswith(("Z", "X")) else started


@cache
def _own_mark(pid: int) -> bytes:
    return f"{pid} {_started(pid)}".rstrip().encode()


def _try_flock(descriptor: int) -> bool:
    with suppress(BlockingIOError):
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    return False


def _is_at(descriptor: int, path: Path) -> bool:
    """Whether `path` still names the file that is open here."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def _wait_until(deadline: float, path: Path) -> None:
    if time.monotonic() >= deadline:
        raise LockNotAcquired(path, TimeoutError("Lock acquisition timeout"))
    time.sleep(STEP_SECONDS)
