"""The home that an agent was given. The agent wrote what is in it, so no link in it is followed."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath


def is_below(name: str) -> bool:
    """Whether a path is relative and stays where it begins."""
    path = PurePosixPath(name)
    return bool(path.parts) and not path.is_absolute() and not {"..", "~"} & set(path.parts)


def remove_below(home: Path, name: Path) -> None:
    """Take away what is there under a relative name."""
    with _directory_of(home, name) as directory:
        _remove(name.name, directory)


def _remove(name: str, directory: int) -> None:
    try:
        os.unlink(name, dir_fd=directory)
    except FileNotFoundError:
        return
    except IsADirectoryError:
        _make_listable(name, directory)
        here = _opened(name, directory)
        try:
            with os.scandir(here) as entries:
                for entry in list(entries):
                    _remove(entry.name, here)
        finally:
            os.close(here)
        os.rmdir(name, dir_fd=directory)


def _make_listable(name: str, directory: int) -> None:
    """Give its owner all rights to a directory; an agent may have taken them away."""
    found = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory)
    try:
        Path(f"/proc/self/fd/{found}").chmod(0o700)
    finally:
        os.close(found)


def make_way(home: Path, name: Path, *, is_directory: bool) -> None:
    """Have directories lead to a relative name, under which there is a directory, a file or nothing."""
    with _directory_of(home, name) as directory:
        try:
            mode = os.stat(name.name, dir_fd=directory, follow_symlinks=False).st_mode
        except FileNotFoundError:
            return
    if not (stat.S_ISDIR(mode) if is_directory else stat.S_ISREG(mode)):
        remove_below(home, name)


@contextmanager
def _directory_of(home: Path, name: Path) -> Iterator[int]:
    """The directory of a name, made where it is missing, or where an agent put something else."""
    if not is_below(str(name)):
        raise ValueError(f"{name} is not below a home")
    here = _opened(os.fspath(home), None)
    try:
        for part in name.parent.parts:
            try:
                following = _opened(part, here)
            except PermissionError:
                _make_listable(part, here)
                following = _opened(part, here)
            except OSError:  # nothing, a file, or a link
                _unlink(part, here)
                with suppress(FileExistsError):  # another session makes it at this moment
                    os.mkdir(part, 0o700, dir_fd=here)
                following = _opened(part, here)
            os.close(here)
            here = following
        yield here
    finally:
        os.close(here)


def _opened(name: str, directory: int | None) -> int:
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.open(name, flags, dir_fd=directory)


def _unlink(name: str, directory: int) -> None:
    with suppress(FileNotFoundError, IsADirectoryError):
        os.unlink(name, dir_fd=directory)
