"""Blobs by the address of their place."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote, urlsplit

from holdfast.blobs.blobs import Blobs
from holdfast.blobs.directory import DirectoryPlace
from holdfast.errors import InvalidInput

BUCKETS = ("s3", "gs", "az")


def open_blobs(url: str) -> Blobs:
    """`file:///directory`, `s3://bucket/prefix`, `gs://bucket/prefix` or `az://account/container/prefix`."""
    parts = urlsplit(url)
    if parts.scheme == "file":
        return Blobs(DirectoryPlace(_directory(url)))
    if parts.scheme in BUCKETS and parts.netloc:
        from holdfast.blobs.bucket import BucketPlace

        return Blobs(BucketPlace(url))
    raise InvalidInput(
        f"{url!r} is not a place for blobs: it is file:///directory, s3://bucket/prefix, gs://bucket/prefix "
        "or az://account/container/prefix."
    )


def _directory(url: str) -> Path:
    parts = urlsplit(url)
    path = unquote(parts.path)
    if parts.netloc or not path.startswith("/") or "\0" in path or path.strip("/") == "":
        raise InvalidInput(f"{url!r} names no directory of its own: file:///absolute/directory does.")
    return Path(path)
