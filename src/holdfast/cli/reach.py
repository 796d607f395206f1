"""Sessions with agents, as the command line reaches them.

A running server owns the agents, so what concerns them goes through it. Without one, the command
runs the agent itself, in its own process, for as long as it lasts.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Protocol

from holdfast.agents.opening import open_supervisor
from holdfast.agents.permissions import Decision
from holdfast.agents.supervisor import Supervisor
from holdfast.cli.options import say_store
from holdfast.client import Client
from holdfast.compaction.tokens import default_counter
from holdfast.config import Settings
from holdfast.errors import InvalidInput, NotFound
from holdfast.mcp import question_door
from holdfast.questions import open_box
from holdfast.server.shapes import Changes, Session, Turn
from holdfast.store import open_store
from holdfast.store.store import Store


class Sessions(Protocol):
    async def create(self, repository: Path, agent: str | None) -> Session: ...

    async def resume(self, session_id: str) -> Session: ...

    async def fork(self, session_id: str) -> Session: ...

    async def prompt(self, session_id: str, text: str) -> Turn: ...

    def follow(
        self, session_id: str, since: int, waits: Callable[[], None]
    ) -> AsyncGenerator[Changes, None]: ...

    async def cancel_turn(self, session_id: str) -> Session: ...

    async def cancel(self, session_id: str) -> Session: ...

    async def complete(self, session_id: str) -> Session: ...

    async def session(self, session_id: str) -> Session: ...


@asynccontextmanager
async def reached(
    settings: Settings, root: Path, permissions: Decision | None = None
) -> AsyncIterator[Sessions]:
    """The sessions of the running server, or our own in the repositories below `root`."""
    if client := await Client.find(settings.data_dir, settings.store_url):
        async with client:
            if permissions is not None:
                raise InvalidInput(
                    f"A server is running at {client.url} and decides about permissions; "
                    "stop it, or set them in holdfast.toml."
                )
            yield ServedSessions(client)
        return
    box = open_box(settings.questions)
    async with (
        open_store(settings.store_url, durability=settings.durability, counter=default_counter()) as store,
        open_supervisor(
            settings, store, box, question_door(box, settings), root=root, permissions=permissions
        ) as supervisor,
    ):
        yield OwnSessions(supervisor, store)
    say_store(settings)


class ServedSessions:
    def __init__(self, client: Client) -> None:
        self._client = client
        self.resume = client.resume_session
        self.fork = client.fork_session
        self.prompt = client.prompt
        self.follow = client.follow
        self.cancel_turn = client.cancel_turn
        self.cancel = client.cancel_session
        self.complete = client.complete_session

    async def create(self, repository: Path, agent: str | None) -> Session:
        for repo in await self._client.scan_repos():
            if Path(repo.path) == repository:
                return await self._client.create_session(repo.id, agent=agent)
        raise NotFound(
            f"The server that is running at {self._client.url} finds no {repository} under its workspace "
            "root; stop it, or start it with AGENT_WORKSPACE_ROOT set to a directory above."
        )

    async def session(self, session_id: str) -> Session:
        return await self._client.session(session_id, messages="none")


class OwnSessions:
    def __init__(self, supervisor: Supervisor, store: Store) -> None:
        self._supervisor = supervisor
        self._store = store

    async def create(self, repository: Path, agent: str | None) -> Session:
        for repo in await self._supervisor.repositories.scan(self._store):
            if Path(repo.path) == repository and repo.id is not None:
                return Session.of(await self._supervisor.create(self._store, repo.id, agent=agent))
        raise NotFound(f"{repository} is no git repository.")

    async def resume(self, session_id: str) -> Session:
        return Session.of(await self._supervisor.resume(self._store, session_id))

    async def fork(self, session_id: str) -> Session:
        return Session.of(await self._supervisor.fork(self._store, session_id))

    async def prompt(self, session_id: str, text: str) -> Turn:
        return Turn.of(await self._supervisor.prompt(self._store, session_id, text))

    async def follow(
        self, session_id: str, since: int, waits: Callable[[], None]
    ) -> AsyncGenerator[Changes, None]:
        async with aclosing(self._store.follow(session_id, since)) as items:
            async for changes in items:
                yield Changes.of(changes)

    async def cancel_turn(self, session_id: str) -> Session:
        return Session.of(await self._supervisor.cancel_turn(self._store, session_id))

    async def cancel(self, session_id: str) -> Session:
        return Session.of(await self._supervisor.cancel(self._store, session_id))

    async def complete(self, session_id: str) -> Session:
        return Session.of(await self._supervisor.complete(self._store, session_id))

    async def session(self, session_id: str) -> Session:
        return Session.of(await self._store.get_session(session_id))
