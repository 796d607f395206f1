"""An index in a directory of its own."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from holdfast.retrieval import Retrieval
from tests.retrieval.trees import opened


@pytest.fixture
async def retrieval(tmp_path: Path) -> AsyncIterator[Retrieval]:
    opened_one = await opened(tmp_path)
    yield opened_one
    await opened_one.close()
