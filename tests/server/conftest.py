"""One server for the tests of a module, and an organization of its own for each test."""

from collections.abc import AsyncIterator, Iterator
from uuid import uuid4

import pytest

from holdfast import NewSession, Session, Store, open_store
from tests.server.servers import Organization, Served


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    served = Served(tmp_path_factory.mktemp("server"), AGENT_MAX_SESSIONS="40")
    served.repository()
    served.start()
    yield served
    assert served.stop() == 0
    assert "Traceback" not in served.complaints()


@pytest.fixture
async def store(served: Served) -> AsyncIterator[Store]:
    """The server's store, opened by another process: this one."""
    async with open_store(served.store_url) as opened:
        yield opened


@pytest.fixture
async def org(served: Served, store: Store) -> Organization:
    return await Organization.found(uuid4().hex, served.url, store)


@pytest.fixture
async def other(served: Served, store: Store) -> Organization:
    return await Organization.found(uuid4().hex, served.url, store)


@pytest.fixture
async def session(store: Store, org: Organization) -> Session:
    """A session of ada's, without an agent."""
    return await store.as_principal(org.ada.principal).create_session(NewSession(title="Ada's"))
