"""The one directory an agent may touch.

A path is resolved first, links and all, and must lie inside the repository. What is opened is
the resolved path, component by component and without following links, so a link that is put
there a moment after the check leads nowhere.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from pathlib import Path

from holdfast.errors import AccessDenied, InvalidInput, NotFound

GIT_NAMES = frozenset({".git", ".gitmodules"})

MAX_FILE = 16 * 1024 * 1024
"""The largest file that is read or written for an agent."""


class OutsideWorkspace(AccessDenied):
    code = "outside_workspace"

    def __init__(self, path: str, root: Path) -> None:
        super().__init__(f"{path} is outside {root}, and only what is inside may be used.")
        self.path = path


class Workspace:
    def __init__(self, root: Path) -> None:
        self.root = root.resolve(strict=True)

    def confined(self, path: str) -> Path:
        """The real path of `path`, which may be relative; outside the workspace, an error."""
        if "\0" in path or not path:
            raise InvalidInput("A path must not be empty or contain a NUL character.")
        try:
            real = Path(os.path.realpath(self.root / path))
        except OSError as error:  # what was there is being moved at this moment
            raise NotFound(f"{path} cannot be resolved: {error.strerror}.") from None
        if real != self.root and self.root not in real.parents:
            raise OutsideWorkspace(path, self.root)
        return real

    def is_of_git(self, path: str) -> bool:
        """Whether a path leads into what git believes: its settings name programs, and its hooks are some."""
        parts = self.confined(path).relative_to(self.root).parts
        return any(part.casefold() in GIT_NAMES for part in parts)

    def read_text(
        self, path: str, *, line: int | None = None, limit: int | None = None, judged: Path | None = None
    ) -> str:
        """The text of a file: all of it, or `limit` lines from `line`, counted from 1."""
        text = self.read_bytes(path, judged=judged).decode(errors="replace")
        if line is None and limit is None:
            return text
        lines = text.splitlines(keepends=True)
        first = max((line or 1) - 1, 0)
        return "".join(lines[first : None if limit is None else first + max(limit, 0)])

    def read_bytes(self, path: str, *, most: int = MAX_FILE, judged: Path | None = None) -> bytes:
        """What a file holds. `judged` is the real path that was allowed: no other one is read."""
        real = self._as_judged(path, judged)
        try:
            with os.fdopen(self._open(real, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
                status = os.fstat(file.fileno())
                if not stat.S_ISREG(status.st_mode):
                    raise InvalidInput(f"{path} is not a file.")
                if status.st_size > most:
                    raise InvalidInput(f"{path} has {status.st_size:,} bytes; at most {most:,} are read.")
                return file.read()
        except FileNotFoundError:
            raise NotFound(f"There is no file {path}.") from None
        except OSError as error:
            raise InvalidInput(f"{path} cannot be read: {error.strerror}.") from None

    def write_text(self, path: str, content: str, *, judged: Path | None = None) -> None:
        data = content.encode(errors="surrogateescape")
        if len(data) > MAX_FILE:
            raise InvalidInput(f"{path} would have {len(data):,} bytes; at most {MAX_FILE:,} are written.")
        self.write_bytes(path, data, judged=judged)

    def write_bytes(self, path: str, data: bytes, *, judged: Path | None = None) -> None:
        """Replace a file as a whole; a reader sees the old content or the new one."""
        real = self._as_judged(path, judged)
        if real == self.root:
            raise InvalidInput(f"{path} is a directory.")
        try:
            directory = self._open(real.parent, os.O_RDONLY | os.O_DIRECTORY, create=True)
        except OSError as error:
            raise InvalidInput(f"{path} cannot be written: {error.strerror}.") from None
        temporary = f".{secrets.token_hex(8)}"  # a name as long as the system allows has no room for more
        try:
            _write_beside(directory, temporary, real.name, data)
        except OSError as error:
            raise InvalidInput(f"{path} cannot be written: {error.strerror}.") from None
        finally:
            _unlink(directory, temporary)
            os.close(directory)

    def rename(self, source: str, target: str) -> None:
        """Move a file, over another one if that is there; directories on its way are made."""
        old, new = self.confined(source), self.confined(target)
        if self.root in (old, new):
            raise InvalidInput(f"{self.root} itself cannot be moved.")
        here = there = None
        try:
            here = self._open(old.parent, os.O_RDONLY | os.O_DIRECTORY)
            there = self._open(new.parent, os.O_RDONLY | os.O_DIRECTORY, create=True)
            os.rename(old.name, new.name, src_dir_fd=here, dst_dir_fd=there)
        except OSError as error:
            raise InvalidInput(f"{target} cannot be written: {error.strerror}.") from None
        finally:
            for directory in (here, there):
                if directory is not None:
                    os.close(directory)

    def _as_judged(self, path: str, judged: Path | None) -> Path:
        real = self.confined(path)
        if judged is not None and real != judged:
            raise InvalidInput(f"{path} leads elsewhere now; ask again.")
        return real

    def _open(self, real: Path, flags: int, *, create: bool = False) -> int:
        """Open a resolved path step by step from the root, following no link on the way."""
        here = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY)
        parts = real.relative_to(self.root).parts
        for number, part in enumerate(parts, 1):
            last = number == len(parts)
            try:
                if create:
                    _make_directory(here, part)
                step = flags if last else os.O_RDONLY | os.O_DIRECTORY
                following = os.open(part, step | os.O_NOFOLLOW, dir_fd=here)
            except OSError as error:
                if error.errno == errno.ELOOP:  # a link has taken the place of what was checked
                    raise OutsideWorkspace(str(real), self.root) from None
                raise
            finally:
                os.close(here)
            here = following
        return here


def _make_directory(parent: int, name: str) -> None:
    try:
        os.mkdir(name, dir_fd=parent)
    except FileExistsError:
        return


def _write_beside(directory: int, temporary: str, name: str, data: bytes) -> None:
    mode = None
    try:
        existing = os.stat(name, dir_fd=directory, follow_symlinks=False)
        if not stat.S_ISREG(existing.st_mode):
            raise PermissionError(errno.EPERM, "it is not a plain file")
        mode = stat.S_IMODE(existing.st_mode)
    except FileNotFoundError:
        pass
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    with os.fdopen(os.open(temporary, flags, 0o644, dir_fd=directory), "wb") as file:
        if mode is not None:
            os.fchmod(file.fileno(), mode)  # whatever the umask is
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.rename(temporary, name, src_dir_fd=directory, dst_dir_fd=directory)


def _unlink(directory: int, name: str) -> None:
    try:
        os.unlink(name, dir_fd=directory)
    except FileNotFoundError:
        return
