"""`holdfast sessions compact | expand | undo`: what a model is shown of a session, and the way back."""

from __future__ import annotations

import json
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Console

from holdfast.cli.finding import SessionArgument, resolved, with_store
from holdfast.cli.options import JsonOption, StoreOption, settings_for
from holdfast.cli.transcript import Transcript
from holdfast.compaction.compactor import Proposal
from holdfast.compaction.layout import chain_in_effect
from holdfast.compaction.on_demand import compact_on_demand, propose_on_demand
from holdfast.compaction.policy import CompactionPolicy, policies_of
from holdfast.compaction.ranges import size
from holdfast.compaction.tokens import default_counter
from holdfast.compaction.views import expand as expanded
from holdfast.compaction.views import read_view
from holdfast.errors import InvalidInput, NotFound
from holdfast.model.ids import CompactionId, SessionId
from holdfast.model.records import Compaction
from holdfast.server import shapes
from holdfast.store.store import Store

CompactionArgument = Annotated[
    str | None, typer.Argument(metavar="COMPACTION", help="Its id; the one in effect when none is given.")
]


def compact(
    session: SessionArgument,
    strategy: Annotated[
        str | None, typer.Option(help="Its name; the one of the agent's settings when none is given.")
    ] = None,
    param: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="A parameter of the strategy; may be repeated."),
    ] = None,
    plan: Annotated[bool, typer.Option("--plan", help="Say what would be done, and do nothing.")] = False,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Shorten what a model is shown of a session. Every message stays stored as it is."""
    settings = settings_for(store)

    async def act(opened: Store) -> Proposal | Compaction | None:
        found = await opened.get_session(await resolved(opened, session))
        policy = policies_of(settings.agents)(found.agent) or CompactionPolicy()
        if strategy or param:
            policy = msgspec.structs.replace(policy, strategy=_spec(policy, strategy, param or []))
        return await (propose_on_demand if plan else compact_on_demand)(opened, found, policy)

    done = with_store(settings, act)
    if done is None:
        typer.echo("null" if as_json else "There is nothing to gain: the session was not changed.")
    elif isinstance(done, Proposal):
        typer.echo(json.dumps(_planned(done)) if as_json else _planned_line(done))
    elif as_json:
        typer.echo(msgspec.json.encode(shapes.Compaction.of(done)).decode())
    else:
        if done.summary:
            typer.echo(f"{done.summary}\n")
        typer.echo(
            f"Compaction {done.id} by {done.strategy}: the view went from {done.tokens_before:,} to "
            f"{done.tokens_after:,} tokens. To go back: holdfast sessions undo {session}"
        )


def expand(
    session: SessionArgument,
    compaction: CompactionArgument = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the original messages behind a compaction."""

    async def read(opened: Store) -> None:
        session_id = await resolved(opened, session)
        messages = await expanded(opened, session_id, await _chosen(opened, session_id, compaction))
        if as_json:
            typer.echo(msgspec.json.encode([shapes.Message.of(message) for message in messages]).decode())
            return
        transcript = Transcript(Console(highlight=False))
        transcript.show_all([shapes.Message.of(message) for message in messages])
        transcript.end_line()

    with_store(settings_for(store), read)


def undo(session: SessionArgument, compaction: CompactionArgument = None, store: StoreOption = None) -> None:
    """Take a compaction back, and with it those that were made on top of it."""

    async def take_back(opened: Store) -> str:
        session_id = await resolved(opened, session)
        undone = await opened.undo_compaction(session_id, await _chosen(opened, session_id, compaction))
        view = await read_view(opened, session_id, default_counter())
        return f"Compaction {undone.id} is undone: the view has {len(view.items):,} messages again."

    typer.echo(with_store(settings_for(store), take_back))


async def _chosen(store: Store, session_id: SessionId, given: str | None) -> CompactionId:
    if given is not None:
        return CompactionId(given)
    chain = chain_in_effect(await store.list_compactions(session_id))
    if not chain:
        raise NotFound("No compaction of this session is in effect.")
    return chain[-1].id


def _spec(policy: CompactionPolicy, strategy: str | None, params: list[str]) -> dict[str, Any]:
    spec: dict[str, Any] = {"name": strategy} if strategy else _table(policy.strategy)
    for param in params:
        name, equals, value = param.partition("=")
        if not equals:
            raise InvalidInput(f"{param!r} is not a parameter; give it as name=value.")
        try:
            spec[name] = json.loads(value)
        except ValueError:
            spec[name] = value
    return spec


def _table(strategy: str | dict[str, Any]) -> dict[str, Any]:
    return {"name": strategy} if isinstance(strategy, str) else dict(strategy)


def _planned(proposal: Proposal) -> dict[str, Any]:
    return {
        "tokensBefore": proposal.before.tokens,
        "tokensAfter": proposal.after.tokens,
        "folded": [list(fold.ranges) for fold in proposal.plan.folds],
        "dropped": list(proposal.plan.dropped),
        "shortened": [each.seq for each in proposal.plan.replaced],
    }


def _planned_line(proposal: Proposal) -> str:
    plan = proposal.plan
    folded = sum(size(fold.ranges) for fold in plan.folds)
    parts = {
        f"fold {folded:,} messages": folded,
        f"shorten {len(plan.replaced):,}": len(plan.replaced),
        f"leave out {size(plan.dropped):,}": size(plan.dropped),
    }
    said = ", ".join(text for text, count in parts.items() if count)
    return (
        f"It would {said}: the view would go from {proposal.before.tokens:,} to about "
        f"{proposal.after.tokens:,} tokens. Nothing was changed."
    )
