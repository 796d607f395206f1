"""A directory of question sets, a clock that stands still, and a box over both."""

from pathlib import Path

import pytest

from holdfast.questions import QuestionBox
from tests.questions.sets import Clock


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "auq" / "sessions"


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def box(directory: Path, clock: Clock) -> QuestionBox:
    return QuestionBox(directory, clock=clock)
