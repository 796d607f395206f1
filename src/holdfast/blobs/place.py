"""What a place that keeps blobs can do: bytes under keys, and nothing about what they mean."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

import msgspec


class Entry(msgspec.Struct, frozen=True):
    key: str
    written_at: datetime


class Place(Protocol):
    async def read(self, key: str) -> bytes | None:
        """What was written last, whole; None when there is nothing."""

    async def write(self, key: str, data: bytes, media_type: str) -> None:
        """Durable when it returns, and written now even where the same bytes were there before."""

    async def has(self, key: str) -> bool: ...

    async def delete(self, key: str) -> None:
        """What is not there is deleted already."""

    async def folders(self, area: str) -> Sequence[str]:
        """The names of the folders of an area."""

    async def entries(self, folder: str) -> Sequence[Entry]:
        """Everything below a folder."""

    async def tidy(self, before: datetime) -> None:
        """Remove what writers left behind that were cut off before that time."""

    async def try_writing(self) -> None:
        """Raise what a writer would meet. Nothing is left behind."""

    async def presigned(self, key: str, seconds: int) -> str | None:
        """An address that gives the bytes to whoever has it; None where there are no such addresses."""
