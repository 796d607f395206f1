"""`holdfast db`: the database under the store."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Annotated, TypeVar

import msgspec
import typer
from rich.console import Console

from holdfast.cli.finding import with_store
from holdfast.cli.options import JsonOption, StoreOption, say_store, settings_for
from holdfast.config import Settings, load_settings
from holdfast.errors import Conflict, InvalidInput, NotFound
from holdfast.server.presence import Presence, store_name
from holdfast.store import migrate, revision
from holdfast.store.migrations import HEAD
from holdfast.store.store import Store

T = TypeVar("T")

BASE = "base"
"""The revision of an empty database."""

WITH_TOKENS = "0002"
"""The revision that brought tokens and the audit log."""

MAX_HOURS = 876_000
"""A hundred years."""

app = typer.Typer(help="Upgrade, check, back up and tidy the database.", no_args_is_help=True)
_progress = Console(stderr=True)


@app.command()
def current(store: StoreOption = None, as_json: JsonOption = False) -> None:
    """Show the schema revision of the database, and the one this program works with."""
    recorded = asyncio.run(revision(settings_for(store).store_url))
    if as_json:
        typer.echo(json.dumps({"revision": recorded, "head": HEAD}))
    elif recorded is None:
        typer.echo(f"The database is empty; this program works with revision {HEAD}.")
    else:
        typer.echo(f"The database is at revision {recorded}; this program works with {HEAD}.")


@app.command()
def upgrade(
    target: Annotated[str | None, typer.Argument(help="A revision; the newest when none is given.")] = None,
    store: StoreOption = None,
) -> None:
    """Bring the schema up to a revision. Opening a store does the same by itself."""
    settings, target = settings_for(store), target or HEAD
    url = settings.store_url
    recorded = _recorded(url, target)
    if _place(target) < _place(recorded):
        raise InvalidInput(
            f"The database is at revision {recorded}, which is above {target}. To bring it down, which loses "
            f"data: holdfast db downgrade {target}"
        )
    _report(asyncio.run(migrate(url, target)))
    say_store(settings)


@app.command()
def downgrade(
    target: Annotated[str, typer.Argument(help="A revision, or `base` for an empty database.")],
    store: StoreOption = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Bring the schema down to a revision. What the older schema has no place for is lost."""
    settings = settings_for(store)
    url = settings.store_url
    recorded = _recorded(url, target)
    if _place(target) > _place(recorded):
        raise InvalidInput(
            f"The database is at revision {recorded}, which is below {target}. To bring it up: holdfast db "
            f"upgrade {target}"
        )
    _require_database(url)
    _require_no_server(settings)
    if not yes:
        lost = f"What revision {target} has no place for is lost."
        if _place(target) < WITH_TOKENS:
            lost = f"{lost} So are all tokens and the audit log."
        typer.confirm(f"{_contents(settings, recorded)}{lost} Go on?", abort=True)
    _report(asyncio.run(migrate(url, target)))
    say_store(settings)


@app.command()
def check(store: StoreOption = None, as_json: JsonOption = False) -> None:
    """Look for damage: exit code 0 when there is none."""
    recorded = asyncio.run(revision(settings_for(store).store_url))
    if recorded is not None and recorded < HEAD:
        raise Conflict(
            f"The database is at revision {recorded}, and checking would bring it to {HEAD}. Check it with "
            "the Holdfast that wrote it, or run `holdfast db upgrade` first."
        )
    problems = _with_store(store, "checking", lambda opened: opened.problems())
    if as_json:
        typer.echo(json.dumps({"problems": list(problems)}))
    else:
        typer.echo("\n".join(problems) or "Nothing is wrong.")
    raise typer.Exit(1 if problems else 0)


@app.command()
def backup(
    target: Annotated[Path, typer.Argument(help="The file to write.")], store: StoreOption = None
) -> None:
    """Write a consistent copy while the store is in use."""
    _with_store(store, "copying", lambda opened: opened.backup(target))
    typer.echo(f"{target} holds {target.stat().st_size:,} bytes.")


@app.command()
def vacuum(store: StoreOption = None) -> None:
    """Give free space back to the file system."""
    _with_store(store, "vacuuming", lambda opened: opened.vacuum(), changes=True)
    typer.echo("Done.")


@app.command()
def collect(
    older_than: Annotated[
        float, typer.Option(metavar="HOURS", help="How old they must be.", min=1, max=MAX_HOURS)
    ] = 24,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Delete the blobs that no turn refers to. They are set aside first, and deleted by a later call."""
    from holdfast.blobs import collect_orphans, open_blobs

    settings = settings_for(store)
    _require_its_blobs(settings)
    blobs = open_blobs(settings.blobs_url)
    age = timedelta(hours=older_than)
    done = _with_store(
        store, "collecting", lambda opened: collect_orphans(blobs, opened, older_than=age), changes=True
    )
    if as_json:
        typer.echo(msgspec.json.encode(done))
    else:
        typer.echo(f"{done.set_aside:,} set aside, {done.put_back:,} put back, {done.deleted:,} deleted.")


def _require_its_blobs(settings: Settings) -> None:
    """The blobs of a data directory are of the store that it is used with. To any other store that is named,
    every one of them would be an orphan."""
    if settings.blobs.url is not None:
        return
    presence = Presence.read(settings.data_dir)
    known = presence.store if presence else None
    owner = known or store_name(load_settings().store_url)
    if owner != store_name(settings.store_url):
        raise InvalidInput(
            f"The blobs in {settings.data_dir} are of the store {owner}, and not of this one. Name the blobs "
            "of this store too (HOLDFAST_BLOBS_URL), or its data directory (HOLDFAST_DATA_DIR)."
        )


def _with_store(
    url: str | None, doing: str, action: Callable[[Store], Awaitable[T]], *, changes: bool = False
) -> T:
    settings = settings_for(url)
    _require_database(settings.store_url)
    with _progress.status(doing):
        result = with_store(settings, action)
    if changes:
        say_store(settings)
    return result


def _require_database(url: str) -> None:
    """Opening a store makes one where there is none, and a mistyped one would be found in perfect health."""
    if asyncio.run(revision(url)) is None:
        raise NotFound(f"There is no database at {store_name(url)}; `holdfast db upgrade` makes one.")


def _require_no_server(settings: Settings) -> None:
    presence = Presence.read(settings.data_dir)
    if presence and presence.is_running and presence.store == store_name(settings.store_url):
        raise Conflict(f"A server is running at {presence.url} with this database; stop it first.")


def _contents(settings: Settings, recorded: str) -> str:
    """What there is to lose. An older database is not opened for that: it would be brought up first."""
    if recorded != HEAD:
        return ""

    held = with_store(settings, lambda store: store.contents())
    return (
        f"The database holds {held.sessions:,} sessions of {held.organizations:,} organizations with "
        f"{held.messages:,} messages, {held.tokens:,} tokens and {held.audit_entries:,} audit entries. "
    )


def _recorded(url: str, target: str) -> str:
    """Where a database is; where it is to go, when nobody can say whether that is up or down."""
    recorded = asyncio.run(revision(url)) or BASE
    known = all(each == BASE or (each.isdecimal() and each <= HEAD) for each in (recorded, target))
    return recorded if known else target


def _place(schema: str) -> str:
    """Revisions are numbers of one length, and order as texts."""
    return "" if schema == BASE else schema


def _report(moved: tuple[str | None, str | None]) -> None:
    before, after = (step or BASE for step in moved)
    unmoved = before == after
    typer.echo(f"The schema is at {after}." if unmoved else f"The schema went from {before} to {after}.")
