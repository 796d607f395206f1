"""Payloads that are too large for a row: kept by the hash of their bytes, apart for each organization."""

from __future__ import annotations

from holdfast.blobs.address import BlobId, blob_id_of, blob_url
from holdfast.blobs.blobs import Blobs
from holdfast.blobs.collecting import Collection, collect_orphans
from holdfast.blobs.errors import BlobDamaged, BlobNotFound, BlobsFull, BlobsUnavailable
from holdfast.blobs.media import media_type
from holdfast.blobs.opening import open_blobs

__all__ = [
    "BlobDamaged",
    "BlobId",
    "BlobNotFound",
    "Blobs",
    "BlobsFull",
    "BlobsUnavailable",
    "Collection",
    "blob_id_of",
    "blob_url",
    "collect_orphans",
    "media_type",
    "open_blobs",
]
