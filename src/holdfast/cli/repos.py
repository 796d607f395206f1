"""`holdfast repos`: the repositories that agents may work in."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from holdfast.agents.opening import open_repositories
from holdfast.cli.options import JsonOption, StoreOption, settings_for
from holdfast.config import Settings
from holdfast.model.records import Repo
from holdfast.questions.shown import one_line
from holdfast.store import open_store


def repos(store: StoreOption = None, as_json: JsonOption = False) -> None:
    """Look for git repositories under the workspace root, and list them."""
    settings = settings_for(store)
    with Console(stderr=True).status("looking for repositories"):
        found = asyncio.run(_scan(settings))
    if as_json:
        typer.echo(json.dumps([msgspec.to_builtins(repo) for repo in found]))
    elif not found:
        typer.echo(
            f"There is no git repository in {settings.workspace.root.absolute()}, {settings.workspace.depth} "
            "directories deep. Set AGENT_WORKSPACE_ROOT to where yours are.",
            err=True,
        )
    else:
        table = Table(box=None, pad_edge=False)
        for heading in ("REPOSITORY", "BRANCH", "LAST COMMIT", "PATH"):
            table.add_column(heading, overflow="fold")
        for repo in found:
            commit = one_line(repo.last_commit or "")
            table.add_row(repo.name, repo.branch or "", f"{commit[:7]}{commit[40:80]}", repo.path)
        Console().print(table, markup=False)


async def _scan(settings: Settings) -> Sequence[Repo]:
    async with open_store(settings.store_url, durability=settings.durability) as store:
        return await open_repositories(settings).scan(store)
