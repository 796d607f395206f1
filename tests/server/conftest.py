"""One server of each engine for all tests, and an organization of its own for each test."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from uuid import uuid4

import asyncpg
import pytest

from holdfast import NewSession, Session, Store, open_store
from tests.server.servers import POSTGRES, SQLITE, Organization, Served


@pytest.fixture
def served(request: pytest.FixtureRequest, process: None) -> Served:
    """A server with its store in SQLite, or in PostgreSQL for tests that are `ON_BOTH_ENGINES`."""
    engine = getattr(request, "param", SQLITE)
    found: Served = request.getfixturevalue(f"served_with_{engine}")
    return found


# Two fixtures and not one with a parameter, of which only one value lives at a time.
@pytest.fixture(scope="session")
def served_with_sqlite(tmp_path_factory: pytest.TempPathFactory, process: None) -> Iterator[Served]:
    with _serving(tmp_path_factory) as served:
        yield served


@pytest.fixture(scope="session")
def served_with_postgres(tmp_path_factory: pytest.TempPathFactory, postgres_server: str) -> Iterator[Served]:
    with _serving(tmp_path_factory, HOLDFAST_STORE=_new_database(postgres_server)) as served:
        yield served


@pytest.fixture(params=[SQLITE, POSTGRES])
def own_store(request: pytest.FixtureRequest) -> dict[str, str]:
    """The variables that give a server of a test's own a store in either engine."""
    return {"HOLDFAST_STORE": request.getfixturevalue("postgres_url")} if request.param == POSTGRES else {}


@pytest.fixture
async def store(served: Served) -> AsyncIterator[Store]:
    """The server's store, opened by another process: this one."""
    async with open_store(served.store_url) as opened:
        yield opened


@pytest.fixture
async def org(served: Served, store: Store) -> Organization:
    return await Organization.found(uuid4().hex, served, store)


@pytest.fixture
async def other(served: Served, store: Store) -> Organization:
    return await Organization.found(uuid4().hex, served, store)


@pytest.fixture
async def session(store: Store, org: Organization) -> Session:
    """A session of ada's, without an agent."""
    return await store.as_principal(org.ada.principal).create_session(NewSession(title="Ada's"))


@contextmanager
def _serving(homes: pytest.TempPathFactory, **environment: str) -> Iterator[Served]:
    served = Served(homes.mktemp("server"), AGENT_MAX_SESSIONS="40", **environment)
    served.repository()
    served.start()
    yield served
    assert served.stop() == 0
    assert "Traceback" not in served.complaints()


def _new_database(server: str) -> str:
    """The address of a new database, which goes with its server."""
    name = f"server_{uuid4().hex}"

    async def create() -> None:
        connection = await asyncpg.connect(server)
        await connection.execute(f"CREATE DATABASE {name}")
        await connection.close()

    asyncio.run(create())
    return server.replace("/postgres?", f"/{name}?")
