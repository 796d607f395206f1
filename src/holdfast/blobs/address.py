"""How blobs are named: by what they hold, for whom, and where that lies.

An organization's name is any text. Its hash is a folder's name on every file system, also on one
that does not tell upper from lower case, and no two organizations share one. Equal bytes of two
organizations are two blobs: otherwise each could find out what the other has stored.
"""

from __future__ import annotations

import hashlib
import re
from typing import NewType

BlobId = NewType("BlobId", str)
"""The SHA-256 of a blob's plain bytes, in lower-case hexadecimal digits."""

URL_PREFIX = "/api/blobs/"

KEPT = "kept"
ASIDE = "aside"
"""Where a blob lies that nothing seemed to refer to, until that has become sure."""

_ID = re.compile(r"[0-9a-f]{64}")


def blob_id(data: bytes) -> BlobId:
    return BlobId(hashlib.sha256(data).hexdigest())


def is_blob_id(text: str) -> bool:
    return _ID.fullmatch(text) is not None


def blob_url(blob: BlobId) -> str:
    """The address under which the server gives a blob to those who may have it."""
    return URL_PREFIX + blob


def blob_id_of(url: str) -> BlobId | None:
    """The blob that a URL of `blob_url` names; None when it is another one's."""
    name = url.removeprefix(URL_PREFIX)
    return BlobId(name) if name != url and is_blob_id(name) else None


def folder_of(organization: str) -> str:
    return hashlib.sha256(organization.encode()).hexdigest()


def key(area: str, folder: str, blob: str) -> str:
    """Where a blob of an organization's folder lies; spread out, because a folder of millions is slow."""
    return f"{area}/{folder}/{blob[:2]}/{blob}.zst"


def blob_at(key: str) -> BlobId:
    return BlobId(key.rpartition("/")[2].removesuffix(".zst"))
