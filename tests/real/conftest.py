"""Real agents at work: each test has a model and a home of its own, and leaves no process behind."""

import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from tests.real.agents import NAMES, RealAgent
from tests.real.model_server import ModelServer
from tests.real.overheard import Overheard


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
def agent(
    request: pytest.FixtureRequest, tmp_path: Path, model: ModelServer, overheard: Overheard
) -> Iterator[RealAgent]:
    """Each agent in turn. When the test is over, nothing of it may be running."""
    agent = RealAgent(request.param, tmp_path / "home", model.url)
    yield agent
    left = agent.processes()
    for process in left:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    assert left == []
