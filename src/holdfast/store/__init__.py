"""One store, two engines: SQLite embedded, PostgreSQL to grow."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, unquote, urlsplit

from holdfast.errors import InvalidInput, MissingExtra
from holdfast.model.principal import LOCAL, Principal
from holdfast.model.tokens import TokenCounter
from holdfast.store.runtime import MAX_MESSAGE_BYTES, Runtime, system_clock
from holdfast.store.scope import Scope
from holdfast.store.store import Store

if TYPE_CHECKING:
    from holdfast.store.engine import Engine

DURABILITIES = ("full", "normal")


@asynccontextmanager
async def open_store(
    url: str,
    *,
    principal: Principal = LOCAL,
    durability: str = "full",
    max_message_bytes: int = MAX_MESSAGE_BYTES,
    clock: Callable[[], int] = system_clock,
    counter: TokenCounter | None = None,
) -> AsyncIterator[Store]:
    """Open the store at `url`, creating or upgrading it as needed.

    `sqlite:///relative.db`, `sqlite:////absolute.db` or `postgresql://user@host/database`. With
    `durability="normal"` a power failure, though not a crash, may take the last commits with it.
    With a `counter`, messages are given their token counts when they are stored.
    """
    engine = await open_engine(url, durability)
    runtime = Runtime(engine, clock, max_message_bytes, counter)
    try:
        await runtime.start()
        yield Store(runtime, Scope(principal))
    finally:
        await runtime.close()


async def open_engine(url: str, durability: str = "full") -> Engine:
    if durability not in DURABILITIES:
        raise InvalidInput(f"{durability!r} is not a durability; it is full or normal.")
    scheme = dialect(url)
    if scheme == "sqlite":
        from holdfast.store.sqlite.engine import SqliteEngine

        return await SqliteEngine.open(sqlite_path(url), durability)
    from holdfast.store.postgres.engine import PostgresEngine

    return await PostgresEngine.open(url, durability)


async def migrate(url: str, target: str | None = None) -> tuple[str | None, str | None]:
    """Bring a database's schema to `target`, or up to date; the revisions before and after."""
    if dialect(url) == "sqlite":
        from holdfast.store.sqlite import engine as sqlite

        return await asyncio.to_thread(sqlite.migrate, sqlite_path(url), target)
    from holdfast.store.postgres import engine as postgres

    return await postgres.migrate(url, target)


async def revision(url: str) -> str | None:
    """The schema revision that a database records; None when it is empty. Nothing is changed."""
    if dialect(url) == "sqlite":
        from holdfast.store.sqlite import engine as sqlite

        return await asyncio.to_thread(sqlite.revision, sqlite_path(url))
    from holdfast.store.postgres import engine as postgres

    return await postgres.revision(url)


def dialect(url: str) -> str:
    """`sqlite` or `postgresql`."""
    scheme = _parts(url).scheme
    if scheme == "sqlite":
        return "sqlite"
    if scheme in ("postgresql", "postgres"):
        if find_spec("asyncpg") is None:
            raise MissingExtra("A PostgreSQL store", "postgres")
        return "postgresql"
    raise InvalidInput(  # not all of what was given: a password may be in it
        f"{(scheme or url)[:20]!r} is not the beginning of a store's address; that is sqlite:/// or "
        "postgresql://, for instance sqlite:///holdfast.db."
    )


def sqlite_path(url: str) -> Path:
    parts = _parts(url)
    path = unquote(parts.path)
    if parts.query or parts.fragment:
        raise InvalidInput(
            f"{url!r} has more than a path. In the name of a file, write ? as %3F and # as %23."
        )
    if parts.netloc or not path.startswith("/") or not path.strip("/") or path == "/:memory:" or "\0" in path:
        raise InvalidInput(
            f"{url!r} names no file: sqlite:///relative.db has three slashes, sqlite:////absolute.db four. "
            "A store is a file, because it must outlive its process."
        )
    return Path(path[1:]).absolute()


def _parts(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        raise InvalidInput(f"That is not the address of a store: {error}.") from None
    return parts
