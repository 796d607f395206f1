"""An action that runs a fixed time after the first of any number of nudges."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable


class Pulse:
    """Owns the timer and the task. The action must deal with its own failures."""

    def __init__(self, delay: float, action: Callable[[], Awaitable[None]]) -> None:
        self._delay = delay
        self._action = action
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None
        self._again = False

    def nudge(self) -> None:
        if self._task is not None:
            self._again = True
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._delay, self._start)

    async def close(self) -> None:
        """Stop, and let the action run a last time."""
        await self.stop()
        await self._action()

    async def stop(self) -> None:
        """Let an action that is under way end, and begin no other."""
        if self._task is not None:
            await self._task
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _start(self) -> None:
        self._timer = None
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        try:
            await self._action()
        finally:
            self._task = None
            if self._again:
                self._again = False
                self.nudge()
