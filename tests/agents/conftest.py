"""A store in a file, and a session in it that an agent works in."""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import psutil
import pytest

from holdfast import NewSession, Session, Store, open_store
from holdfast.agents.sandbox import Kind
from holdfast.agents.sandbox.kinds import Tools, tools
from tests.agents.scenes import Scene
from tests.agents.worlds import World


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    async with open_store(f"sqlite:///{tmp_path / 'holdfast.db'}") as opened:
        yield opened


@pytest.fixture
async def session(store: Store) -> Session:
    return await store.create_session(NewSession(agent="demo"))


@pytest.fixture
def world(store: Store, tmp_path: Path, process: None) -> World:
    return World(store, tmp_path)


@pytest.fixture(scope="session")
def made_by() -> Tools:
    return asyncio.run(tools())


@pytest.fixture
def scene(tmp_path: Path, made_by: Tools) -> Scene:
    return Scene(tmp_path, Kind.BUBBLEWRAP, made_by)


@pytest.fixture(autouse=True)
def no_process_is_left() -> Iterator[None]:
    """Whatever a test does, nothing that it started is running afterwards."""
    before = set(psutil.Process().children(recursive=True))
    groups = {os.getpgid(0)}
    yield
    left = (_described(child) for child in set(psutil.Process().children(recursive=True)) - before)
    assert [command for command, group in filter(None, left) if group not in groups] == []


def _described(process: psutil.Process) -> tuple[list[str], int] | None:
    """The command and the group of a process, if it is running."""
    try:
        if process.status() == psutil.STATUS_ZOMBIE:
            return None
        return process.cmdline(), os.getpgid(process.pid)
    except (psutil.NoSuchProcess, ProcessLookupError):
        return None
