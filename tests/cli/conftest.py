"""A command line in an empty directory."""

from pathlib import Path

import pytest

from tests.cli.command import Cli


@pytest.fixture
def cli(tmp_path: Path, process: None) -> Cli:
    return Cli(tmp_path)
