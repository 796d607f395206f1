"""The session that a person names, in the store that the settings name."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from holdfast.config import Settings
from holdfast.errors import InvalidInput, NotFound
from holdfast.model.ids import SessionId
from holdfast.store import open_store
from holdfast.store.options import SessionFilter
from holdfast.store.store import Store

T = TypeVar("T")
Id = TypeVar("Id", bound=str)

LOOKED_THROUGH = 10_000
"""Among how many sessions a shortened id is looked for, those that changed last first."""

PAGE = 500

SHORT = 8
"""How much of an id a listing shows: its end, since the beginning is the time, and much alike."""

SHORTEST = 4
FULL_LENGTH = 36

SessionArgument = Annotated[
    str, typer.Argument(metavar="ID", help="The id of the session, or how it begins or ends.")
]


async def resolved(store: Store, text: str) -> SessionId:
    """The session that a person means by the beginning or the end of an id."""
    if len(text) == FULL_LENGTH:
        return (await store.get_session(text)).id
    known: list[SessionId] = []
    before = None
    for _ in range(LOOKED_THROUGH // PAGE):
        page = await store.list(SessionFilter(limit=PAGE, before=before))
        known += [each.id for each in page.sessions]
        before = page.next
        if before is None:
            break
    return meant(text, known, "session", "holdfast sessions list")


async def of_agent(store: Store, text: str, agent: str | None = None) -> tuple[SessionId, Path]:
    """The session that is meant, if an agent serves it, or this one, and the repository in which it does."""
    found = await store.get_session(await resolved(store, text))
    if found.is_with_model:
        raise InvalidInput(
            f"A model serves that session. To go on with it: holdfast execute --session {found.id} PROMPT"
        )
    if agent not in (None, found.agent):
        raise InvalidInput(f"Session {found.id} stays with its agent, {found.agent}; leave --agent out.")
    if found.repo_id is None:
        raise InvalidInput(f"Session {found.id} is not bound to a repository; no agent can be started in it.")
    return found.id, Path((await store.get_repo(found.repo_id)).path)


def meant(text: str, known: Iterable[Id], what: str, listing: str) -> Id:
    """The one of some ids that a person means by its beginning or its end."""
    if len(text) < SHORTEST:
        raise InvalidInput(f"{text!r} is too short for an id; give at least {SHORTEST} characters.")
    wanted = text.lower()
    found = [each for each in known if each.startswith(wanted) or each.endswith(wanted)]
    if not found:
        raise NotFound(f"No {what} begins or ends with {text!r}; {listing} shows them.")
    if len(found) > 1:
        raise InvalidInput(f"{text!r} fits {len(found)} {what}s: {', '.join(found[:5])}. Give more of it.")
    return found[0]


def with_store(settings: Settings, action: Callable[[Store], Awaitable[T]]) -> T:
    async def act() -> T:
        async with open_store(settings.store_url, durability=settings.durability) as store:
            return await action(store)

    return asyncio.run(act())
