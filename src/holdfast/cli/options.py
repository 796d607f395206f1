"""Options that several commands share."""

from __future__ import annotations

import os
import re
from typing import Annotated, Any

import typer
from pydantic import BaseModel

from holdfast.config import Settings, load_settings
from holdfast.errors import Conflict
from holdfast.server.presence import Presence, store_name

_PASSWORD = re.compile(r"(://[^\s/:@]*):\S*@")

SECRETS = {"env", "headers", "authorization", "api_key", "password", "secret", "token"}
"""What is named so has its values hidden: the variables of agents, and what contexts send to tools."""

StoreOption = Annotated[
    str | None,
    typer.Option(
        "--store",
        metavar="URL",
        help="The store's address: sqlite:///holdfast.db, postgresql://user@host/name. Also HOLDFAST_STORE.",
    ),
]

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]

SessionOption = Annotated[
    str | None,
    typer.Option(
        "--session", metavar="ID", envvar="HOLDFAST_SESSION", help="The Holdfast session in which is asked."
    ),
]

AgentOption = Annotated[
    str | None, typer.Option("--agent", metavar="NAME", envvar="HOLDFAST_AGENT", help="Who asks.")
]


def settings_for(store: str | None) -> Settings:
    """The settings, with the data directory there to be used.

    A command that was not told which store is meant does not take another one than the server that runs here.
    """
    settings = load_settings(store=store)
    if store is None and not os.environ.get("HOLDFAST_STORE"):
        _refuse_another_store(settings)
    if settings.store is None:
        settings.data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    return settings


def say_store(settings: Settings) -> None:
    """Name the store in which something was changed."""
    typer.echo(f"Store: {without_password(settings.store_url)}", err=True)


def _refuse_another_store(settings: Settings) -> None:
    presence = Presence.read(settings.data_dir)
    ours = store_name(settings.store_url)
    if presence is not None and presence.is_running and presence.store not in (None, ours):
        raise Conflict(
            f"A server is running at {presence.url} with the store {presence.store}, and this command would "
            f"use {ours}. Say which one is meant: --store, or HOLDFAST_STORE."
        )


def without_password(text: str) -> str:
    """A text whose addresses are without their passwords."""
    return _PASSWORD.sub(r"\1:…@", text)


def without_secrets(value: Any) -> Any:
    """A setting without its secrets, as it may stand on a screen."""
    if isinstance(value, BaseModel):
        return without_secrets(value.model_dump())
    if isinstance(value, dict):
        return {
            name: _hidden(inner) if name.lower() in SECRETS else without_secrets(inner)
            for name, inner in value.items()
        }
    if isinstance(value, list):
        return [without_secrets(each) for each in value]
    return without_password(value) if isinstance(value, str) else value


def _hidden(value: Any) -> Any:
    return dict.fromkeys(value, "…") if isinstance(value, dict) else "…"
