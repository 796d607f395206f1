"""A workspace with a repository, and a supervisor that runs agents in it."""

import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import msgspec

import holdfast
from holdfast import Session, Store, Turn, TurnStatus
from holdfast.agents.catalogue import AgentEntry, Catalogue
from holdfast.agents.permissions import Decision
from holdfast.agents.repositories import Repositories
from holdfast.agents.sandbox import Sandboxes
from holdfast.agents.supervisor import Supervisor
from holdfast.config import QuestionSettings
from holdfast.mcp.door import McpDoor
from holdfast.model.message import Message
from holdfast.model.records import Repo
from holdfast.questions import QuestionBox
from holdfast.store.options import HistoryOptions
from tests.waiting import until

T = TypeVar("T")

PYTHON = (sys.prefix, sys.base_prefix, str(Path(holdfast.__file__).parent.parent))
"""What a program needs to see that starts our Python by itself."""


def git(directory: Path, *arguments: str) -> None:
    subprocess.run(
        ["git", "-c", "user.name=t", "-c", "user.email=t@example.org", *arguments],
        cwd=directory,
        check=True,
        capture_output=True,
    )


def repository(path: Path) -> Path:
    path.mkdir(parents=True)
    git(path, "init", "--quiet", "--initial-branch=main")
    (path / "README.md").write_text("hello\n")
    git(path, "add", ".")
    git(path, "commit", "--quiet", "-m", "first")
    return path


class World:
    """Everything a session with an agent needs, in a directory of its own."""

    def __init__(self, store: Store, directory: Path, agents: dict[str, AgentEntry] | None = None) -> None:
        self.store = store
        self.directory = directory
        self.root = directory / "workspace"
        self.repository = self.root / "project"
        self.box = QuestionBox(directory / "questions")
        memory = directory / "memory"
        memory.mkdir(exist_ok=True)
        self.demo = AgentEntry(
            command=sys.executable,
            args=("-m", "holdfast.agents.demo", str(memory)),
            writes=(str(memory),),
        )
        self.agents = {"demo": self.demo, **(agents or {})}
        self.repositories = Repositories(self.root)
        self.records = directory / "records"

    def trust(self) -> None:
        """Let the demo agent do all that it wants in its repository, without a question."""
        self.agents["demo"] = msgspec.structs.replace(self.demo, permissions=Decision.ALLOW)

    def supervisor(self, **options: Any) -> Supervisor:
        """One whose agents are in sandboxes, as those of a server are."""
        sandboxes = Sandboxes(self.directory / "sandboxes", never=[self.box.directory], records=self.records)
        asks = McpDoor(
            self.box, QuestionSettings(soft_return_seconds=0), self.directory / "sandboxes" / "tmp"
        )
        options = {"box": self.box, "asks": asks, "sandboxes": sandboxes, **options}
        return Supervisor(self.store, Catalogue(self.agents), self.repositories, **options)

    async def repo(self) -> Repo:
        if not self.repository.exists():
            repository(self.repository)
        (repo,) = await self.repositories.scan(self.store)
        return repo

    async def open(self, supervisor: Supervisor, agent: str = "demo") -> Session:
        repo = await self.repo()
        assert repo.id is not None
        return await supervisor.create(self.store, repo.id, agent=agent)

    async def ask(self, supervisor: Supervisor, session: Session, text: str) -> Turn:
        """Prompt the agent; the turn once it has ended."""
        turn = await supervisor.prompt(self.store, session.id, text)
        return await self.ended(session, turn)

    async def ended(self, session: Session, turn: Turn) -> Turn:
        async def has_ended() -> Turn | None:
            current = await self.store.get_turn(session.id, turn.id)
            return None if current.status is TurnStatus.PENDING else current

        return await until(has_ended)

    async def messages(self, session: Session) -> list[Message]:
        return (await self.store.get_history(session.id, HistoryOptions(limit=1000))).messages

    async def texts(self, session: Session) -> list[tuple[str, str]]:
        """Who said what."""
        return [(each.role.value, each.text) for each in await self.messages(session) if each.text]

    async def status(self, session: Session) -> tuple[str, str | None]:
        current = await self.store.get_session(session.id)
        return current.status.value, current.status_reason


@asynccontextmanager
async def working(world: World, **options: Any) -> AsyncIterator[tuple[Supervisor, Session]]:
    """A supervisor with a session of the demo agent's."""
    async with world.supervisor(**options) as supervisor:
        yield supervisor, await world.open(supervisor)
