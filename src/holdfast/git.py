"""Asking git about a repository whose own settings nobody has vouched for.

No program that the repository names is run: no hook, no file system monitor, no transport, no filter. Only
subcommands that start none are allowed. `git status` would run the clean filters of the settings, so it is
given the repository's index and objects without its settings.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

SECONDS = 10.0

READING = frozenset({"check-ignore", "config", "init", "log", "ls-files", "rev-parse", "symbolic-ref"})
"""Subcommands that run no program of a repository's, with the settings below."""

PERSON = ("HOME", "XDG_CONFIG_HOME")

STATUS = ("status", "--porcelain", "-z", "--no-renames", "--untracked-files=all", "--ignore-submodules=all")


def output(path: Path, *arguments: str, seconds: float = SECONDS, as_person: bool = False) -> bytes | None:
    """What git prints when it is run at `path`; None when it fails, or takes too long.

    `as_person`, it reads the settings in the person's home, too.
    """
    subcommand = next((argument for argument in arguments if not argument.startswith("-")), "")
    if subcommand not in READING:
        raise ValueError(f"git {subcommand} may run programs that the repository names")
    home = {name: os.environ[name] for name in PERSON if name in os.environ} if as_person else {}
    return _run(path, arguments, home, seconds)


def said(path: Path, *arguments: str) -> str | None:
    """The same as text, where there is any."""
    answer = output(path, *arguments)
    return None if answer is None else answer.decode(errors="replace").strip().replace("\0", "") or None


def changed(root: Path) -> list[Path]:
    """The files that differ from the last commit, staged or not, or are new; and are there."""
    places = _places(root)
    if places is None:
        return []
    commit = said(root, "rev-parse", "--verify", "--quiet", "HEAD")
    with TemporaryDirectory(prefix="holdfast-git-") as name:
        settings = Path(name)
        _write_settings(settings, places, commit)
        environment = {
            "GIT_DIR": name,
            "GIT_WORK_TREE": str(root),
            "GIT_INDEX_FILE": str(places.index),
            "GIT_OBJECT_DIRECTORY": str(places.objects),
        }
        listed = _run(root, STATUS, environment, SECONDS) or b""
    paths = [root / os.fsdecode(entry[len("XY ") :]) for entry in listed.split(b"\0") if entry]
    return [path for path in paths if path.is_file()]


@dataclass(frozen=True, slots=True)
class _Places:
    """Where git keeps what `status` reads."""

    objects: Path
    index: Path
    exclude: Path
    format: str
    file_mode: str


def _places(root: Path) -> _Places | None:
    names = ("objects", "index", "info/exclude")
    asked = [option for name in names for option in ("--git-path", name)]
    answer = said(root, "rev-parse", *asked, "--show-object-format")
    if answer is None or len(lines := answer.splitlines()) != len(names) + 1:
        return None
    file_mode = said(root, "config", "--type=bool", "--get", "core.fileMode") or "true"
    objects, index, exclude = (root / line for line in lines[:-1])
    return _Places(objects, index, exclude, lines[-1], file_mode)


def _write_settings(directory: Path, places: _Places, commit: str | None) -> None:
    """A git directory of ours, with the settings that say how to read the repository's, and no others."""
    version = 0 if places.format == "sha1" else 1
    core = {
        "repositoryFormatVersion": str(version),
        "excludesFile": json.dumps(str(places.exclude)),
        "fileMode": places.file_mode,
    }
    lines = ["[core]", *(f"\t{name} = {value}" for name, value in core.items())]
    if version:
        lines += ["[extensions]", f"\tobjectFormat = {places.format}"]
    (directory / "config").write_text("\n".join([*lines, ""]))
    (directory / "HEAD").write_text(f"{commit or 'ref: refs/heads/none'}\n")
    (directory / "refs").mkdir()
    for shared in places.index.parent.glob("sharedindex.*"):  # the rest of an index that is split
        (directory / shared.name).symlink_to(shared)


def _run(path: Path, arguments: Sequence[str], more: Mapping[str, str], seconds: float) -> bytes | None:
    command = ["git", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-C", str(path)]
    environment = {
        "PATH": os.environ.get("PATH", ""),
        "LC_ALL": "C.UTF-8",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_ALLOW_PROTOCOL": "",  # nothing that is missing is fetched, by whatever program
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "safe.directory",
        "GIT_CONFIG_VALUE_0": "*",
        **more,
    }
    try:
        answer = subprocess.run(
            [*command, *arguments],
            capture_output=True,
            env=environment,
            timeout=seconds,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return answer.stdout if answer.returncode == 0 else None
