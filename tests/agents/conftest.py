"""A store in a file, and a session in it that an agent works in."""

import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import psutil
import pytest

from holdfast import NewSession, Session, Store, open_store
from tests.agents.worlds import World


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    async with open_store(f"sqlite:///{tmp_path / 'holdfast.db'}") as opened:
        yield opened


@pytest.fixture
async def session(store: Store) -> Session:
    return await store.create_session(NewSession(agent="demo"))


@pytest.fixture
def world(store: Store, tmp_path: Path) -> World:
    return World(store, tmp_path)


@pytest.fixture(autouse=True)
def no_process_is_left() -> Iterator[None]:
    """Whatever a test does, nothing that it started is running afterwards."""
    before = set(psutil.Process().children(recursive=True))
    groups = {os.getpgid(0)}
    yield
    left = [
        child
        for child in set(psutil.Process().children(recursive=True)) - before
        if child.is_running() and child.status() != psutil.STATUS_ZOMBIE
    ]
    assert [child.cmdline() for child in left if os.getpgid(child.pid) not in groups] == []
