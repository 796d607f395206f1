"""Which payloads turns refer to, for whoever collects the blobs that nothing refers to."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from holdfast.store.transaction import Row, Transaction

PAGE = 500
"""Sessions whose turns are read at a time."""


async def organizations(tx: Transaction) -> list[str]:
    return [row[0] for row in await tx.all("organizations")]


async def references(tx: Transaction, organization: str, after: int) -> tuple[list[str], int | None]:
    """What the turns of an organization's next sessions refer to, by URL or by hash, and where to go on;
    None at the end."""
    rows = await tx.all("payload_references", organization, after, PAGE)
    return [each for row in rows for each in _referred(row)], rows[-1][0] if rows else None


def _referred(row: Row) -> Iterator[str]:
    _, *urls, chunk_refs, file_refs, recipe = row
    yield from (url for url in urls if url is not None)
    for refs in (chunk_refs, file_refs):
        yield from (ref["contentHash"] for ref in msgspec.json.decode(refs or "[]"))
    if recipe is not None:
        yield msgspec.json.decode(recipe)["parameters"]
