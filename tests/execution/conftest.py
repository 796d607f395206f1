"""A world of its own for each test, on SQLite; a test that takes `either_world` runs on both engines."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from holdfast import open_store
from holdfast.execution.demo import DemoModel
from tests.execution.worlds import World


@pytest.fixture
def model() -> Iterator[DemoModel]:
    with DemoModel() as serving:
        yield serving


@pytest.fixture
async def world(tmp_path: Path, model: DemoModel) -> AsyncIterator[World]:
    async with open_store(f"sqlite:///{tmp_path / 'holdfast.db'}") as store:
        yield World(store, tmp_path, model)
        assert await store.problems() == []


@pytest.fixture(params=["sqlite", "postgres"])
def either_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'holdfast.db'}"
    url: str = request.getfixturevalue("postgres_url")
    return url


@pytest.fixture
async def either_world(either_url: str, tmp_path: Path, model: DemoModel) -> AsyncIterator[World]:
    async with open_store(either_url) as store:
        yield World(store, tmp_path, model)
        assert await store.problems() == []
