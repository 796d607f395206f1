"""Writes that outlast a caller that is cancelled, and a store that is away."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from holdfast.errors import StoreClosed, StoreError

log = logging.getLogger("holdfast.store")

T = TypeVar("T")

RETRY_SECONDS = 1.0


async def to_its_end(work: Coroutine[Any, Any, T]) -> T:
    """The result. A caller that is cancelled waits for it first: what it began in the store has ended."""
    task = asyncio.get_running_loop().create_task(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise


async def until_stored(write: Callable[[], Awaitable[T]], who: str) -> T:
    """The result of a write, as soon as the store can make it: what somebody said is not given up."""
    while True:
        try:
            return await write()
        except StoreClosed:
            raise
        except StoreError as error:
            log.error("%s waits for the store: %s", who, error)
            await asyncio.sleep(RETRY_SECONDS)
