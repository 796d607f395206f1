"""What of a repository's git directory an agent may not write: all that makes git run a program.

A person's own git reads the same files outside the sandbox. Hooks and settings name programs; `commondir`
and `gitdir` name other directories that have settings. Such a file that is not there must not come into
being either, so one without effect stands in its place while a sandbox is open.
"""

from __future__ import annotations

import fcntl
import logging
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import NamedTuple, Self
from uuid import uuid4

from holdfast import git
from holdfast.agents.sandbox.kinds import SandboxRefused

log = logging.getLogger("holdfast.agents")

NO_EFFECT = {"commondir": ".\n", "config.worktree": "", "info/attributes": ""}
"""Files of a git directory, and what they contain when they change nothing."""

HOOKS = "hooks"

MODULES, WORKTREES = "modules", "worktrees"

MAX_MODULES, MAX_DEPTH = 500, 20
"""How many git directories a repository and its submodules have, and how many names deep they lie."""

MAX_PATH = 4096

HOOKS_PATH = "core.hookspath"

LEADING_ON = frozenset({HOOKS_PATH, "include.path"})

GITLINK = b"160000 "
"""How git lists a submodule."""


DATA = ("objects", "refs")
"""Without one of them a directory is no git directory, and git looks for another one, above or beside it."""


class Guarded(NamedTuple):
    """What an agent only reads."""

    path: Path
    stand_in: str | None = ""
    """What stands there while nothing is: a file with this text, or a directory."""


@dataclass(frozen=True, slots=True)
class GitDirectory:
    """The git directory of a repository: its own, and the one that it shares with other working trees."""

    repository: Path
    directories: tuple[Path, ...]
    """The shared one, its own if that is another, then those of submodules. Those of other working trees are
    only read: git would take one away whose working tree it does not see."""

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
        if common not in (own, own.parent.parent):
            raise SandboxRefused(f"{own / 'commondir'} leads to {common}, where no git directory of it is.")
        if not own.is_relative_to(repository) and not _names(own, repository):
            raise SandboxRefused(
                f"{entry} leads to {own}, which names another working tree or none. {_hint(own)}"
            )
        directories = dict.fromkeys((common, own))
        for directory in (common, own):
            directories |= dict.fromkeys(islice(_modules(directory / MODULES, MAX_DEPTH), MAX_MODULES + 1))
        if len(directories) > MAX_MODULES:
            raise SandboxRefused(f"{common} has too many submodules to guard: more than {MAX_MODULES}.")
        return cls(repository, tuple(directories))

    @property
    def is_understood(self) -> bool:
        """Whether git still takes it for one. If not, git looks for another, which an agent may have made."""
        entry = self.repository / ".git"
        return git.said(self.repository, f"--git-dir={entry}", "rev-parse", "--git-dir") is not None

    @property
    def writable(self) -> Iterator[Path]:
        """Directories that are mounts of their own, so that they cannot be renamed away."""
        for directory in self.directories:
            yield directory
            yield from (path for name in DATA if (path := directory / name).is_dir())

    def guarded(self) -> Iterator[Guarded]:
        entry = self.repository / ".git"
        if entry.is_file() or entry.is_symlink():
            yield Guarded(entry)
        for directory in self.directories:
            yield from _guarded(directory)
        trees = list(_working_trees(self.directories[0], self.repository))
        yield from map(Guarded, (*trees, *_submodules(self.repository, entry)))
        yield from _led_to(self.repository, entry, [self.repository, *(tree.parent for tree in trees)])

    def goes_through_link(self, path: Path) -> bool:
        """Whether a path, or a directory on its way, is a link. No mount keeps a link from being replaced."""
        for each in (path, *path.parents):
            if each == self.repository or each in self.directories:
                return False
            if each.is_symlink():
                return True
        return False


def _hint(own: Path) -> str:
    if (own / "gitdir").exists():
        return "If its working tree was moved, run `git worktree repair` in it."
    return "If it belongs to this repository, set core.worktree in its settings to the repository's path."


def _names(own: Path, repository: Path) -> bool:
    """Whether a git directory says that its working tree is this repository."""
    if (link := _short_text(own / "gitdir")) is not None:
        return Path(os.path.normpath(own / link.strip())) == repository / ".git"
    named = git.said(repository, "config", "--file", str(own / "config"), "--get", "core.worktree")
    return named is not None and Path(os.path.realpath(own / named)) == repository


def _guarded(directory: Path) -> Iterator[Guarded]:
    """What is fixed in a git directory. No submodule and no working tree comes to it while an agent works."""
    yield Guarded(directory / "config")
    for name in (HOOKS, MODULES, WORKTREES):
        yield Guarded(directory / name, None)
    for name, text in NO_EFFECT.items():
        yield Guarded(directory / name, text)
    if os.path.lexists(link := directory / "gitdir"):  # of a linked working tree
        yield Guarded(link)


def _modules(directory: Path, depth: int) -> Iterator[Path]:
    """The git directories of submodules."""
    for entry in _directories(directory) if depth else ():
        if any(os.path.lexists(entry / name) for name in ("HEAD", "config", *DATA)):
            yield entry
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


def _working_trees(common: Path, repository: Path) -> Iterator[Path]:
    """What leads to its git directory from each linked working tree inside the repository."""
    for directory in _directories(common / WORKTREES):
        link = _short_text(directory / "gitdir")
        path = Path(os.path.normpath(directory / link.strip())) if link else repository
        if repository in path.parents and path != repository / ".git" and os.path.lexists(path):
            yield path


def _submodules(repository: Path, entry: Path) -> Iterator[Path]:
    """What leads to the git directories of submodules."""
    if not (entry / MODULES).is_dir():
        return
    staged = git.output(repository, f"--git-dir={entry}", "ls-files", "--stage", "-z") or b""
    for line in staged.split(b"\0"):
        if line.startswith(GITLINK):
            path = repository / os.fsdecode(line.partition(b"\t")[2]) / ".git"
            if os.path.lexists(path):
                yield path


def _led_to(repository: Path, entry: Path, trees: Sequence[Path]) -> Iterator[Guarded]:
    """What the settings lead to in the repository: files that they include, and hooks of its trees."""
    listing = (f"--git-dir={entry}", "config", "--null", "--show-origin", "--includes", "--list")
    listed = git.output(repository, *listing, as_person=True)
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
        has_hooks = name == HOOKS_PATH
        value = os.path.expanduser(value)  # noqa: PTH111  # `~user` of nobody
        bases = trees if has_hooks else [(repository / origin.removeprefix("file:")).parent]
        named = {Path(os.path.normpath(base / value)) for base in bases}
        for path in named | {Path(os.path.realpath(path)) for path in named}:
            if repository in path.parents:
                yield _or_above(path, repository, None if has_hooks else "")
                if has_hooks and path.name == "_" and path.parent not in trees:  # as husky has them
                    yield Guarded(path.parent, None)


def _or_above(path: Path, repository: Path, stand_in: str | None) -> Guarded:
    """A path; where directories on the way to it are missing, the first of them."""
    above = [each for each in reversed(path.parents) if repository in each.parents]
    missing = next((each for each in above if not os.path.lexists(each)), None)
    return Guarded(path, stand_in) if missing is None else Guarded(missing, None)


class StandIns:
    """What stands where nothing is that git would believe. Sandboxes share it; the last one takes it away."""

    def __init__(self, records: Path, directory: GitDirectory) -> None:
        self._directory = directory
        self._records = records
        """What was put into each git directory, or for the working tree into the first: each path ended by a
        NUL. Each sandbox holds a lock on each."""
        self._files: list[int] = []
        self.links: list[Path] = []
        """What is not guarded, because it is a link."""

    def put(self) -> list[Path]:
        """All that is guarded, once it is there."""
        self._records.mkdir(parents=True, exist_ok=True, mode=0o700)
        files = {directory: self._opened(directory) for directory in self._directory.directories}
        first = files[self._directory.directories[0]]
        found = []
        for path, stand_in in self._directory.guarded():
            if self._directory.goes_through_link(path):
                self.links.append(path)
                continue
            if not os.path.lexists(path):
                _put(path, stand_in, next((files[each] for each in path.parents if each in files), first))
            found.append(path)
        return found

    def remove(self) -> None:
        """Leave; the last one takes away what has not been used meanwhile."""
        if self._files and not self._directory.is_understood:
            spoilt = self._directory.repository / ".git"
            log.warning("an agent spoilt %s: run no git there before you have looked", spoilt)
        while self._files:
            _clear(self._files.pop())

    def _opened(self, directory: Path) -> int:
        name = sha256(os.fsencode(directory)).hexdigest()[:16]
        self._files.append(
            os.open(self._records / name, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        )
        fcntl.flock(self._files[-1], fcntl.LOCK_SH)
        return self._files[-1]


def _put(path: Path, stand_in: str | None, record: int) -> None:
    if not path.parent.is_dir():
        _put(path.parent, None, record)
    os.write(record, os.fsencode(path) + b"\0")
    with suppress(FileExistsError):  # another sandbox puts it there at this moment
        if stand_in is None:
            path.mkdir()
        else:
            _appear(path, stand_in)


def _appear(path: Path, text: str) -> None:
    """Make a file that is whole as soon as it is there: git fails where `commondir` is empty."""
    written = path.with_name(f".{path.name}.{uuid4().hex}")
    written.write_text(text)
    try:
        path.hardlink_to(written)
    except FileExistsError:
        raise
    except OSError:  # a file system without links
        written.rename(path)
    finally:
        written.unlink(missing_ok=True)


def tidy(records: Path) -> None:
    """Take away what sandboxes have left whose server was killed."""
    for record in records.glob("*"):
        _clear(os.open(record, os.O_RDWR | os.O_CLOEXEC))


def _clear(record: int) -> None:
    """Take away what a record names, unless another sandbox is open there, and close it."""
    try:
        fcntl.flock(record, fcntl.LOCK_EX | fcntl.LOCK_NB)
        paths = os.pread(record, os.fstat(record).st_size, 0).split(b"\0")
        for path in reversed(list(filter(None, paths))):  # what is in a directory before the directory
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
