"""Serving one client over standard input and output, until it closes them or ends us."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys

import anyio
from mcp.server.stdio import stdio_server

from holdfast.mcp.asking import Asker
from holdfast.mcp.server import question_server

ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


async def serve_stdio(asker: Asker) -> None:
    """Standard output carries the protocol and nothing else; what there is to log goes to standard error."""
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="holdfast: %(message)s")
    server = question_server(asker)
    ending = asyncio.create_task(_end_when_told(asker))
    try:
        async with stdio_server() as (incoming, outgoing):
            await server.run(incoming, outgoing, server.create_initialization_options())
    finally:
        ending.cancel()
        with anyio.CancelScope(shield=True):
            await asker.close()


async def _end_when_told(asker: Asker) -> None:
    """Leave the sets true, then end as the signal says: the thread that reads our input cannot be woken."""
    loop = asyncio.get_running_loop()
    told: asyncio.Queue[signal.Signals] = asyncio.Queue()
    for each in ENDING:
        loop.add_signal_handler(each, told.put_nowait, each)
    number = await told.get()
    await asker.close()
    signal.signal(number, signal.SIG_DFL)
    signal.raise_signal(number)
