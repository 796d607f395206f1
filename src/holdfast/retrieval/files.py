"""The files of a tree, as an index wants them: none that is ignored, and none that lies elsewhere.

Inside a git repository git says which they are: the tracked ones, and those that are neither tracked nor
ignored. Elsewhere the `.gitignore` files are obeyed all the same. Links are not followed, neither to a
file nor on the way to one.
"""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from holdfast import git
from holdfast.errors import MissingExtra, NotFound

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

log = logging.getLogger("holdfast.retrieval")

LISTING_SECONDS = 120.0

SKIPPED = frozenset({".git", "node_modules", ".venv", "venv", "__pycache__"})
"""Directories that nobody means, where no git says so."""

SNIFFED = 8192
"""In how many bytes a NUL is looked for; git decides in the same way what is binary."""


class Tree(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be indexed: a repository, a part of one, or any directory."""

    root: Path
    """Paths are relative to it."""
    within: str
    """The part of it that is meant, as a POSIX path; empty for all of it."""
    is_git: bool
    branch: str | None = None
    commit: str | None = None


def tree_of(path: Path) -> Tree:
    """The tree that a path means: its part of the git repository around it, or the directory by itself."""
    real = path.expanduser().resolve()
    if not real.is_dir():
        raise NotFound(f"There is no directory {path}.")
    top = git.said(real, "rev-parse", "--show-toplevel")
    root = real if top is None else Path(top).resolve()
    # A repository's own settings may name any directory as its top.
    is_around = root == real or root in real.parents
    if top is None or not is_around or git.output(real, "check-ignore", "--quiet", ".") is not None:
        return Tree(root=real, within="", is_git=False)
    within = real.relative_to(root).as_posix()
    return Tree(
        root=root,
        within="" if within == "." else within,
        is_git=True,
        branch=git.said(root, "symbolic-ref", "--short", "--quiet", "HEAD"),
        commit=git.said(root, "rev-parse", "--verify", "--quiet", "HEAD"),
    )


def paths_in(tree: Tree) -> list[str]:
    """The tree's files as POSIX paths, in order; those among them that are no files are not sorted out."""
    start = tree.root / tree.within
    listed = _from_git(tree, start) if tree.is_git else None
    found = _from_disk(tree.root, start) if listed is None else listed
    return sorted(path for path in found if _is_text(path))


def read(root: int, path: str, limit: int) -> bytes | None:
    """The content of a file below an open directory; None where there is no plain file of at most that size.

    Every step is taken downwards and without following a link, so what is read lies inside.
    """
    *above, name = steps = path.split("/")
    if not {"", ".", ".."}.isdisjoint(steps):
        return None
    here = root
    try:
        for step in above:
            below = os.open(step, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=here)
            if here != root:
                os.close(here)
            here = below
        # Without blocking: opening a named pipe would wait for somebody to write into it.
        file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=here)
    except OSError:
        return None
    finally:
        if here != root:
            os.close(here)
    status = os.fstat(file)
    if not stat.S_ISREG(status.st_mode) or status.st_size > limit:
        os.close(file)
        return None
    with os.fdopen(file, "rb") as opened:
        return opened.read(limit)


def text_of(data: bytes) -> str | None:
    """The text of a file, with `�` for what is not UTF-8; None when it is binary."""
    return None if b"\0" in data[:SNIFFED] else data.decode("utf-8-sig", errors="replace")


def _from_git(tree: Tree, start: Path) -> list[str] | None:
    listed = git.output(
        start,
        *("ls-files", "-z", "--full-name", "--cached", "--others", "--exclude-standard", "--deduplicate"),
        seconds=LISTING_SECONDS,
    )
    return None if listed is None else [os.fsdecode(path) for path in listed.split(b"\0") if path]


def _from_disk(
    root: Path, directory: Path, above: tuple[tuple[str, GitIgnoreSpec], ...] = ()
) -> Iterator[str]:
    prefix = directory.relative_to(root).as_posix()
    prefix = "" if prefix == "." else f"{prefix}/"
    ignoring = (*above, *_ignore_file(directory, prefix))
    try:
        entries = sorted(os.scandir(directory), key=lambda entry: entry.name)
    except OSError as error:
        log.info("%s is not looked into: %s", ascii(str(directory)), error.strerror)
        return
    for entry in entries:
        path = f"{prefix}{entry.name}"
        if entry.is_dir(follow_symlinks=False):
            if entry.name not in SKIPPED and not _is_ignored(f"{path}/", ignoring):
                yield from _from_disk(root, Path(entry.path), ignoring)
        elif entry.is_file(follow_symlinks=False) and not _is_ignored(path, ignoring):
            yield path


def _ignore_file(directory: Path, prefix: str) -> Iterator[tuple[str, GitIgnoreSpec]]:
    """What a directory's own `.gitignore` says, and the directory it says it for."""
    try:
        lines = (directory / ".gitignore").read_text(errors="replace").splitlines()
    except OSError:
        return
    try:
        from pathspec import GitIgnoreSpec
    except ModuleNotFoundError:
        raise MissingExtra("Indexing", "retrieval") from None
    yield prefix, GitIgnoreSpec.from_lines(lines)


def _is_ignored(path: str, ignoring: tuple[tuple[str, GitIgnoreSpec], ...]) -> bool:
    """The nearest file that says anything about a path decides."""
    for prefix, spec in reversed(ignoring):
        ignored = spec.check_file(path.removeprefix(prefix)).include
        if ignored is not None:
            return ignored
    return False


def _is_text(path: str) -> bool:
    try:
        path.encode()
    except UnicodeEncodeError:
        log.warning("%s is left out: its name is not UTF-8", ascii(path))
        return False
    return True
