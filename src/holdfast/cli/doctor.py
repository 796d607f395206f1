"""`holdfast doctor`: what is installed, reachable and configured, and where each setting came from."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from collections.abc import Awaitable, Iterator
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import msgspec
import typer
from pydantic import BaseModel

import holdfast
from holdfast.agents.catalogue import Catalogue
from holdfast.agents.opening import open_sandboxes
from holdfast.agents.sandbox import Kind
from holdfast.blobs.opening import open_blobs
from holdfast.cli.options import JsonOption, StoreOption, without_password, without_secrets
from holdfast.config import OTHER_NAMES, Settings, load_settings
from holdfast.errors import HoldfastError
from holdfast.questions import default_directory
from holdfast.settings_files import FILE, settings_files, user_directory
from holdfast.store import dialect, revision, sqlite_path
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

LOOK_SECONDS = 10
"""How long each part may take to answer; all are asked at once."""

STORE_REMEDY = "set HOLDFAST_DATA_DIR or HOLDFAST_STORE to a place that can be written"
BLOBS_REMEDY = "set HOLDFAST_BLOBS_URL to a place that can be written"
INDEX_REMEDY = "start the Qdrant server, or set HOLDFAST_RETRIEVAL_URL and `key_env` in [retrieval]"
JWT_REMEDY = "set HOLDFAST_SERVER_JWT_KEYS to the issuer's JSON Web Key Set"


class Finding(msgspec.Struct, frozen=True):
    part: str
    well: bool
    says: str

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "says", without_password(self.says))


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
            typer.echo(f"{setting.name:<32}{setting.value:<43} {setting.source}")
    raise typer.Exit(0 if all(finding.well for finding in findings) else 1)


async def _examine(settings: Settings) -> list[Finding]:
    if settings.retrieval.url is not None and _installed(PARTS["qdrant"]):
        import_module("qdrant_client")  # which may take seconds, and not those of who is asked
    looked_at = await asyncio.gather(
        _in_time("store", _store(settings), "see that the database answers, or set HOLDFAST_STORE"),
        _in_time("server", _server(settings), "stop `holdfast serve`, and start it again"),
        _in_time("blobs", _blobs(settings), BLOBS_REMEDY),
        _in_time("index", _index(settings), INDEX_REMEDY),
        _in_time("jwt", _jwt(settings), JWT_REMEDY),
    )
    return [
        Finding("holdfast", True, f"{holdfast.__version__} on Python {sys.version.split()[0]}"),
        _extras(),
        _files(),
        *looked_at,
        _git(),
        _workspace(settings),
        _changes(settings),
        _questions(settings),
        _agents(settings),
        await _sandbox(settings),
        _models(settings),
    ]


async def _in_time(part: str, look: Awaitable[Finding], remedy: str) -> Finding:
    try:
        async with asyncio.timeout(LOOK_SECONDS):
            return await look
    except TimeoutError:
        return Finding(part, False, f"no answer within {LOOK_SECONDS} seconds; {remedy}")


def _extras() -> Finding:
    missing = [extra for extra, package in PARTS.items() if not _installed(package)]
    if not missing:
        return Finding("extras", True, "all are installed")
    return Finding("extras", True, f"not installed: {', '.join(missing)} (pip install 'holdfast[all]')")


def _files() -> Finding:
    """Where settings are read from, and what is left out."""
    found = settings_files()
    read = ", ".join(str(file.path) for file in found.read) or "no file"
    if found.ignored is None:
        looked_for = f" (looked for: HOLDFAST_CONFIG, {FILE} here, {user_directory() / FILE})"
        return Finding("settings", True, f"read from {read}{'' if found.read else looked_for}")
    return Finding(
        "settings",
        True,
        f"read from {read}; {found.ignored} is ignored: {found.reason} (`holdfast trust` shows what it would "
        "change)",
    )


async def _store(settings: Settings) -> Finding:
    try:
        recorded = await revision(settings.store_url)
    except HoldfastError as error:
        return Finding("store", False, str(error))
    if dialect(settings.store_url) == "sqlite":
        directory = sqlite_path(settings.store_url).parent
        if settings.store is not None and not directory.is_dir():
            return Finding("store", False, f"There is no directory {directory}; create it, or {STORE_REMEDY}")
        if not _can_be_written(directory):
            return Finding("store", False, f"{directory} cannot be written; {STORE_REMEDY}")
    if recorded is None:
        return Finding("store", True, f"{settings.store_url} is empty; the first use creates it")
    if recorded > HEAD:
        return Finding(
            "store", False, f"{settings.store_url} has revision {recorded} of a newer Holdfast; install that"
        )
    behind = "" if recorded == HEAD else f"; the next use brings it to {HEAD}"
    return Finding("store", True, f"{settings.store_url} is at revision {recorded}{behind}")


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


async def _blobs(settings: Settings) -> Finding:
    try:
        await open_blobs(settings.blobs_url).place.try_writing()
    except HoldfastError as error:
        return Finding("blobs", False, f"{error} To mend it: {BLOBS_REMEDY}")
    return Finding("blobs", True, f"{settings.blobs_url} can be written")


async def _index(settings: Settings) -> Finding:
    url = settings.retrieval.url
    if url is None:
        return Finding("index", True, "embedded; a Qdrant server would be HOLDFAST_RETRIEVAL_URL")
    if not _installed(PARTS["qdrant"]):
        return Finding("index", False, f"{url} cannot be asked; pip install 'holdfast[qdrant]'")
    from holdfast.retrieval.opening import reach_server

    try:
        await reach_server(settings)
    except HoldfastError as error:
        return Finding("index", False, f"{url}: {error} To mend it: {INDEX_REMEDY}")
    return Finding("index", True, f"{url} answers")


async def _jwt(settings: Settings) -> Finding:
    place = settings.server.jwt_keys
    if place is None:
        return Finding("jwt", True, "no identity provider is configured; tokens alone open the server")
    if not _installed(PARTS["server"]):
        return Finding("jwt", False, f"{place} cannot be read; pip install 'holdfast[server]'")
    from holdfast.server.keys import keys_at

    try:
        await keys_at(place).find(None)
    except HoldfastError as error:
        return Finding("jwt", False, f"{error} To mend it: {JWT_REMEDY}")
    return Finding("jwt", True, f"the keys at {place} can be read")


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


def _changes(settings: Settings) -> Finding:
    """What programs were killed over while they changed files is finished or taken back now."""
    from holdfast.execution.journal import Ending, recover

    recovered = recover(settings.journals)
    if not recovered:
        return Finding("changes", True, "no program was killed while it changed files")
    well = all(each.ending is not Ending.LEFT for each in recovered)
    return Finding("changes", well, " ".join(map(str, recovered)))


def _questions(settings: Settings) -> Finding:
    directory = settings.questions.directory or default_directory()
    if not _can_be_written(directory):
        return Finding("questions", False, f"{directory} cannot be written; set AUQ_SESSION_DIR to another")
    return Finding("questions", True, str(directory))


def _can_be_written(directory: Path) -> bool:
    """Whether files can be made in a directory, or the directory itself where it is not there yet."""
    exists = next(each for each in (directory, *directory.absolute().parents) if each.exists())
    return exists.is_dir() and os.access(exists, os.W_OK)


def _agents(settings: Settings) -> Finding:
    try:
        catalogue = Catalogue.from_settings(settings.agents)
    except HoldfastError as error:
        return Finding("agents", False, str(error))
    installed = [name for name in catalogue if catalogue[name].path() is not None]
    absent = [name for name in catalogue if name not in installed]
    missing = f"; not installed: {', '.join(absent)}" if absent else ""
    return Finding("agents", True, f"{', '.join(installed)}{missing} (`holdfast agents` starts each)")


async def _sandbox(settings: Settings) -> Finding:
    if not _installed(PARTS["agents"]):
        return Finding("sandbox", True, "not looked for; that needs the extra `agents`")
    try:
        made_by = await open_sandboxes(settings).tools()
    except HoldfastError as error:
        return Finding("sandbox", False, str(error))
    lacks = made_by.lacks(made_by.best, network=True)
    if made_by.best is Kind.NONE:
        return Finding(
            "sandbox", False, "none: agents have your rights; install bubblewrap (docs/security.md)"
        )
    if lacks:
        return Finding("sandbox", True, f"{made_by.best}; it does not keep agents from: {', '.join(lacks)}")
    return Finding("sandbox", True, f"{made_by.best} holds everything in docs/security.md")


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
    files = settings_files().read
    others: dict[tuple[str, ...], str] = {path: name for name, path in OTHER_NAMES.items()}
    for path, value in _leaves(settings):
        variables = [f"HOLDFAST_{'_'.join(path).upper()}", others.get(path, "")]
        given = next((name for name in variables if name and os.environ.get(name)), None)
        if flags.get(".".join(path)) is not None:
            source = "flag"
        elif given is not None:
            source = given
        else:
            source = next((str(file.path) for file in files if _in(file.table, path)), "default")
        yield Setting(".".join(path), str(without_secrets(value)), source)


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
