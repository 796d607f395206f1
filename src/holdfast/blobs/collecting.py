"""Deleting the blobs that no turn refers to, and never another.

A crash between a put and its row, or a deleted session, leaves blobs behind. One that is old and
that no row refers to is first set aside, where it is still found; only when it has been there for
as long again, still without a row, is it deleted, and with a row it is put back.

That is why no lock is needed, in one process or in many. A blob may be put again, and its row
committed, at the very moment in which it is set aside: by the time it would be deleted, that row
has long been there. All this takes is that a row follows its put within the age limit.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import msgspec

from holdfast.blobs.address import ASIDE, KEPT, BlobId, blob_at, blob_id_of, folder_of, is_blob_id, key
from holdfast.blobs.blobs import Blobs
from holdfast.blobs.errors import BlobDamaged
from holdfast.blobs.media import BINARY, media_type
from holdfast.blobs.packing import unpacked
from holdfast.errors import InvalidInput
from holdfast.store.store import Store

AGE = timedelta(days=1)
LEAST_AGE = timedelta(hours=1)
"""Far longer than any row takes to follow its put."""


class Collection(msgspec.Struct, frozen=True):
    set_aside: int
    put_back: int
    deleted: int


async def collect_orphans(
    blobs: Blobs, store: Store, *, older_than: timedelta = AGE, now: datetime | None = None
) -> Collection:
    """Set aside and delete what has had no row for so long. What it holds in memory is one organization's."""
    if older_than < LEAST_AGE:
        raise InvalidInput(f"Only blobs that are older than {LEAST_AGE} are collected; give a longer time.")
    before = (now or datetime.now(UTC)) - older_than
    collector = _Collector(blobs, store, before)
    await blobs.place.tidy(before)
    return await collector.collect()


class _Collector:
    def __init__(self, blobs: Blobs, store: Store, before: datetime) -> None:
        self._place = blobs.place
        self._store = store
        self._before = before

    async def collect(self) -> Collection:
        set_aside = put_back = deleted = 0
        organizations = {folder_of(name): name for name in await self._store.organizations()}
        for folder in sorted({*await self._place.folders(KEPT), *await self._place.folders(ASIDE)}):
            kept = await self._old(KEPT, folder)
            aside = await self._old(ASIDE, folder)
            # Read after the listings: a row that is older than they are is seen.
            referenced = await self._referenced(organizations.get(folder))
            for blob in aside & referenced:
                put_back += await self._put_back(folder, blob)
            for blob in aside - referenced:
                await self._place.delete(key(ASIDE, folder, blob))
                deleted += 1
            for blob in kept - referenced:
                set_aside += await self._set_aside(folder, blob)
        return Collection(set_aside, put_back, deleted)

    async def _old(self, area: str, folder: str) -> set[BlobId]:
        entries = await self._place.entries(f"{area}/{folder}")
        return {blob_at(entry.key) for entry in entries if entry.written_at < self._before}

    async def _referenced(self, organization: str | None) -> set[BlobId]:
        if organization is None:
            return set()
        return {blob async for blob in self._references(organization)}

    async def _references(self, organization: str) -> AsyncIterator[BlobId]:
        async for reference in self._store.payload_references(organization):
            if is_blob_id(reference):
                yield BlobId(reference)
            elif (blob := blob_id_of(reference)) is not None:
                yield blob

    async def _set_aside(self, folder: str, blob: BlobId) -> bool:
        stored = await self._place.read(key(KEPT, folder, blob))
        if stored is None:
            return False
        await self._place.write(key(ASIDE, folder, blob), stored, BINARY)
        await self._place.delete(key(KEPT, folder, blob))
        return True

    async def _put_back(self, folder: str, blob: BlobId) -> bool:
        stored = await self._place.read(key(ASIDE, folder, blob))
        if stored is None:
            return False
        try:
            kind = media_type(await asyncio.to_thread(unpacked, stored, blob))
        except BlobDamaged:
            return False  # one that was put since may be sound
        await self._place.write(key(KEPT, folder, blob), stored, kind)
        await self._place.delete(key(ASIDE, folder, blob))
        return True
