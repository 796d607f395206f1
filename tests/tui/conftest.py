"""A desk of its own for each test."""

from pathlib import Path

import pytest

from tests.tui.driver import Desk


@pytest.fixture(autouse=True)
def _colour(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)
