"""What of a repository's git directory an agent may not write: all that makes git run a program.

A person's own git reads the same files outside the sandbox. Hooks and settings name programs; `commondir`
and `gitdir` name other directories that have settings. Such a file that is not there must not come into
being either, so one without effect stands in its place while a sandbox is open.
"""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Self

from holdfast import git
from holdfast.agents.sandbox.kinds import SandboxRefused

NO_EFFECT = {"commondir": ".\n", "config.worktree": "", "info/attributes": ""}
"""Files of a git directory, and what they contain when they change nothing."""

HOOKS = "hooks"

MODULES, WORKTREES = "modules", "worktrees"

MAX_BELOW, MAX_DEPTH = 500, 20
"""How many submodules and linked working trees a repository has at most, and how many names deep they lie."""

MAX_PATH = 4096

LEADING_ON = frozenset({"core.hookspath", "include.path"})


@dataclass(frozen=True, slots=True)
class GitDirectory:
    """The git directory of a repository: its own, and the one that it shares with other working trees."""

    repository: Path
    writable: tuple[Path, ...]
    """Directories that are mounts of their own, so that they cannot be renamed away."""

    @classmethod
    def of(cls, repository: Path) -> Self | None:
        """None where there is none. Raises `SandboxRefused` for one that cannot be guarded.

        An agent may have written what leads to it. So git looks for no other one above, and one that lies
        outside must name the repository as its working tree.
        """
        repository = Path(os.path.realpath(repository))
        entry = repository / ".git"
        if not os.path.lexists(entry):
            return None
        answer = git.said(
            repository,
            *(f"--git-dir={entry}", "rev-parse", "--path-format=absolute", "--git-dir", "--git-common-dir"),
        )
        if answer is None:
            raise SandboxRefused(
                f"git does not understand {entry}, so nothing in it could be kept from the agent. Run "
                f"`git -C {repository} status` to see why."
            )
        own, common = (Path(os.path.realpath(line)) for line in answer.splitlines())
        if not own.is_relative_to(repository) and not _names(own, repository):
            raise SandboxRefused(
                f"{entry} leads to {own}, which names another working tree or none. If it belongs to this "
                f"repository, run `git -C {repository} config core.worktree {repository}`."
            )
        return cls(repository, tuple(dict.fromkeys((common, own))))

    def fixed(self) -> Iterator[tuple[Path, str | None]]:
        """What is only read, there or not, each with the text that has no effect; None is a directory."""
        entry = self.repository / ".git"
        if entry.is_file() or entry.is_symlink():
            yield entry, ""
        common = self.writable[0]
        directories = dict.fromkeys(self.writable)
        for directory in _below(common):
            directories[directory] = None
            if len(directories) > MAX_BELOW:
                raise SandboxRefused(
                    f"{common} has more than {MAX_BELOW} submodules and working trees, and no sandbox "
                    "guards so many."
                )
        for directory in directories:
            yield from _guarded(directory)
        yield from ((path, "") for path in _led_to(self.repository, entry))

    def goes_through_link(self, path: Path) -> bool:
        """Whether a path, or a directory on its way, is a link. No mount keeps a link from being replaced."""
        for each in (path, *path.parents):
            if each == self.repository or each in self.writable:
                return False
            if each.is_symlink():
                return True
        return False


def _names(own: Path, repository: Path) -> bool:
    """Whether a git directory says that its working tree is this repository."""
    if (link := _short_text(own / "gitdir")) is not None:
        return Path(os.path.normpath(own / link.strip())) == repository / ".git"
    named = git.said(repository, "config", "--file", str(own / "config"), "--get", "core.worktree")
    return named is not None and Path(os.path.realpath(own / named)) == repository


def _guarded(directory: Path) -> Iterator[tuple[Path, str | None]]:
    """What is fixed in a git directory, with the text that has no effect; None is a directory."""
    yield directory / "config", ""
    yield directory / HOOKS, None
    yield from ((link, "") for name in (MODULES, WORKTREES) if (link := directory / name).is_symlink())
    for name, text in NO_EFFECT.items():
        yield directory / name, text
    if os.path.lexists(link := directory / "gitdir"):  # of a linked working tree
        yield link, ""


def _below(common: Path) -> Iterator[Path]:
    """The git directories of submodules and of linked worktrees, which are in that of the repository."""
    yield from _directories(common / WORKTREES)
    yield from _modules(common / MODULES, MAX_DEPTH)


def _modules(directory: Path, depth: int) -> Iterator[Path]:
    for entry in _directories(directory) if depth else ():
        if (entry / "HEAD").is_file():
            yield entry
            yield from _directories(entry / WORKTREES)
            yield from _modules(entry / MODULES, depth - 1)
        else:  # the name of a submodule may have slashes
            yield from _modules(entry, depth - 1)


def _directories(directory: Path) -> Sequence[Path]:
    if directory.is_symlink():
        return ()
    try:
        return [Path(entry.path) for entry in os.scandir(directory) if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return ()


def _led_to(repository: Path, entry: Path) -> Iterator[Path]:
    """Files that the settings include, and the directory of hooks that they name, in the working tree."""
    listing = (f"--git-dir={entry}", "config", "--null", "--show-origin", "--includes", "--list")
    listed = git.output(repository, *listing)
    if listed is None:
        raise SandboxRefused(
            f"git cannot list the settings of {repository}, which may name programs. Run "
            f"`git -C {repository} config --list` to see why."
        )
    fields = os.fsdecode(listed).split("\0")
    for origin, field in zip(fields[::2], fields[1::2], strict=False):
        name, _, value = field.partition("\n")
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
        self._record = records / sha256(os.fsencode(directory.writable[0])).hexdigest()[:16]
        """What was put there, each path ended by a NUL. Each sandbox holds a lock on it."""
        self._file: int | None = None
        self.links: list[Path] = []
        """What is not guarded, because it is a link."""

    def put(self) -> list[Path]:
        """All that is fixed, once it is there."""
        self._record.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._file = os.open(self._record, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._file, fcntl.LOCK_SH)
        fixed = []
        for path, text in self._directory.fixed():
            if self._directory.goes_through_link(path):
                self.links.append(path)
            elif os.path.lexists(path):
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
    for record in records.glob("*"):
        _clear(os.open(record, os.O_RDWR | os.O_CLOEXEC))


def _clear(record: int) -> None:
    """Take away what a record names, unless another sandbox is open there, and close it."""
    try:
        fcntl.flock(record, fcntl.LOCK_EX | fcntl.LOCK_NB)
        for path in os.pread(record, os.fstat(record).st_size, 0).split(b"\0"):
            with suppress(OSError):  # somebody has put something else there, or taken it away
                _take_away(Path(os.fsdecode(path)))
        os.ftruncate(record, 0)
    except BlockingIOError:
        return
    finally:
        os.close(record)


def _take_away(path: Path) -> None:
    if Path(os.path.realpath(path.parent)) != path.parent:  # an agent has put a link on the way
        return
    if stat.S_ISDIR(path.lstat().st_mode):
        path.rmdir()
    elif _short_text(path) in ("", *NO_EFFECT.values()):
        path.unlink()


def _short_text(path: Path) -> str | None:
    """What a file says in which there is at most a path, and which an agent may have put there."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        is_file = stat.S_ISREG(os.fstat(file).st_mode)
        return os.fsdecode(os.read(file, MAX_PATH)) if is_file else None
    finally:
        os.close(file)
