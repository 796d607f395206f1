"""Which payloads turns refer to, for whoever collects the blobs that nothing refers to."""

from __future__ import annotations

from holdfast.store.transaction import Transaction

PAGE = 500
"""Sessions whose turns are read at a time."""


async def organizations(tx: Transaction) -> list[str]:
    return [row[0] for row in await tx.all("organizations")]


async def urls(tx: Transaction, organization: str, after: int) -> tuple[list[str], int | None]:
    """The URLs in the turns of an organization's next sessions, and where to go on; None at the end."""
    rows = await tx.all("payload_urls", organization, after, PAGE)
    found = [url for _, *given in rows for url in given if url is not None]
    return found, rows[-1][0] if rows else None
