"""Blobs in a bucket: S3 and what speaks like it, Google Cloud Storage, Azure.

Each is reached as its own programs reach it: credentials, region and endpoint come from their
environment (`AWS_…`, `GOOGLE_…`, `AZURE_…`), and never stand in the URL. A put writes the object
again even if it is there, which mends it and makes it young.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, cast
from uuid import uuid4

from holdfast.blobs.errors import BlobsUnavailable
from holdfast.blobs.place import Entry
from holdfast.errors import InvalidInput, MissingExtra

try:
    import obstore
    from obstore.exceptions import BaseError
    from obstore.store import from_url
except ImportError:
    raise MissingExtra("Blobs in a bucket", "blobs") from None

if TYPE_CHECKING:
    from obstore import SignCapableStore

RETRIES = 3
RETRY_TIMEOUT = timedelta(seconds=60)


class BucketPlace:
    def __init__(self, url: str) -> None:
        self._url = url
        try:
            self._store = from_url(url, retry_config={"max_retries": RETRIES, "retry_timeout": RETRY_TIMEOUT})
        except (BaseError, ValueError) as error:
            raise InvalidInput(
                f"{url!r} is not a bucket that blobs can be kept in: {_first(error)}"
            ) from None

    async def read(self, key: str) -> bytes | None:
        with self._reaching():
            try:
                found = await obstore.get_async(self._store, key)
                return bytes(await found.bytes_async())
            except FileNotFoundError:
                return None

    async def write(self, key: str, data: bytes, media_type: str) -> None:
        attributes = {"Content-Type": media_type, "Content-Encoding": "zstd"}
        with self._reaching():
            await obstore.put_async(self._store, key, data, attributes=attributes)

    async def has(self, key: str) -> bool:
        with self._reaching():
            try:
                await obstore.head_async(self._store, key)
            except FileNotFoundError:
                return False
            return True

    async def delete(self, key: str) -> None:
        with self._reaching():
            try:
                await obstore.delete_async(self._store, key)
            except FileNotFoundError:
                return

    async def folders(self, area: str) -> Sequence[str]:
        with self._reaching():
            found = await obstore.list_with_delimiter_async(self._store, area)
            return sorted(prefix.rpartition("/")[2] for prefix in found["common_prefixes"])

    async def entries(self, folder: str) -> Sequence[Entry]:
        with self._reaching():
            pages = [page async for page in obstore.list(self._store, folder)]
            return [Entry(each["path"], each["last_modified"]) for page in pages for each in page]

    async def tidy(self, before: datetime) -> None:
        """Objects appear whole; a bucket's own lifecycle rules end uploads that were cut off."""

    async def try_writing(self) -> None:
        key = f"tried/{uuid4().hex}"
        await self.write(key, b"a blob", "application/octet-stream")
        await self.delete(key)

    async def presigned(self, key: str, seconds: int) -> str:
        with self._reaching():
            signing = cast("SignCapableStore", self._store)
            return await obstore.sign_async(signing, "GET", key, timedelta(seconds=seconds))

    @contextmanager
    def _reaching(self) -> Iterator[None]:
        try:
            yield
        except (BaseError, OSError) as error:
            raise BlobsUnavailable(self._url, _first(error)) from error


def _first(error: Exception) -> str:
    """The first line of an error: what follows are the library's own structures."""
    return str(error).strip().partition("\n")[0]
