"""Ending when told to, with nothing left half done: as after Ctrl-C, also after SIGTERM and SIGHUP."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

ENDING = (signal.SIGTERM, signal.SIGHUP)


def run_in_order(action: Coroutine[Any, Any, T]) -> T:
    """What comes of an action. When the process is told to end, the action is cancelled first, and the
    process then ends as the signal says."""
    told: list[signal.Signals] = []

    async def act() -> T:
        acting = asyncio.current_task()
        assert acting is not None

        def cancel(number: signal.Signals) -> None:
            if not told:
                told.append(number)
                acting.cancel()

        for number in ENDING:
            if signal.getsignal(number) is not signal.SIG_IGN:  # as under nohup
                asyncio.get_running_loop().add_signal_handler(number, cancel, number)
        return await action

    try:
        return asyncio.run(act())
    except asyncio.CancelledError:
        for number in told:
            signal.raise_signal(number)
        raise
