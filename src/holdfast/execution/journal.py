"""Changes to files that are made all or none, also by a program that is killed over them.

The new files, and copies of the old ones, are staged in the tree first; then they are renamed into place. A
journal says what is being done. It lies outside the tree, where an agent could forge it, and names hashes:
what is finished or taken back later is what was meant, or nothing.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple, Self
from uuid import uuid4

import msgspec

from holdfast.agents.workspace import Workspace
from holdfast.errors import HoldfastError, InvalidInput, NotFound
from holdfast.files import make_directory, sync_directory

STAGED, BACK = b"staged\n", b"back\n"


class Step(msgspec.Struct, frozen=True):
    """One file: the SHA-256 of what it holds before and after; None where there is none."""

    path: str
    before: str | None
    after: str | None


class Record(msgspec.Struct, frozen=True):
    root: str
    staging: str
    steps: tuple[Step, ...]
    made: tuple[str, ...] = ()
    """Directories that the changes make, the innermost first."""

    def old(self, number: int) -> str:
        return f"{self.staging}/old/{number}"

    def new(self, number: int) -> str:
        return f"{self.staging}/new/{number}"

    def gone(self, number: int) -> str:
        return f"{self.staging}/gone/{number}"


class Journal:
    """The journal of changes that are being made. Its lock says that somebody is at it."""

    def __init__(self, path: Path, file: int) -> None:
        self._path = path
        self._file = file

    @classmethod
    def begin(cls, directory: Path, record: Record) -> Self:
        make_directory(directory)
        path = directory / f"{uuid4().hex}.journal"
        file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        fcntl.flock(file, fcntl.LOCK_EX)
        journal = cls(path, file)
        journal._write(msgspec.json.encode(record) + b"\n")
        sync_directory(directory)
        return journal

    def staged(self) -> None:
        """From now on, what was begun is finished."""
        self._write(STAGED)

    def back(self) -> None:
        """From now on, what was begun is taken back."""
        self._write(BACK)

    def end(self) -> None:
        self._path.unlink(missing_ok=True)
        self.leave()

    def leave(self) -> None:
        """Let somebody else see to it."""
        os.close(self._file)

    def _write(self, line: bytes) -> None:
        os.write(self._file, line)
        os.fsync(self._file)


class Ending(StrEnum):
    FINISHED = "finished"
    TAKEN_BACK = "taken back"
    LEFT = "left as they are"


class Recovered(NamedTuple):
    root: Path
    ending: Ending
    reason: str = ""

    def __str__(self) -> str:
        why = f": {self.reason}" if self.reason else ""
        return f"Changes in {self.root} that a program was killed over were {self.ending}{why}."


def recover(directory: Path) -> list[Recovered]:
    """Finish or take back what programs were killed over, unless they are still at it."""
    return [found for path in sorted(directory.glob("*.journal")) for found in _recovered(path)]


def _recovered(path: Path) -> Iterator[Recovered]:
    try:
        file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
    except FileNotFoundError:  # somebody else was faster
        return
    journal = Journal(path, file)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        journal.leave()
        return
    head, _, said = os.pread(file, os.fstat(file).st_size, 0).partition(b"\n")
    try:
        record = msgspec.json.decode(head, type=Record)
    except msgspec.DecodeError:  # killed before it was written: nothing was done
        journal.end()
        return
    found = _ended(record, said.splitlines(keepends=True))
    if found.ending is Ending.LEFT:
        journal.leave()
    else:
        journal.end()
    yield found


def _ended(record: Record, said: list[bytes]) -> Recovered:
    root = Path(record.root)
    try:
        workspace = Workspace(root)
        if STAGED not in said:
            _clear(workspace, record)
            return Recovered(root, Ending.TAKEN_BACK)
        if BACK not in said and _can_be_finished(workspace, record):
            _finish(workspace, record)
            _remove_staging(workspace, record)
            return Recovered(root, Ending.FINISHED)
        _take_back(workspace, record)
    except (OSError, HoldfastError) as error:
        return Recovered(root, Ending.LEFT, f"{str(error).rstrip('.')} (their parts are in {record.staging})")
    return Recovered(root, Ending.TAKEN_BACK)


def _can_be_finished(workspace: Workspace, record: Record) -> bool:
    for number, step in enumerate(record.steps):
        now = content_hash(workspace, step.path)
        if now == step.after:
            continue
        if now != step.before:
            return False
        if step.after is not None and not _is_staged(workspace, record.new(number), step.after):
            return False
    return True


def _is_staged(workspace: Workspace, path: str, wanted: str) -> bool:
    """Whether a staged file is what was put there. It lies in the tree, where an agent may have been."""
    try:
        return content_hash(workspace, path) == wanted
    except HoldfastError:
        return False


def _finish(workspace: Workspace, record: Record) -> None:
    for number, step in enumerate(record.steps):
        if content_hash(workspace, step.path) != step.after:
            make(workspace, record, number)


def make(workspace: Workspace, record: Record, number: int) -> None:
    """Make one change, by a rename."""
    step = record.steps[number]
    if step.after is None:
        workspace.rename(step.path, record.gone(number))
    else:
        workspace.rename(record.new(number), step.path)


def _take_back(workspace: Workspace, record: Record) -> None:
    """Put every file back as it was, if each is what was there before or what was made of it."""
    changed = []
    for number, step in enumerate(record.steps):
        now = content_hash(workspace, step.path)
        if now == step.before:
            continue
        if now != step.after or not (
            step.before is None or _is_staged(workspace, record.old(number), step.before)
        ):
            raise InvalidInput(f"{step.path} was changed meanwhile")
        changed.append(number)
    for number in reversed(changed):
        put_back(workspace, record, number)
    _clear(workspace, record)


def put_back(workspace: Workspace, record: Record, number: int) -> None:
    step = record.steps[number]
    if step.before is not None:
        workspace.rename(record.old(number), step.path)
    elif (workspace.root / step.path).is_file():
        workspace.rename(step.path, record.gone(number))


def _clear(workspace: Workspace, record: Record) -> None:
    """Take away what was made beside the files."""
    _remove_staging(workspace, record)
    for directory in record.made:
        with suppress(OSError):  # something else is in it
            (workspace.root / directory).rmdir()


def _remove_staging(workspace: Workspace, record: Record) -> None:
    shutil.rmtree(workspace.root / record.staging, ignore_errors=True)


def content_hash(workspace: Workspace, path: str) -> str | None:
    """The SHA-256 of a file; None where there is none. A link is refused: its file has another path."""
    if workspace.confined(path) != workspace.root / path:
        raise InvalidInput(f"{path} goes through a symbolic link")
    try:
        return hash_of(workspace.read_bytes(path))
    except NotFound:
        return None


def hash_of(content: bytes | None) -> str | None:
    return None if content is None else hashlib.sha256(content).hexdigest()
