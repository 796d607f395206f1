"""The session that a person names, in the store that the settings name."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Annotated, TypeVar

import typer

from holdfast.config import Settings
from holdfast.errors import InvalidInput, NotFound
from holdfast.model.ids import SessionId
from holdfast.store import open_store
from holdfast.store.options import SessionFilter
from holdfast.store.store import Store

T = TypeVar("T")

LOOKED_THROUGH = 10_000
"""Among how many sessions a shortened id is looked for, those that changed last first."""

PAGE = 500
SHORTEST = 4
FULL_LENGTH = 36

SessionArgument = Annotated[
    str, typer.Argument(metavar="ID", help="The id of the session, or how it begins or ends.")
]


async def resolved(store: Store, text: str) -> SessionId:
    """The session that a person means by the beginning or the end of an id."""
    if len(text) == FULL_LENGTH:
        return (await store.get_session(text)).id
    if len(text) < SHORTEST:
        raise InvalidInput(f"{text!r} is too short for an id; give at least {SHORTEST} characters.")
    wanted = text.lower()
    found: list[SessionId] = []
    before = None
    for _ in range(LOOKED_THROUGH // PAGE):
        page = await store.list(SessionFilter(limit=PAGE, before=before))
        found += [each.id for each in page.sessions if each.id.startswith(wanted) or each.id.endswith(wanted)]
        before = page.next
        if before is None:
            break
    if not found:
        raise NotFound(f"No session begins or ends with {text!r}; holdfast sessions list shows them.")
    if len(found) > 1:
        raise InvalidInput(f"{text!r} fits {len(found)} sessions: {', '.join(found[:5])}. Give more of it.")
    return found[0]


def with_store(settings: Settings, action: Callable[[Store], Awaitable[T]]) -> T:
    async def act() -> T:
        async with open_store(settings.store_url, durability=settings.durability) as store:
            return await action(store)

    return asyncio.run(act())
