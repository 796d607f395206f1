"""`holdfast sessions migrate`: sessions follow changed bindings, and back."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from holdfast.cli.finding import with_store
from holdfast.cli.options import JsonOption, StoreOption, say_store, settings_for
from holdfast.errors import InvalidInput
from holdfast.model.records import MoveAction, MoveRecord, MoveStep
from holdfast.routing.moves import apply_moves, plan_moves
from holdfast.routing.policy import RoutingPolicy
from holdfast.routing.stored import read_bindings
from holdfast.store.store import Store

DONE = {MoveAction.MOVE: "moved", MoveAction.COPY: "copied", MoveAction.MERGE: "merged"}


def migrate(
    plan: Annotated[bool, typer.Option("--plan", help="Show what would move; nothing is changed.")] = False,
    apply: Annotated[
        bool, typer.Option("--apply", help="Do what the plan shows, all of it or nothing.")
    ] = False,
    undo: Annotated[bool, typer.Option("--undo", help="Take back the last that was applied.")] = False,
    copy: Annotated[bool, typer.Option("--copy", help="Leave the old sessions, and copy them.")] = False,
    merge: Annotated[
        bool, typer.Option("--merge", help="Join a session with the one that has its new key.")
    ] = False,
    share_main: Annotated[
        bool, typer.Option("--share-main", help="Let several people share an agent's main session.")
    ] = False,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Let sessions follow changed bindings: planned, applied, undone."""
    if [plan, apply, undo].count(True) != 1:
        raise InvalidInput("Say what to do: one of --plan, --apply and --undo.")
    if undo and (copy or merge or share_main):
        raise InvalidInput(
            "--copy, --merge and --share-main say how to move; --undo takes back whatever was done."
        )
    settings = settings_for(store)
    policy = RoutingPolicy.from_settings(settings.routing)

    async def act(opened: Store) -> tuple[Sequence[MoveStep], MoveRecord | None]:
        if undo:
            record = await opened.undo_moves()
            return [done.step for done in record.steps], record
        bindings = await read_bindings(opened, policy)
        steps = await plan_moves(opened, bindings, copy=copy, merge=merge, share_main=share_main)
        return steps, await apply_moves(opened, steps) if apply else None

    steps, record = with_store(settings, act)
    if not plan:
        say_store(settings)
    if as_json:
        typer.echo(json.dumps(_as_json(steps, record)))
        return
    for step in steps:
        why = f" ({step.reason})" if step.reason else ""
        typer.echo(f"{step.action.value:<8}  {step.from_key} → {step.to_key}{why}")
    typer.echo(_summary(steps, record))


def _summary(steps: Sequence[MoveStep], record: MoveRecord | None) -> str:
    conflicts = sum(step.action is MoveAction.CONFLICT for step in steps)
    left = f" {conflicts} in conflict {'stays' if conflicts == 1 else 'stay'} as is." if conflicts else ""
    if not steps:
        return "Every session is where its bindings say; there is nothing to move."
    if record is None:
        return f"{len(steps) - conflicts} of {len(steps)} sessions can move.{left} Nothing was changed."
    done = Counter(each.step.action for each in record.steps)
    said = ", ".join(f"{done[action]} {word}" for action, word in DONE.items() if done[action])
    if record.undone_at is not None:
        gone = f" Deleted since, and not brought back: {', '.join(record.gone)}." if record.gone else ""
        return f"Migration {record.number} is undone ({said}): its sessions are where they were.{gone}"
    return (
        f"Migration {record.number} is done: {said}.{left} To take it back: holdfast sessions migrate --undo"
    )


def _as_json(steps: Sequence[MoveStep], record: MoveRecord | None) -> dict[str, Any]:
    return {
        "migration": record.number if record else None,
        "undone": record is not None and record.undone_at is not None,
        "gone": list(record.gone) if record else [],
        "steps": [_step(step) for step in steps],
    }


def _step(step: MoveStep) -> dict[str, Any]:
    return {
        "action": step.action.value,
        "sessionId": step.session_id,
        "fromKey": step.from_key,
        "toKey": step.to_key,
        "reason": step.reason,
    }
