"""`holdfast serve`."""

from __future__ import annotations

import asyncio

import typer

from holdfast.cli.options import StoreOption, settings_for
from holdfast.store import open_store


def serve(store: StoreOption = None) -> None:
    """Open the store, and say what is in it. The server itself is not part of this version."""
    settings = settings_for(store)

    async def look() -> int:
        async with open_store(settings.store_url, durability=settings.durability) as opened:
            return (await opened.list()).total

    total = asyncio.run(look())
    typer.echo(f"The store at {settings.store_url} is ready and holds {total} sessions.")
    typer.echo("This version has no server yet: use the library (README.md) and `holdfast db`.")
