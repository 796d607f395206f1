"""`holdfast token`: who may call the server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Annotated, TypeVar

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from holdfast.cli.options import JsonOption, StoreOption, say_store, settings_for
from holdfast.client import Client
from holdfast.config import load_settings
from holdfast.errors import HoldfastError
from holdfast.model.ids import TokenId
from holdfast.model.principal import LOCAL, Principal, PrincipalRole
from holdfast.questions.shown import one_line
from holdfast.server import shapes
from holdfast.server.doorkeeper import Doorkeeper
from holdfast.store import open_store
from holdfast.store.store import Store

T = TypeVar("T")

app = typer.Typer(help="Make, list and revoke tokens.", no_args_is_help=True)

MAX_DAYS = 36_500
"""A hundred years. Longer is for ever."""

ID_LENGTH = 36
"""Ids are shown whole: `revoke` takes no part of one."""

OrganizationOption = Annotated[str, typer.Option("--org", help="The organization.")]


class NoServer(HoldfastError):
    code = "no_server"


@app.command()
def create(
    user: Annotated[str, typer.Option(help="The user whom the token stands for.")],
    org: OrganizationOption = LOCAL.organization,
    role: Annotated[PrincipalRole, typer.Option(help="Members see what is theirs.")] = PrincipalRole.MEMBER,
    label: Annotated[str, typer.Option(help="What it is for.")] = "",
    days: Annotated[
        float | None,
        typer.Option(min=0, max=MAX_DAYS, help="How long it is good for; for ever by default."),
    ] = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make a token, and print its secret, which is kept nowhere."""
    expires_at = None if days is None else datetime.now(UTC) + timedelta(days=days)
    principal = Principal(org, user, role)

    async def act(opened: Store) -> tuple[shapes.Token, str]:
        token, secret = await Doorkeeper(opened).issue(principal, label, expires_at)
        made_for = {"user": user, "role": role.value}
        await _as_admin(opened, org).audit("token.create", "done", subject=token.id, detail=made_for)
        return shapes.Token.of(token), secret

    token, secret = _with_store(store, act, changes=True)
    if as_json:
        typer.echo(msgspec.json.encode(shapes.NewToken(token=token, secret=secret)))
    else:
        typer.echo(secret)
        typer.echo(f"This is {user} of {org} ({role.value}); it is shown this once.", err=True)


@app.command("list")
def list_tokens(
    org: OrganizationOption = LOCAL.organization, store: StoreOption = None, as_json: JsonOption = False
) -> None:
    """List the tokens of an organization, without their secrets."""

    async def act(opened: Store) -> list[shapes.Token]:
        view = _as_admin(opened, org)
        return [shapes.Token.of(token) for token in await view.list_tokens()]

    tokens = _with_store(store, act)
    if as_json:
        typer.echo(json.dumps([msgspec.to_builtins(token) for token in tokens]))
        return
    if not tokens:
        typer.echo(f"There is no token of {org} yet. To make one: holdfast token create --user NAME")
        return
    table = Table(box=None, pad_edge=False)
    table.add_column("ID", no_wrap=True, min_width=ID_LENGTH)
    for heading in ("USER", "ROLE", "LABEL", "LAST USED", "STATE"):
        table.add_column(heading, overflow="ellipsis", no_wrap=True)
    for token in tokens:
        used = token.last_used_at or "never"
        named = (one_line(token.user), token.role.value, one_line(token.label))
        table.add_row(token.id, *named, used, _state(token))
    Console().print(table, markup=False)


@app.command()
def revoke(
    token_id: Annotated[str, typer.Argument(metavar="ID", help="The token's id, as `list` shows it.")],
    org: OrganizationOption = LOCAL.organization,
    store: StoreOption = None,
) -> None:
    """Make a token worthless. A running server notices within two seconds."""

    async def act(opened: Store) -> shapes.Token:
        view = _as_admin(opened, org)
        token = await view.revoke_token(TokenId(token_id))
        await view.audit("token.revoke", "done", subject=token.id)
        return shapes.Token.of(token)

    token = _with_store(store, act, changes=True)
    typer.echo(f"The token of {token.user} opens nothing any more.")


@app.command()
def link() -> None:
    """Print an address that opens the page of the running server signed in, once."""

    async def ask() -> str:
        client = await Client.find(load_settings().data_dir)
        if client is None:
            raise NoServer("No server is running here; start one with `holdfast serve`.")
        async with client:
            return await client.sign_in_link()

    typer.echo(asyncio.run(ask()))


def _as_admin(store: Store, organization: str) -> Store:
    """The person at this machine, in the organization whose tokens these are."""
    return store.as_principal(Principal(organization, LOCAL.user, PrincipalRole.ADMIN)).through("cli")


def _with_store(url: str | None, action: Callable[[Store], Awaitable[T]], *, changes: bool = False) -> T:
    settings = settings_for(url)

    async def act() -> T:
        async with open_store(settings.store_url, durability=settings.durability) as opened:
            return await action(opened)

    result = asyncio.run(act())
    if changes:
        say_store(settings)
    return result


def _state(token: shapes.Token) -> str:
    if token.revoked_at:
        return f"revoked {token.revoked_at}"
    return f"until {token.expires_at}" if token.expires_at else "good"
