"""A store in a file, and a session in it that an agent works in."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from holdfast import NewSession, Session, Store, open_store


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    async with open_store(f"sqlite:///{tmp_path / 'holdfast.db'}") as opened:
        yield opened


@pytest.fixture
async def session(store: Store) -> Session:
    return await store.create_session(NewSession(agent="demo"))
