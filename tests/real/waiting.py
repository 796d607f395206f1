"""Waiting for programs that need seconds to start, and many of them on a busy machine."""

import asyncio
from collections.abc import Awaitable, Callable

SECONDS = 120


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    """Wait for a condition to become true."""
    async with asyncio.timeout(SECONDS):
        while not await condition():  # noqa: ASYNC110  # other programs tell of nothing
            await asyncio.sleep(0.05)
