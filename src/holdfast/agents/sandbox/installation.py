"""Where a program is installed: its own files, and those of the interpreter that runs it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

DEPTH = 4
"""How many interpreters of interpreters are followed."""

LINKS = 40
"""How many links lead to one another at most, as in the kernel."""

READ_BYTES = 256
"""How long a first line may be that names an interpreter, as in the kernel."""


def installation(program: Path, environment: Mapping[str, str], depth: int = DEPTH) -> Iterator[Path]:
    """The directories and files that a program needs to start, wherever it is."""
    for step in _steps(program):
        yield from _tree(step)
    interpreter = _interpreter(program, environment)
    if interpreter is not None and depth:
        yield from installation(interpreter, environment, depth - 1)


def _steps(path: Path) -> Iterator[Path]:
    """A path, and each that a link leads to."""
    yield path
    for _ in range(LINKS):
        if not path.is_symlink():
            break
        path = Path(os.path.normpath(path.parent / path.readlink()))
        yield path
    yield Path(os.path.realpath(path))


def _tree(file: Path) -> Iterator[Path]:
    """The smallest directory that has all of what a file belongs to."""
    yield file
    for above in reversed(file.parents):
        if above.name == "node_modules":
            yield above
            return
        if (settings := above / "pyvenv.cfg").is_file():
            yield above
            yield from _base_of(settings)
            yield from _checkouts(above)
            return
    if file.parent.name == "bin" and (file.parent.parent / "lib").is_dir() and _is_prefix(file.parent.parent):
        yield file.parent.parent


def _base_of(settings: Path) -> Iterator[Path]:
    """The Python that a virtual environment was made from."""
    for line in settings.read_text(errors="replace").splitlines():
        name, _, value = line.partition("=")
        if name.strip() == "home" and (home := Path(value.strip())).is_dir():
            yield from _tree(Path(os.path.realpath(home / "python3")))


def _checkouts(environment: Path) -> Iterator[Path]:
    """The directories that a virtual environment imports from elsewhere, as of a package in development."""
    for file in environment.glob("lib/python*/site-packages/*.pth"):
        for line in file.read_text(errors="replace").splitlines():
            if line.startswith("/") and (directory := Path(line.strip())).is_dir():
                yield directory


def _is_prefix(directory: Path) -> bool:
    """Whether a directory holds one program alone; `~/.local` holds half of what a person has."""
    return directory.name != ".local" and len(directory.parts) > 2


def _interpreter(program: Path, environment: Mapping[str, str]) -> Path | None:
    try:
        with program.open("rb") as file:
            line = file.read(READ_BYTES).partition(b"\n")[0]
    except OSError:
        return None
    if not line.startswith(b"#!"):
        return None
    words = os.fsdecode(line[2:]).split()
    if words and Path(words[0]).name == "env":
        names = [word for word in words[1:] if not word.startswith("-") and "=" not in word]
        found = shutil.which(names[0], path=environment.get("PATH")) if names else None
        return Path(found) if found else None
    return Path(words[0]) if words else None
