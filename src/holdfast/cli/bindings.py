"""`holdfast bindings`: which agent answers which chat, and why."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Annotated, Any, TypeVar

import typer
from rich.console import Console
from rich.table import Table

from holdfast.agents.catalogue import Catalogue
from holdfast.cli.finding import with_store
from holdfast.cli.options import JsonOption, StoreOption, say_store, settings_for
from holdfast.config import Settings
from holdfast.execution.opening import context_source
from holdfast.model.key import name
from holdfast.model.records import BindingRecord
from holdfast.routing.binding import Binding
from holdfast.routing.bindings import AgentSelectionRequired, Bindings, Decision, Rejected
from holdfast.routing.incoming import DEFAULT_ACCOUNT, Incoming, Peer
from holdfast.routing.policy import RoutingPolicy
from holdfast.routing.scope import DmScope
from holdfast.routing.stored import add_binding, binding_of, read_bindings, remove_binding
from holdfast.store.store import Store

T = TypeVar("T")

app = typer.Typer(help="List, add, remove and explain bindings.", no_args_is_help=True)

ChannelOption = Annotated[str, typer.Option("--channel", help="Such as irc, telegram, slack.")]
GuildOption = Annotated[str | None, typer.Option("--guild", help="The guild or workspace.")]
TeamOption = Annotated[str | None, typer.Option("--team")]


@app.command("list")
def list_(store: StoreOption = None, as_json: JsonOption = False) -> None:
    """List the bindings in the order in which they count."""
    policy, kept = _with_store(store, _listed)
    if as_json:
        rows = [{"number": None, **binding.rule()} for binding in policy.bindings]
        typer.echo(json.dumps(rows + [_as_json(record) for record in kept]))
        return
    if not policy.bindings and not kept:
        typer.echo("There is no binding yet. To add one: holdfast bindings add AGENT --channel irc")
        return
    table = Table("NUMBER", "BINDING", box=None, pad_edge=False)
    for binding in policy.bindings:
        table.add_row("settings", str(binding))
    for record in kept:
        table.add_row(str(record.number), str(binding_of(record)))
    Console().print(table, markup=False)


@app.command()
def add(
    agent: Annotated[str, typer.Argument(help="Who answers.")],
    channel: ChannelOption,
    account: Annotated[
        str | None, typer.Option(help="Of the bot; * is every one, and without it the default account.")
    ] = None,
    peer: Annotated[
        str | None, typer.Option(help="dm:ID, group:ID or channel:ID; * and ? make it a pattern.")
    ] = None,
    guild: GuildOption = None,
    team: TeamOption = None,
    role: Annotated[list[str] | None, typer.Option(help="In the guild; any of several.")] = None,
    dm_scope: Annotated[
        DmScope | None, typer.Option(help="How direct messages are kept apart. The agent's if not given.")
    ] = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Add a binding after all others. Sessions that exist stay with their agents."""
    binding = Binding(
        agent=agent,
        channel=channel,
        account=account,
        peer=peer,
        guild=guild,
        team=team,
        roles=tuple(role or ()),
        dm_scope=dm_scope,
    )
    settings = settings_for(store)
    policy = RoutingPolicy.from_settings(settings.routing)
    Bindings([binding], policy)  # refuses an agent that is none of those which may be named

    async def act(opened: Store) -> tuple[BindingRecord, bool]:
        is_known = bool(policy.agents) or name(agent, "agent") in await _configured(opened, settings, policy)
        return await add_binding(opened, binding), is_known

    record, is_known = with_store(settings, act)
    say_store(settings)
    typer.echo(json.dumps(_as_json(record)) if as_json else f"Binding {record.number}: {binding}")
    if not is_known:
        typer.echo(
            f"No agent {agent!r} is configured here: unless a bot brings it, nobody will answer. List the "
            "agents of your bots as `agents` in [routing], and a wrong name is refused.",
            err=True,
        )


@app.command()
def remove(
    number: Annotated[int, typer.Argument(help="As `list` shows it.")],
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Remove a binding. Sessions that exist stay with their agents."""
    record = _with_store(store, lambda opened, _: remove_binding(opened, number), changes=True)
    typer.echo(json.dumps(_as_json(record)) if as_json else f"Removed binding {number}: {binding_of(record)}")


@app.command()
def explain(
    channel: ChannelOption,
    peer: Annotated[str, typer.Option(help="Where it was said: dm:ID, group:ID or channel:ID.")],
    account: Annotated[str, typer.Option(help="Of the bot.")] = DEFAULT_ACCOUNT,
    parent: Annotated[str | None, typer.Option(help="What a thread hangs under.")] = None,
    thread: Annotated[str | None, typer.Option()] = None,
    guild: GuildOption = None,
    team: TeamOption = None,
    role: Annotated[list[str] | None, typer.Option(help="Of the sender; may be repeated.")] = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Say who would answer a message, in which session, and why not the others."""
    message = Incoming(
        channel=channel,
        peer=Peer.parse(peer),
        account=account,
        parent=Peer.parse(parent) if parent else None,
        thread=thread,
        guild=guild,
        team=team,
        roles=tuple(role or ()),
    )

    async def decide(opened: Store, policy: RoutingPolicy) -> Decision:
        return (await read_bindings(opened, policy)).decide(message)

    try:
        decision = _with_store(store, decide)
    except AgentSelectionRequired as error:
        if as_json:
            typer.echo(json.dumps({"agent": None, "rejected": _rejected(error.rejected)}))
        else:
            _say_not(error.rejected)
        raise
    rejected = decision.rejected
    if as_json:
        typer.echo(json.dumps(_explained(decision, rejected)))
        return
    typer.echo(f"agent       {decision.agent}")
    typer.echo(f"session     {decision.key}")
    typer.echo(f"matched by  {decision.matched_by.label}: {decision.binding or 'the default agent'}")
    if ambiguous := [str(each.binding) for each in decision.ambiguous]:
        typer.echo(f"ambiguous   just as specific: {'; '.join(ambiguous)}")
    _say_not(rejected)


def _say_not(rejected: list[Rejected]) -> None:
    for each in rejected:
        typer.echo(f"not         {each.binding}: {each.reason}")


async def _listed(store: Store, policy: RoutingPolicy) -> tuple[RoutingPolicy, list[BindingRecord]]:
    return policy, list(await store.list_bindings())


async def _configured(store: Store, settings: Settings, policy: RoutingPolicy) -> set[str]:
    """The agents that can be known of: those that can be started, the contexts, whom [routing] names."""
    contexts = await context_source(settings).of(store)
    routed = [binding.agent for binding in policy.bindings]
    default = [policy.default_agent] if policy.default_agent else []
    known = [*Catalogue.from_settings(settings.agents), *contexts.agents, *routed, *default]
    return {each.strip().lower() for each in known}


def _with_store(
    url: str | None, action: Callable[[Store, RoutingPolicy], Awaitable[T]], *, changes: bool = False
) -> T:
    settings = settings_for(url)
    policy = RoutingPolicy.from_settings(settings.routing)
    result = with_store(settings, lambda opened: action(opened, policy))
    if changes:
        say_store(settings)
    return result


def _as_json(record: BindingRecord) -> dict[str, Any]:
    return {"number": record.number, **record.rule}


def _explained(decision: Decision, rejected: list[Rejected]) -> dict[str, Any]:
    return {
        "agent": decision.agent,
        "key": str(decision.key),
        "matchedBy": decision.matched_by.label,
        "binding": decision.binding.rule() if decision.binding else None,
        "ambiguous": [each.binding.rule() for each in decision.ambiguous],
        "rejected": _rejected(rejected),
    }


def _rejected(rejected: list[Rejected]) -> list[dict[str, Any]]:
    return [
        {"binding": each.binding.rule(), "reason": each.reason, "matches": each.tier is not None}
        for each in rejected
    ]
