"""`holdfast repos`: the repositories that agents may work in."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from holdfast.agents.opening import open_repositories
from holdfast.cli.options import JsonOption, StoreOption, say_store, settings_for
from holdfast.cli.outcomes import run
from holdfast.config import Settings
from holdfast.errors import InvalidInput, NotFound
from holdfast.model.records import Repo
from holdfast.questions.shown import one_line
from holdfast.store import open_store

AllowOption = Annotated[
    str | None,
    typer.Option("--allow-members", metavar="NAME", help="Let members start agents in a repository."),
]
DenyOption = Annotated[
    str | None,
    typer.Option("--deny-members", metavar="NAME", help="Let only admins start agents in a repository."),
]


def repos(
    store: StoreOption = None,
    as_json: JsonOption = False,
    allow: AllowOption = None,
    deny: DenyOption = None,
) -> None:
    """Look for git repositories under the workspace root, and list them."""
    settings = settings_for(store)
    with Console(stderr=True).status("looking for repositories"):
        found = run(
            _scan(settings, {name: allowed for name, allowed in ((allow, True), (deny, False)) if name})
        )
    if allow or deny:
        say_store(settings)
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
        for heading in ("REPOSITORY", "MEMBERS", "BRANCH", "LAST COMMIT", "PATH"):
            table.add_column(heading, overflow="fold")
        for repo in found:
            commit = one_line(repo.last_commit or "")
            members = "yes" if repo.for_members else "no"
            table.add_row(repo.name, members, repo.branch or "", f"{commit[:7]}{commit[40:80]}", repo.path)
        Console().print(table, markup=False)


async def _scan(settings: Settings, members: Mapping[str, bool]) -> Sequence[Repo]:
    async with open_store(settings.store_url, durability=settings.durability) as opened:
        store = opened.through("cli")
        found = await open_repositories(settings).scan(store)
        for name, allowed in members.items():
            repo = _named(found, name)
            assert repo.id is not None
            await store.open_repo(repo.id, for_members=allowed)
        return await store.list_repos() if members else found


def _named(found: Sequence[Repo], name: str) -> Repo:
    fitting = [repo for repo in found if name in (repo.name, repo.path)]
    if not fitting:
        raise NotFound(f"There is no repository {name!r}; `holdfast repos` lists them.")
    if len(fitting) > 1:
        raise InvalidInput(f"{len(fitting)} repositories are called {name!r}; give the path of one.")
    return fitting[0]
