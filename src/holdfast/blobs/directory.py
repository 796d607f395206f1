"""Blobs in a local directory.

A reader sees all of a file or nothing, and what was acknowledged survives a power failure. Work on files
happens on threads.
"""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryFile
from typing import ParamSpec, TypeVar

from holdfast.blobs.errors import BlobsFull, BlobsUnavailable
from holdfast.blobs.place import Entry
from holdfast.files import TEMPORARY, replace, sync_directory

P = ParamSpec("P")
T = TypeVar("T")

_NO_SPACE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


class DirectoryPlace:
    def __init__(self, root: Path) -> None:
        self._root = root
        self._lasting: set[Path] = set()
        """The directories whose own names have reached the disk."""

    async def read(self, key: str) -> bytes | None:
        return await self._on_thread(self._read, key)

    async def write(self, key: str, data: bytes, media_type: str) -> None:
        await self._on_thread(self._write, key, data)

    async def has(self, key: str) -> bool:
        return await self._on_thread((self._root / key).is_file)

    async def delete(self, key: str) -> None:
        await self._on_thread((self._root / key).unlink, missing_ok=True)

    async def folders(self, area: str) -> Sequence[str]:
        return await self._on_thread(self._folders, area)

    async def entries(self, folder: str) -> Sequence[Entry]:
        return await self._on_thread(lambda: list(self._entries(folder)))

    async def tidy(self, before: datetime) -> None:
        await self._on_thread(self._tidy, before)

    async def try_writing(self) -> None:
        await self._on_thread(self._try_writing)

    async def presigned(self, key: str, seconds: int) -> None:
        return None

    async def _on_thread(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return await asyncio.to_thread(work, *args, **kwargs)
        except OSError as error:
            if error.errno in _NO_SPACE:
                raise BlobsFull(str(self._root)) from error
            raise BlobsUnavailable(str(self._root), error.strerror or str(error)) from error

    def _read(self, key: str) -> bytes | None:
        try:
            return (self._root / key).read_bytes()
        except FileNotFoundError:
            return None

    def _write(self, key: str, data: bytes) -> None:
        path = self._root / key
        if self._read(key) == data:
            with suppress(FileNotFoundError):  # it was set aside at this moment, and is written again
                os.utime(path)
                self._make(path.parent)
                sync_directory(path.parent)  # whoever wrote it may not have come to this yet
                return
        self._make(path.parent)
        replace(path, data)

    def _make(self, directory: Path) -> None:
        """A directory for its owner alone whose name has reached the disk, with those above it."""
        if directory.is_dir() and (directory in self._lasting or not directory.is_relative_to(self._root)):
            return
        self._make(directory.parent)
        directory.mkdir(mode=0o700, exist_ok=True)
        sync_directory(directory.parent)
        self._lasting.add(directory)

    def _folders(self, area: str) -> list[str]:
        try:
            return sorted(path.name for path in (self._root / area).iterdir() if path.is_dir())
        except FileNotFoundError:
            return []

    def _entries(self, folder: str) -> Iterator[Entry]:
        for path in (self._root / folder).glob("*/*.zst"):
            with suppress(FileNotFoundError):
                yield Entry(path.relative_to(self._root).as_posix(), _written_at(path))

    def _try_writing(self) -> None:
        """In the directory, or in the one in which it would be made."""
        existing = next(path for path in (self._root, *self._root.parents) if path.exists())
        with TemporaryFile(dir=existing) as file:
            file.write(b"a blob")

    def _tidy(self, before: datetime) -> None:
        for path in self._root.glob(f"*/*/*/.*{TEMPORARY}"):
            with suppress(FileNotFoundError):
                if _written_at(path) < before:
                    path.unlink()


def _written_at(path: Path) -> datetime:
    return datetime.fromtimestamp(path.stat().st_mtime, UTC)
