"""A store of each engine: every test that takes `store` or `store_url` runs on both."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from holdfast import PeerKind, SessionKey, Store, open_store


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'holdfast.db'}"


@pytest.fixture(params=["sqlite", "postgres"])
def store_url(request: pytest.FixtureRequest) -> str:
    url: str = request.getfixturevalue(f"{request.param}_url")
    return url


class Clock:
    """A clock that a test sets."""

    def __init__(self, now: int = 1_800_000_000_000) -> None:
        self.now = now

    def __call__(self) -> int:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def store(store_url: str) -> AsyncIterator[Store]:
    async with open_store(store_url) as opened:
        yield opened
        assert await opened.problems() == []


@pytest.fixture
def key() -> SessionKey:
    return SessionKey("main", "irc", "bot", PeerKind.GROUP, "#holdfast")
