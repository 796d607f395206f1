"""`holdfast sessions compact | compactions | view | expand | undo`: what a model is shown of a session."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from holdfast.blobs import open_blobs
from holdfast.cli.finding import SHORT, SessionArgument, meant, resolved, with_store
from holdfast.cli.options import JsonOption, StoreOption, say_store, settings_for
from holdfast.cli.transcript import Transcript
from holdfast.compaction.compactor import Proposal
from holdfast.compaction.layout import chain_in_effect
from holdfast.compaction.on_demand import compact_on_demand, propose_on_demand
from holdfast.compaction.policy import CompactionPolicy, policy_of
from holdfast.compaction.ranges import size
from holdfast.compaction.standing import SessionStanding
from holdfast.compaction.tokens import default_counter
from holdfast.compaction.view import View
from holdfast.compaction.views import expand as expanded
from holdfast.compaction.views import read_view
from holdfast.errors import InvalidInput, NotFound
from holdfast.execution.reported import weighed_as_sent
from holdfast.model.ids import CompactionId, MessageId, SessionId
from holdfast.model.message import Message
from holdfast.model.records import Compaction
from holdfast.questions.shown import age
from holdfast.server import shapes
from holdfast.store.store import Store

CompactionArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="COMPACTION", help="Its id, or how it begins or ends; the one in effect when none is given."
    ),
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
        policy = policy_of(found, settings.agents, settings.contexts, settings.providers)
        if strategy or param:
            policy = msgspec.structs.replace(policy, strategy=_spec(policy, strategy, param or []))
        weigh = weighed_as_sent(opened, open_blobs(settings.blobs_url), found)
        return await (propose_on_demand if plan else compact_on_demand)(opened, found, policy, weigh)

    done = with_store(settings, act)
    if done is not None and not plan:
        say_store(settings)
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
        _show(messages, as_json=as_json)

    with_store(settings_for(store), read)


def view(
    session: SessionArgument,
    at: Annotated[
        str | None, typer.Option(metavar="COMPACTION", help="As this one leaves it, in effect or not.")
    ] = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show a session as a model is shown it: summaries in the place of what was folded."""

    async def read(opened: Store) -> None:
        session_id = await resolved(opened, session)
        chosen = await _chosen(opened, session_id, at) if at else None
        shown = await read_view(opened, session_id, default_counter(), at=chosen)
        _show(shown.messages, as_json=as_json)

    with_store(settings_for(store), read)


def compactions(session: SessionArgument, store: StoreOption = None, as_json: JsonOption = False) -> None:
    """List the compactions of a session: when, what was folded, and what is in effect."""

    async def read(opened: Store) -> tuple[Sequence[Compaction], str | None]:
        session_id = await resolved(opened, session)
        standing = SessionStanding.of(await opened.get_session(session_id))
        return await opened.list_compactions(session_id), standing.stopped

    found, stopped = with_store(settings_for(store), read)
    if stopped:
        typer.echo(f"{stopped} To try it again: holdfast sessions compact {session}", err=True)
    if as_json:
        typer.echo(msgspec.json.encode(shapes.Compactions.of(found)).decode())
        return
    if not found:
        typer.echo(f"Nothing is folded. To see what could be: holdfast sessions compact {session} --plan")
        return
    in_effect = {each.id for each in chain_in_effect(found)}
    now = datetime.now(UTC)
    table = Table("COMPACTION", "MADE", "BY", "MESSAGES", "TOKENS", "STATE", box=None, pad_edge=False)
    for each in found:
        state = "in effect" if each.id in in_effect else "undone" if each.undone_at else "not in effect"
        tokens = f"{each.tokens_before or 0:,} → {each.tokens_after or 0:,}"
        messages = f"{each.first_seq}–{each.last_seq}"
        table.add_row(each.id[-SHORT:], age(each.created_at, now), each.strategy, messages, tokens, state)
    Console().print(table, markup=False)


def undo(
    session: SessionArgument,
    compaction: CompactionArgument = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Take a compaction back, and with it those that were made on top of it."""

    async def take_back(opened: Store) -> tuple[Compaction, View]:
        session_id = await resolved(opened, session)
        undone = await opened.undo_compaction(session_id, await _chosen(opened, session_id, compaction))
        return undone, await read_view(opened, session_id, default_counter())

    settings = settings_for(store)
    undone, shown = with_store(settings, take_back)
    say_store(settings)
    if as_json:
        typer.echo(msgspec.json.encode(shapes.Compaction.of(undone)).decode())
    else:
        typer.echo(f"Compaction {undone.id} is undone: the view has {len(shown.items):,} messages again.")


def _show(messages: Sequence[Message], *, as_json: bool) -> None:
    if as_json:
        typer.echo(msgspec.json.encode([_shape(each, "") for each in messages]).decode())
        return
    transcript = Transcript(Console(highlight=False))
    transcript.show_all(_shape(each, f"shown-{place}") for place, each in enumerate(messages))
    transcript.end_line()


def _shape(message: Message, otherwise: str) -> shapes.Message:
    """What a view adds was never stored and has no id; a transcript tells messages apart by theirs."""
    return shapes.Message.of(msgspec.structs.replace(message, id=message.id or MessageId(otherwise)))


async def _chosen(store: Store, session_id: SessionId, given: str | None) -> CompactionId:
    found = await store.list_compactions(session_id)
    if given is None:
        chain = chain_in_effect(found)
        if not chain:
            raise NotFound("No compaction of this session is in effect.")
        return chain[-1].id
    return meant(given, [each.id for each in found], "compaction", "holdfast sessions compactions")


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
