"""A process of its own with a gateway, for the tests that kill it: `worker.py URL ROLE`.

It prints a line when its store is open, and when its runner has begun. The holder stops half-way; the
answerer answers at once.
"""

import asyncio
import sys
from collections.abc import AsyncGenerator

from holdfast import open_store
from holdfast.routing.bindings import Bindings
from holdfast.routing.gateway import Gateway
from holdfast.routing.runner import Exchange
from tests.routing.messages import said

LEASE_SECONDS = 3.0


async def main(url: str, role: str) -> None:
    async def run(exchange: Exchange) -> AsyncGenerator[str, None]:
        print(f"begun {exchange.text}", flush=True)
        if role == "holder":
            yield "half an"
            await asyncio.Event().wait()
        yield f"answer to {exchange.text}"

    async with open_store(url) as store:
        print("open", flush=True)
        gateway = Gateway(store, Bindings(agents=["main"]), {"main": run}, lease_seconds=LEASE_SECONDS)
        async for event in gateway.receive(said("group:g1", role)):
            print(type(event).__name__, flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
