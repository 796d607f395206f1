"""Blobs: put once, found by their hash, verified whenever they are read.

A blob is put before the row that refers to it is committed, so no row ever refers to nothing.
What is put and never referred to is collected later (`collecting`).
"""

from __future__ import annotations

import asyncio

from holdfast.blobs.address import ASIDE, KEPT, BlobId, blob_id, folder_of, is_blob_id, key
from holdfast.blobs.errors import BlobNotFound
from holdfast.blobs.media import media_type
from holdfast.blobs.packing import packed, unpacked
from holdfast.blobs.place import Place


class Blobs:
    """The blobs of all organizations in one place. Each call sees those of one organization."""

    def __init__(self, place: Place) -> None:
        self.place = place

    async def put(self, organization: str, data: bytes) -> BlobId:
        """Durable when it returns. The same bytes again are harmless, and mend a damaged blob."""
        blob, stored, kind = await asyncio.to_thread(_prepared, data)
        await self.place.write(key(KEPT, folder_of(organization), blob), stored, kind)
        return blob

    async def get(self, organization: str, blob: str) -> bytes:
        """The bytes that were put; `BlobDamaged` when they are no longer the same."""
        for where in _keys(organization, blob):
            stored = await self.place.read(where)
            if stored is not None:
                return await asyncio.to_thread(unpacked, stored, BlobId(blob))
        raise BlobNotFound(blob)

    async def presigned(self, organization: str, blob: str, seconds: int) -> str | None:
        """An address that gives the blob to whoever has it, for so long.

        What it gives is compressed and says so (`Content-Encoding: zstd`). None where the place has
        no addresses of its own.
        """
        for where in _keys(organization, blob):
            if await self.place.has(where):
                return await self.place.presigned(where, seconds)
        raise BlobNotFound(blob)


def _prepared(data: bytes) -> tuple[BlobId, bytes, str]:
    return blob_id(data), packed(data), media_type(data)


def _keys(organization: str, blob: str) -> tuple[str, ...]:
    """Where a blob may lie, in the order to look in: it may be put back while one looks."""
    if not is_blob_id(blob):
        return ()
    return tuple(key(area, folder_of(organization), blob) for area in (KEPT, ASIDE, KEPT))
