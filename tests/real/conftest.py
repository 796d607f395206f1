"""Real agents at work: each test has a model and a home of its own, and leaves no process behind."""

import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from holdfast import Store, open_store
from holdfast.questions import QuestionBox
from tests.real.agents import NAMES, RealAgent
from tests.real.model_server import ModelServer
from tests.real.overheard import Overheard
from tests.real.serving import Served, question_box, store_url, supervising


@pytest.fixture(autouse=True, scope="session")
def _all_of_them(third_party: None) -> None:
    """Every test here runs programs of others."""


@pytest.fixture
def model() -> Iterator[ModelServer]:
    with ModelServer() as server:
        yield server


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    path = tmp_path / "work" / "repository"
    subprocess.run(["git", "init", "--quiet", str(path)], check=True)
    return path


@pytest.fixture
def overheard(monkeypatch: pytest.MonkeyPatch) -> Iterator[Overheard]:
    """What is said between us and the agents. All that we say must be in the protocol."""
    listening = Overheard(monkeypatch)
    yield listening
    assert listening.mistakes() == []


@pytest.fixture(params=NAMES)
async def agent(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    model: ModelServer,
    overheard: Overheard,
) -> AsyncIterator[RealAgent]:
    """Each agent in turn. When the test is over, nothing of it may be running."""
    agent = RealAgent(request.param, tmp_path / "home", model.url)
    yield agent
    try:
        await agent.is_gone()
    finally:
        agent.kill()


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    async with open_store(store_url(tmp_path)) as opened:
        yield opened
        assert await opened.problems() == []


@pytest.fixture
def box(tmp_path: Path) -> QuestionBox:
    return question_box(tmp_path)


@pytest.fixture
async def served(
    agent: RealAgent, repository: Path, store: Store, box: QuestionBox, tmp_path: Path
) -> AsyncIterator[Served]:
    """A new session of the agent in the repository."""
    async with supervising(agent, store, tmp_path) as supervisor:
        yield await Served.create(supervisor, store, box)
