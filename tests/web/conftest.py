"""A server with a repository, and a browser to visit it with."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, expect

from holdfast import Store, open_store
from holdfast.execution.demo import DemoModel
from holdfast.model.ids import RepoId
from holdfast.model.question import QuestionStatus
from holdfast.questions import QuestionBox
from tests.server.servers import Served
from tests.web import scenes
from tests.web.scenes import PERSON
from tests.web.visitors import CHROMIUM, Visitor, opened_browser, visiting

HERE = Path(__file__).parent


FILES = sorted(HERE.glob("test_*.py"))
BROWSERS = 2
"""How many are open at a time. The tests of a file share one, and so an event loop and a process."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.xdist_group(f"browser {FILES.index(item.path) % BROWSERS}"))
            if pytest_asyncio.is_async_test(item):
                item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)


@pytest.fixture(scope="session")
def model() -> Iterator[DemoModel]:
    with DemoModel() as serving:
        yield serving


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory, model: DemoModel, process: None) -> Iterator[Served]:
    """Shared by all tests that do not stop it. It has a model, and a repository that is worth a question."""
    home = tmp_path_factory.mktemp("served")
    served = Served(home, AGENT_MAX_SESSIONS="40", **scenes.model_settings(home, model))
    scenes.write_billing(served.repository("atlas"))
    served.start()
    yield served
    served.stop()
    assert "Traceback" not in served.complaints()


@pytest.fixture
def own_server(tmp_path: Path, process: None) -> Iterator[Served]:
    """For one test alone, without a repository; the test starts it, and may stop it."""
    served = Served(tmp_path)
    yield served
    if served.process is not None and served.process.poll() is None:
        served.stop()


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("they need Chromium: apt install chromium")
    async with opened_browser() as opened:
        yield opened


@pytest_asyncio.fixture(loop_scope="session")
async def visitor(browser: Browser, served: Served) -> AsyncIterator[Visitor]:
    """Somebody at a desk, in whose browser nothing may go wrong."""
    async with visiting(browser, served) as visitor:
        yield visitor
        assert visitor.complaints == []
        assert visitor.elsewhere == []


@pytest_asyncio.fixture(loop_scope="session")
async def page(visitor: Visitor) -> Page:
    """The page, once it listens to keys."""
    page = await visitor.open()
    await expect(page.get_by_role("navigation", name="Sessions")).to_be_attached()
    return page


@pytest_asyncio.fixture(loop_scope="session")
async def store(served: Served) -> AsyncIterator[Store]:
    """The server's store, as the person at the machine sees it."""
    async with open_store(served.store_url) as opened:
        yield opened.as_principal(PERSON)


@pytest_asyncio.fixture(loop_scope="session")
async def repo_id(store: Store) -> RepoId:
    (repo,) = await store.list_repos()
    assert repo.id is not None
    return repo.id


@pytest_asyncio.fixture(loop_scope="session")
async def box(served: Served) -> AsyncIterator[QuestionBox]:
    """The server's questions; those that a test leaves open do not wait in the next one."""
    box = QuestionBox(served.questions)
    yield box
    for left in await box.list([QuestionStatus.PENDING]):
        await box.reject(left.id, by="test", door="test")
