"""The files that settings are read from, and which file is left out."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from platformdirs import user_config_path, user_state_path

from holdfast.errors import InvalidInput
from holdfast.files import make_directory
from holdfast.trust import TrustedFiles

FILE = "holdfast.toml"

NOT_TRUSTED = "it is not trusted"
CHANGED = "it has changed since you trusted it"


class SettingsFile(NamedTuple):
    path: Path
    table: Mapping[str, Any]


class SettingsFiles(NamedTuple):
    """Where settings are read from, the first before the others, and which file is left out."""

    read: tuple[SettingsFile, ...]
    ignored: Path | None = None
    reason: str = ""


def user_directory() -> Path:
    """Where your own settings file and the list of the files you trust are."""
    return user_config_path("holdfast")


def state_directory() -> Path:
    """What all that you run here has in common, whatever its data directory is."""
    return user_state_path("holdfast")


def trusted_files() -> TrustedFiles:
    return TrustedFiles(user_directory())


def settings_files() -> SettingsFiles:
    if named := os.environ.get("HOLDFAST_CONFIG"):
        if not Path(named).is_file():
            raise InvalidInput(f"HOLDFAST_CONFIG names {named}, and there is no such file.")
        return SettingsFiles((parsed(Path(named), content_of(Path(named))),))
    own = user_directory() / FILE
    read = (parsed(own, content_of(own)),) if own.is_file() else ()
    local = Path(FILE)
    if not local.is_file() or (read and local.samefile(own)):
        return SettingsFiles(read)
    trusted = trusted_files()
    content = content_of(local)
    if trusted.hold(local.resolve(), content):
        return SettingsFiles((parsed(local, content), *read))
    reason = CHANGED if local.resolve() in trusted.all() else NOT_TRUSTED
    return SettingsFiles(read, local.resolve(), reason)


def kept_from_agents() -> list[Path]:
    """What decides about settings. Your directory is made, or an agent at work in your home could make it."""
    directory = user_directory()
    with suppress(OSError):  # where we cannot make it, no agent can
        make_directory(directory)
    named = os.environ.get("HOLDFAST_CONFIG")
    return [directory, directory / FILE, *([Path(named).absolute()] if named else [])]


def content_of(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise _unreadable(file, error) from None


def parsed(file: Path, content: bytes) -> SettingsFile:
    try:
        return SettingsFile(file, tomllib.loads(content.decode()))
    except ValueError as error:  # no TOML, or no UTF-8
        raise _unreadable(file, error) from None


def _unreadable(file: Path, error: Exception) -> InvalidInput:
    return InvalidInput(f"The settings in {file} cannot be read: {error}.")
