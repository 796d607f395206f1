"""The time of a run: it is said for each kind of test, `--for-seconds` limits it, and no test may hang it."""

import time
from collections import Counter
from typing import Any

import pytest

from tests.needs_plugin import DESCRIPTIONS, KINDS, kind
from tests.requirements_plugin import skip_reason
from tests.waiting import SECONDS

TEST_SECONDS = 6 * SECONDS
"""The end of a test that hangs. The first one with an agent of others installs it."""

LONG_TEST_SECONDS = 20 * SECONDS


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--for-seconds", type=float, default=0, help="begin no test after so long (0: run all)")


@pytest.hookimpl(tryfirst=True)  # before pytest-timeout reads it
def pytest_configure(config: pytest.Config) -> None:
    if config.option.timeout is None:
        config.option.timeout = LONG_TEST_SECONDS if config.option.long else TEST_SECONDS
    config.pluginmanager.register(TimeOfEachKind())
    if seconds := config.getoption("--for-seconds"):
        worker = getattr(config, "workerinput", {})
        config.pluginmanager.register(EndsAt(worker.get("ends_at", time.time() + seconds)))


class TimeOfEachKind:
    """Adds up how long the tests of each kind took, and says what could not be tried here."""

    def __init__(self) -> None:
        self.seconds = dict.fromkeys(KINDS, 0.0)
        self.tests = dict.fromkeys(KINDS, 0)
        self.missing = Counter[str]()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.seconds[kind(report.keywords)] += report.duration
        self.tests[kind(report.keywords)] += report.when == "setup"
        if report.skipped:
            self.missing[skip_reason(report)] += 1

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        for each in reversed(KINDS):
            if self.tests[each]:
                figures = f"{self.tests[each]:6,} tests {self.seconds[each]:7,.0f} s"
                terminalreporter.write_line(f"{each:12}{figures}   {DESCRIPTIONS[each]}")
        for reason, tests in sorted(self.missing.items()):
            terminalreporter.write_line(f"{tests:,} tests were skipped: {reason}", yellow=True)


class EndsAt:
    """Begins no test after a moment, and says how many were left out."""

    def __init__(self, ends_at: float) -> None:
        self._ends_at = ends_at
        self._chosen = 0
        self._ran = 0

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        node.workerinput["ends_at"] = self._ends_at

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self) -> bool | None:
        return True if time.time() > self._ends_at else None

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self._chosen = len(session.items)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: list[str]) -> None:
        self._chosen = len(ids)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._ran += report.when == "setup"

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._ran < self._chosen:
            terminalreporter.write_line(
                f"{self._ran:,} of {self._chosen:,} tests were run in the given time."
            )
