"""A server, as far as agents are concerned: runs a session until it is killed."""

import asyncio
import sys
from pathlib import Path

import msgspec

from holdfast import open_store
from holdfast.agents.process import mark_of
from tests.agents.worlds import World


async def main(directory: Path) -> None:
    async with open_store(f"sqlite:///{directory / 'holdfast.db'}") as store:
        world = World(store, directory)
        async with world.supervisor() as supervisor:
            session = await world.open(supervisor)
            await supervisor.prompt(store, session.id, "say heron\nwrite a.txt: hello")
            await supervisor.prompt(store, session.id, "say never")
            pid = supervisor.agents[session.id].process.pid
            told = {"session": session.id, "pid": pid, "mark": mark_of(session.id, store.incarnation)}
            print(msgspec.json.encode(told).decode(), flush=True)
            await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
