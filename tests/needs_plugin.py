"""Marks each test with what it needs: `terminal`, `process`, `postgres`, `browser`, `third_party`, or `unit`.

The marks come from the fixtures that a test uses, so nobody sets them by hand and none can be forgotten: a
test that starts a program without a fixture that says so fails, and says which one to take. Slow kinds run
first, so that no worker is left with a long test at the end.
"""

import platform
import sys
from collections.abc import Generator
from typing import Any

import pytest

from tests import preloaded

KINDS = ("third_party", "browser", "postgres", "process", "terminal", "unit")
"""What a run's time is said by. A test that needs several things counts as the first of them."""

FIXTURES = {
    "third_party": "third_party",
    "browser": "browser",
    "postgres_server": "postgres",
    "own_postgres_server": "postgres",
    "process": "process",
    "desk": "terminal",
}

PARAMETERS = {"postgres": "postgres", "bucket": "process"}
"""Values of parameters for which a fixture takes another one while the test is set up."""

STARTS = frozenset(
    {preloaded.STARTED, "subprocess.Popen", "os.posix_spawn", "os.fork", "os.forkpty", "os.exec"}
)

DESCRIPTIONS = {
    "unit": "starts no program",
    "terminal": "draws the inbox of the terminal",
    "process": "starts programs",
    "postgres": "needs a PostgreSQL server",
    "browser": "needs Chromium",
    "third_party": "runs agents and programs of others",
}


def pytest_configure(config: pytest.Config) -> None:
    for kind, description in DESCRIPTIONS.items():
        config.addinivalue_line("markers", f"{kind}: {description}; set by the fixtures of a test")
    config.pluginmanager.register(NoProgramWithoutItsFixture())


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        for need in _needs_of(item) or {"unit"}:
            item.add_marker(need)
    items.sort(key=lambda item: KINDS.index(kind(item.keywords)))


def _needs_of(item: pytest.Item) -> set[str]:
    names: list[str] = getattr(item, "fixturenames", [])
    needs = {FIXTURES[name] for name in names if name in FIXTURES}
    if callspec := getattr(item, "callspec", None):
        values = [value for value in callspec.params.values() if isinstance(value, str)]
        needs.update(PARAMETERS[value] for value in values if value in PARAMETERS)
    return needs


def kind(keywords: Any) -> str:
    """What a test's time is said by."""
    return next(kind for kind in KINDS if kind in keywords)


class NoProgramWithoutItsFixture:
    """Fails a test that starts a program and does not say so."""

    def __init__(self) -> None:
        self._listening = False
        self._started: list[object] | None = None

    def pytest_runtestloop(self) -> None:
        if not self._listening:
            platform.processor()  # asks a program once, and anybody may be the first who wants to know
            sys.addaudithook(self._heard)
            self._listening = True

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Generator[None, None, None]:
        self._started = [] if kind(item.keywords) in ("unit", "terminal") else None
        yield

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(self) -> Generator[None, None, None]:
        yield
        started, self._started = self._started, None
        assert not started, f"It starts {started[0]} and does not say so: take the fixture `process`."

    def _heard(self, event: str, arguments: tuple[object, ...]) -> None:
        if self._started is not None and event in STARTS:
            self._started.append(arguments[0] if arguments else event)
