"""What `requirements/install` says where Holdfast cannot be installed: one sentence, with what to do."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

pytestmark = pytest.mark.usefixtures("process")


def install(venv: Path, **environment: str) -> list[str]:
    """The lines of an installation that fails."""
    ran = subprocess.run(
        [ROOT / "requirements" / "install", venv, "serve"],
        env={
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PYTHON": sys.executable,
            **environment,
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 1
    return ran.stderr.splitlines()


def test_an_old_python_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    old = tmp_path / "python3.10"
    old.write_text("#!/bin/sh\nexit 1\n")
    old.chmod(0o755)
    (said,) = install(tmp_path / "venv", PYTHON=str(old))
    assert said == "Holdfast needs Python 3.11 or newer. Name one: make PYTHON=python3.12 ..."
    assert not (tmp_path / "venv").exists()


def test_a_read_only_place_is_refused_with_another_way(tmp_path: Path) -> None:
    place = tmp_path / "a file"
    place.touch()
    (said,) = install(place / "venv")
    assert said == f"{place}/venv cannot be written. Name a directory that can: make VENV=/tmp/holdfast ..."


def test_without_a_network_and_without_a_cache_it_says_that_the_first_time_needs_one(tmp_path: Path) -> None:
    nowhere = {"UV_OFFLINE": "1", "UV_CACHE_DIR": str(tmp_path / "cache"), "PIP_NO_INDEX": "1"}
    said = install(tmp_path / "path with blanks", **nowhere)
    assert said[-1] == (
        "It could not be installed. The first time needs a network, or a package cache that has everything."
    )
