"""Build the supervisor from settings."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit
from urllib.request import url2pathname

from holdfast.agents.catalogue import Catalogue
from holdfast.agents.live import Limits
from holdfast.agents.permissions import Decision
from holdfast.agents.repositories import Repositories
from holdfast.agents.sandbox import Sandboxes
from holdfast.agents.sandbox.machine import TOOLCHAINS
from holdfast.agents.sandbox.sandbox import TEMPORARIES
from holdfast.agents.supervisor import QuestionDoor, Supervisor
from holdfast.questions.directory import default_directory
from holdfast.settings_files import kept_from_agents, state_directory
from holdfast.store import dialect, sqlite_path

if TYPE_CHECKING:
    from holdfast.config import Settings
    from holdfast.questions.box import QuestionBox
    from holdfast.store.store import Store


SANDBOXES = "sandboxes"
"""In the data directory."""


def sockets_of(settings: Settings) -> Path:
    """Where the sockets of sessions are."""
    return settings.data_dir / SANDBOXES / TEMPORARIES


def open_repositories(settings: Settings) -> Repositories:
    workspace = settings.workspace
    return Repositories(workspace.root, depth=workspace.depth, others=workspace.roots)


def open_sandboxes(settings: Settings) -> Sandboxes:
    """No agent sees where Holdfast keeps what it has."""
    never = [settings.data_dir, settings.questions.directory or default_directory(), *kept_from_agents()]
    if dialect(settings.store_url) == "sqlite":
        file = sqlite_path(settings.store_url)
        never += [file.with_name(f"{file.name}{ending}") for ending in ("", "-wal", "-shm")]
    if settings.blobs_url.startswith("file://"):
        never.append(Path(url2pathname(urlsplit(settings.blobs_url).path)))
    toolchains = (*TOOLCHAINS, *settings.sandbox.toolchains)
    workspace = settings.workspace
    roots = [workspace.root.expanduser().absolute(), *map(_named_part, workspace.roots.values())]
    records = state_directory() / "git"
    return Sandboxes(
        settings.data_dir / SANDBOXES,
        never=[*never, records],
        roots=roots,
        toolchains=toolchains,
        records=records,
    )


def _named_part(root: Path) -> Path:
    """What the roots of all organizations have in common, where one entry stands for many."""
    return next((path for path in (root, *root.parents) if "{organization}" not in str(path)), root)


def open_supervisor(
    settings: Settings,
    store: Store,
    box: QuestionBox | None,
    asks: QuestionDoor | None,
    *,
    starts_agents: bool = True,
    root: Path | None = None,
    permissions: Decision | None = None,
) -> Supervisor:
    """To be entered, and left before the store is closed.

    `asks` is where agents ask through MCP. `root` and `permissions` go before the settings.
    """
    catalogue = Catalogue.from_settings(settings.agents)
    repositories = open_repositories(settings)
    return Supervisor(
        store,
        catalogue if permissions is None else catalogue.with_permissions(permissions),
        repositories if root is None else Repositories(root, depth=settings.workspace.depth),
        box=box,
        asks=asks,
        starts_agents=starts_agents,
        limit=settings.workspace.max_sessions,
        limits=Limits(idle=settings.workspace.idle_minutes * 60),
        providers=settings.providers,
        sandboxes=open_sandboxes(settings),
    )
