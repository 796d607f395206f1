"""`holdfast doctor`: what is installed, reachable and configured, and where each setting came from."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import msgspec
import typer
from pydantic import BaseModel
from pydantic_settings import TomlConfigSettingsSource

import holdfast
from holdfast.agents.catalogue import Catalogue
from holdfast.cli.options import JsonOption, StoreOption, without_password
from holdfast.config import OTHER_NAMES, Settings, load_settings
from holdfast.errors import HoldfastError
from holdfast.questions import default_directory
from holdfast.store import revision
from holdfast.store.migrations import HEAD

PARTS = {
    "postgres": "asyncpg",
    "agents": "psutil",
    "questions": "watchfiles",
    "mcp": "mcp",
    "tui": "textual",
    "client": "httpx2",
    "openai": "openai",
    "server": "fastapi",
    "blobs": "obstore",
    "retrieval": "qdrant-edge-py",
    "qdrant": "qdrant-client",
    "otel": "opentelemetry-sdk",
}
"""The extras, each with a package that only it needs."""


class Finding(msgspec.Struct, frozen=True):
    part: str
    well: bool
    says: str


class Setting(msgspec.Struct, frozen=True):
    name: str
    value: str
    source: str
    """`default`, `flag`, the variable's name, or the file's path."""


def doctor(store: StoreOption = None, as_json: JsonOption = False) -> None:
    """Say what is installed, reachable and configured. Exit code 1 when something does not work."""
    settings = load_settings(store=store)
    findings = list(asyncio.run(_examine(settings)))
    configured = list(_settings(settings, flags={"store": store}))
    if as_json:
        typer.echo(msgspec.json.encode({"findings": findings, "settings": configured}))
    else:
        for finding in findings:
            typer.echo(f"{'ok' if finding.well else '!!'}  {finding.part:<14}{finding.says}")
        typer.echo("")
        for setting in configured:
            typer.echo(f"{setting.name:<32}{setting.value:<44}{setting.source}")
    raise typer.Exit(0 if all(finding.well for finding in findings) else 1)


async def _examine(settings: Settings) -> list[Finding]:
    return [
        Finding("holdfast", True, f"{holdfast.__version__} on Python {sys.version.split()[0]}"),
        _extras(),
        await _store(settings),
        await _server(settings),
        _git(),
        _workspace(settings),
        _questions(settings),
        _agents(settings),
        _models(settings),
    ]


def _extras() -> Finding:
    missing = [extra for extra, package in PARTS.items() if not _installed(package)]
    if not missing:
        return Finding("extras", True, "all are installed")
    return Finding("extras", True, f"not installed: {', '.join(missing)} (pip install 'holdfast[all]')")


async def _store(settings: Settings) -> Finding:
    try:
        recorded = await revision(settings.store_url)
    except HoldfastError as error:
        return Finding("store", False, str(error))
    if recorded is None:
        return Finding(
            "store", True, f"{without_password(settings.store_url)} is empty; the first use creates it"
        )
    behind = "" if recorded == HEAD else f"; the next use brings it to {HEAD}"
    return Finding("store", True, f"{without_password(settings.store_url)} is at revision {recorded}{behind}")


async def _server(settings: Settings) -> Finding:
    if not _installed(PARTS["client"]):
        return Finding("server", True, "not looked for; that needs the extra `client`")
    from holdfast.client import Client

    client = await Client.find(settings.data_dir)
    if client is None:
        return Finding("server", True, "none is running; `holdfast serve` starts one")
    async with client:
        me = await client.me()
    return Finding("server", True, f"{client.url} answers {me.user} of {me.organization}")


def _git() -> Finding:
    path = shutil.which("git")
    if path is None:
        return Finding("git", False, "not found; install git, or no repository can be used")
    return Finding("git", True, path)


def _workspace(settings: Settings) -> Finding:
    root = settings.workspace.root.expanduser().absolute()
    if not root.is_dir():
        return Finding("workspace", False, f"{root} is no directory; set AGENT_WORKSPACE_ROOT to one")
    return Finding("workspace", True, str(root))


def _questions(settings: Settings) -> Finding:
    directory = settings.questions.directory or default_directory()
    exists = directory if directory.exists() else next(each for each in directory.parents if each.exists())
    if not os.access(exists, os.W_OK):
        return Finding("questions", False, f"{directory} cannot be written; set AUQ_SESSION_DIR to another")
    return Finding("questions", True, str(directory))


def _agents(settings: Settings) -> Finding:
    try:
        catalogue = Catalogue.from_settings(settings.agents)
    except HoldfastError as error:
        return Finding("agents", False, str(error))
    installed = [name for name in catalogue if catalogue[name].path() is not None]
    absent = [name for name in catalogue if name not in installed]
    missing = f"; not installed: {', '.join(absent)}" if absent else ""
    return Finding("agents", True, f"{', '.join(installed)}{missing} (`holdfast agents` starts each)")


def _models(settings: Settings) -> Finding:
    from holdfast.execution.opening import context_source, providers_of

    try:
        contexts = context_source(settings).of_settings()
    except HoldfastError as error:
        return Finding("models", False, str(error))
    providers = providers_of(settings)
    said, well = [], True
    for context in contexts.agents.values():
        provider = providers.get(context.provider)
        if context.model is None:
            said.append(f"{context.name}: none (set HOLDFAST_MODEL)")
        elif provider is None:
            said.append(f"{context.name}: there is no provider {context.provider!r}")
            well = False
        elif not provider.has_key:
            said.append(f"{context.name}: {context.model}, whose key is missing ({provider.api_key_env})")
        else:
            said.append(f"{context.name}: {context.model} at {provider.address}")
    return Finding("models", well, "; ".join(said))


def _settings(settings: Settings, flags: dict[str, Any]) -> Iterator[Setting]:
    """Every setting in force, and what put it there: the first of flag, variable, file and default."""
    file = Path(os.environ.get("HOLDFAST_CONFIG", "holdfast.toml"))
    in_file = TomlConfigSettingsSource(Settings, toml_file=file)()
    others: dict[tuple[str, ...], str] = {path: name for name, path in OTHER_NAMES.items()}
    for path, value in _leaves(settings):
        variables = [f"HOLDFAST_{'_'.join(path).upper()}", others.get(path, "")]
        given = next((name for name in variables if name and name in os.environ), None)
        source = "default"
        if flags.get(".".join(path)) is not None:
            source = "flag"
        elif given is not None:
            source = given
        elif _in(in_file, path):
            source = str(file)
        yield Setting(".".join(path), without_password(str(value)), source)


def _leaves(table: BaseModel, above: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name in type(table).model_fields:
        value = getattr(table, name)
        if isinstance(value, BaseModel):
            yield from _leaves(value, (*above, name))
        else:
            yield (*above, name), value


def _in(table: Any, path: tuple[str, ...]) -> bool:
    for name in path:
        if not isinstance(table, dict) or name not in table:
            return False
        table = table[name]
    return True


def _installed(package: str) -> bool:
    try:
        version(package)
    except PackageNotFoundError:
        return False
    return True
