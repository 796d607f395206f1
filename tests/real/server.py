"""A server in a process of its own, to be killed: `server.py DIRECTORY AGENT MODEL_URL`.

It prints the id of a session as soon as its agent is in the middle of its second turn.
"""

import asyncio
import sys
from pathlib import Path

from holdfast import open_store
from tests.real.agents import RealAgent
from tests.real.serving import Served, question_box, store_url, supervising


async def serve(directory: Path, name: str, model_url: str) -> None:
    agent = RealAgent(name, directory / "home", model_url)
    async with open_store(store_url(directory)) as store, supervising(agent, store, directory) as supervisor:
        served = await Served.create(supervisor, store, question_box(directory))
        await served.answered("What is the answer?")
        await served.prompt("SLOW, please")
        await served.until_it_says("slow1 ")
        print(served.id, flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1]), sys.argv[2], sys.argv[3]))
