"""What of a repository's git directory an agent may not write: all that makes git run a program.

A person's own git reads the same files outside the sandbox. Hooks and settings name programs; `commondir`
and `gitdir` name other directories that have settings. Such a file that is not there must not come into
being either, so one without effect stands in its place while a sandbox is open.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Self

from holdfast import git

NO_EFFECT = {"commondir": ".\n", "config.worktree": "", "info/attributes": ""}
"""Files of a git directory, and what they contain when they change nothing."""

HOOKS = "hooks"

RECORD = "git-"

LEADING_ON = frozenset({"core.hookspath", "include.path"})


@dataclass(frozen=True, slots=True)
class GitDirectory:
    """The git directory of a repository: its own, and the one that it shares with other working trees."""

    repository: Path
    writable: tuple[Path, ...]
    """Directories that are mounts of their own, so that they cannot be renamed away."""

    @classmethod
    def of(cls, repository: Path) -> Self | None:
        """None where there is none, or git does not understand it."""
        answer = git.said(repository, "rev-parse", "--path-format=absolute", "--git-dir", "--git-common-dir")
        if answer is None or not os.path.lexists(repository / ".git"):
            return None
        own, common = (Path(os.path.realpath(line)) for line in answer.splitlines())
        return cls(repository, tuple(dict.fromkeys((common, own))))

    def fixed(self) -> Iterator[tuple[Path, str | None]]:
        """What is only read, there or not, each with the text that has no effect; None is a directory."""
        entry = self.repository / ".git"
        if entry.is_file() or entry.is_symlink():
            yield entry, ""
        common = self.writable[0]
        for directory in dict.fromkeys((*self.writable, *_below(common))):
            yield from _guarded(directory)
        yield from ((path, "") for path in _led_to(self.repository))


def _guarded(directory: Path) -> Iterator[tuple[Path, str | None]]:
    """What is fixed in a git directory, with the text that has no effect; None is a directory."""
    yield directory / "config", ""
    yield directory / HOOKS, None
    for name, text in NO_EFFECT.items():
        yield directory / name, text
    if (link := directory / "gitdir").exists():  # of a linked working tree
        yield link, ""


def _below(common: Path) -> Iterator[Path]:
    """The git directories of submodules and of linked worktrees, which are in that of the repository."""
    yield from _directories(common / "worktrees")
    yield from _modules(common / "modules")


def _modules(directory: Path) -> Iterator[Path]:
    for entry in _directories(directory):
        if (entry / "HEAD").is_file():
            yield entry
            yield from _below(entry)
        else:  # the name of a submodule may have slashes
            yield from _modules(entry)


def _directories(directory: Path) -> Sequence[Path]:
    try:
        return [Path(entry.path) for entry in os.scandir(directory) if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return ()


def _led_to(repository: Path) -> Iterator[Path]:
    """Files that the settings include, and the directory of hooks that they name, in the working tree."""
    listed = git.output(repository, "config", "--null", "--show-origin", "--includes", "--list") or b""
    fields = os.fsdecode(listed).split("\0")
    for origin, entry in zip(fields[::2], fields[1::2], strict=False):
        name, _, value = entry.partition("\n")
        if name not in LEADING_ON and not (name.startswith("includeif.") and name.endswith(".path")):
            continue
        settings = repository / origin.removeprefix("file:")
        base = repository if name == "core.hookspath" else settings.parent
        path = Path(os.path.normpath(base / os.path.expanduser(value)))  # noqa: PTH111  # `~user` of nobody
        if repository in path.parents:
            yield path


class StandIns:
    """The files without effect in one git directory. Sandboxes share them; the last one takes them away."""

    def __init__(self, records: Path, directory: GitDirectory) -> None:
        self._directory = directory
        name = sha256(os.fsencode(directory.writable[0])).hexdigest()[:16]
        self._record = records / f"{RECORD}{name}"
        """What was put there, a path a line. Each sandbox holds a lock on it."""
        self._file: int | None = None

    def put(self) -> list[Path]:
        """All that is fixed, once it is there."""
        self._record.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._file = os.open(self._record, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._file, fcntl.LOCK_SH)
        fixed = []
        for path, text in self._directory.fixed():
            if os.path.lexists(path):
                fixed.append(path)
            elif path.parent.parent.is_dir():
                self._put(path, text)
                fixed.append(path)
        return fixed

    def remove(self) -> None:
        """Leave; the last one takes away what has not been used meanwhile."""
        if self._file is not None:
            _clear(self._file)
            self._file = None

    def _put(self, path: Path, text: str | None) -> None:
        assert self._file is not None
        os.write(self._file, os.fsencode(path) + b"\0")
        path.parent.mkdir(exist_ok=True)
        with suppress(FileExistsError):  # another sandbox puts it there at this moment
            if text is None:
                path.mkdir()
            else:
                with path.open("x") as file:
                    file.write(text)


def tidy(records: Path) -> None:
    """Take away what sandboxes have left whose server was killed."""
    for record in records.glob(f"{RECORD}*"):
        _clear(os.open(record, os.O_RDWR | os.O_CLOEXEC))


def _clear(record: int) -> None:
    """Take away what a record names, unless another sandbox is open there, and close it."""
    try:
        fcntl.flock(record, fcntl.LOCK_EX | fcntl.LOCK_NB)
        for line in os.pread(record, os.fstat(record).st_size, 0).split(b"\0"):
            with suppress(OSError):  # somebody has put something else there, or taken it away
                _take_away(Path(os.fsdecode(line)))
        os.ftruncate(record, 0)
    except BlockingIOError:
        return
    finally:
        os.close(record)


def _take_away(path: Path) -> None:
    if path.is_dir():
        path.rmdir()
    elif path.read_text() in ("", *NO_EFFECT.values()):
        path.unlink()
