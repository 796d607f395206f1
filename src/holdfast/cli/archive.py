"""`holdfast sessions archive`: what nobody has used for long is put away, and never deleted."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import typer

from holdfast.cli.finding import with_store
from holdfast.cli.options import JsonOption, StoreOption, say_store, settings_for
from holdfast.errors import InvalidInput
from holdfast.model.session import Session
from holdfast.questions.shown import harmless
from holdfast.routing.archiving import UnusedSession, plan_archiving
from holdfast.routing.archiving import archive as archive_planned
from holdfast.store.store import Store


def archive(
    idle_days: Annotated[
        float,
        typer.Option("--idle-days", min=0, help="Those that nobody asked or was answered in for so long."),
    ],
    plan: Annotated[
        bool, typer.Option("--plan", help="Show what would be archived; nothing is changed.")
    ] = False,
    apply: Annotated[bool, typer.Option("--apply", help="Archive what the plan shows.")] = False,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Archive sessions that nobody has used for long. Pinned and running ones stay; none is deleted."""
    if plan == apply:
        raise InvalidInput("Say what to do: one of --plan and --apply.")

    async def act(opened: Store) -> tuple[Sequence[UnusedSession], Sequence[Session]]:
        planned = await plan_archiving(opened, timedelta(days=idle_days), datetime.now(UTC))
        return planned, await archive_planned(opened, planned) if apply else []

    settings = settings_for(store)
    planned, archived = with_store(settings, act)
    if apply:
        say_store(settings)
    if as_json:
        done = {session.id for session in archived}
        typer.echo(json.dumps([_as_json(each, each.session.id in done) for each in planned]))
        return
    for each in planned:
        action, why = ("keep", f" ({each.kept})") if each.kept else ("archive", "")
        typer.echo(f"{action:<8}  {each.session.id}  {harmless(each.session.name)}{why}")
    wanted = sum(each.kept is None for each in planned)
    if apply:
        changed = f" {wanted - len(archived)} changed meanwhile and stay." if wanted > len(archived) else ""
        typer.echo(f"{len(archived)} sessions were archived.{changed}")
    else:
        typer.echo(f"{wanted} sessions can be archived. Nothing was changed.")


def _as_json(planned: UnusedSession, is_archived: bool) -> dict[str, Any]:
    return {
        "sessionId": planned.session.id,
        "name": planned.session.name,
        "kept": planned.kept,
        "archived": is_archived,
    }
