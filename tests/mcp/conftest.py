"""A directory of question sets, and a box over it for the person."""

from pathlib import Path

import pytest

from holdfast.questions import QuestionBox


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "sessions"


@pytest.fixture
def box(directory: Path) -> QuestionBox:
    return QuestionBox(directory)
