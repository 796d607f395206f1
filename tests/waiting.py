"""The one limit of every wait, and the way to wait for a condition.

A test never waits for a time. It waits for what must become true, for far longer than that ever takes: the
limit only keeps a defect from hanging the run. It grows with what else the machine has to do.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable
from inspect import isawaitable
from typing import Any, TypeVar, overload

import pytest

T = TypeVar("T")

BUSY = min(4.0, max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1)))
"""How many times longer than at rest a busy machine may take."""

SECONDS = 100 * BUSY


@overload
async def until(condition: Callable[[], bool]) -> bool: ...


@overload
async def until(condition: Callable[[], Awaitable[bool]]) -> bool: ...


@overload
async def until(condition: Callable[[], Awaitable[T | None]]) -> T: ...


async def until(condition: Callable[[], Any]) -> Any:
    """The first true value of a condition."""
    async with asyncio.timeout(SECONDS):
        while True:
            now = condition()
            value = await now if isawaitable(now) else now
            if value:
                return value
            await asyncio.sleep(0.01)


def returned(patch: pytest.MonkeyPatch, owner: object, name: str) -> list[Any]:
    """What a function or a coroutine method returns from now on, call by call.

    It shows how far somebody has come, when a test says that something does not happen.
    """
    results: list[Any] = []
    original = getattr(owner, name)

    def noted(*args: Any, **kwargs: Any) -> Any:
        result = original(*args, **kwargs)
        if isawaitable(result):
            return note(result)
        results.append(result)
        return result

    async def note(result: Awaitable[Any]) -> Any:
        results.append(await result)
        return results[-1]

    patch.setattr(owner, name, noted)
    return results
