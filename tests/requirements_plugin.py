"""Ties tests to the promises in docs/requirements.md.

`@pytest.mark.req("STO-01", "STO-02")` says that a test proves these rows. A row counts as proven when at
least one of its tests passed and none failed; the run ends by saying how many are. A marker that names a
row which is not in the list is an error of its file, so a misspelt row cannot go unnoticed.

When the environment variable CI is set, a skipped test is a failed test: what CI calls green was run.

Rows travel in a test's `user_properties`, which pytest-xdist carries to the process that prints the summary.
"""

import os
import re
from collections.abc import Generator
from pathlib import Path

import pytest

ROW = re.compile(r"^\| ([A-Z]{3}-\d{2}) \|", re.MULTILINE)
ROW_PROPERTY = "req"


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "req(*rows): the rows of docs/requirements.md that this test proves")
    config.pluginmanager.register(RequirementRows(config.rootpath / "docs" / "requirements.md"))
    if os.environ.get("CI"):
        config.pluginmanager.register(SkippedIsFailed())


class RequirementRows:
    """Checks the markers while tests are collected, and counts the proven rows while they run."""

    def __init__(self, document: Path) -> None:
        self.rows = frozenset(ROW.findall(document.read_text(encoding="utf-8")))
        self.passed: set[str] = set()
        self.failed: dict[str, list[str]] = {}
        self.any_test_ran = False

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(self) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
        report = yield
        items = [node for node in report.result or () if isinstance(node, pytest.Item)]
        mistakes = [mistake for item in items for mistake in self._tie_to_rows(item)]
        if mistakes:
            report.outcome = "failed"
            report.longrepr = "\n".join(mistakes)
            report.result = []
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.any_test_ran = True
        rows = [str(value) for name, value in report.user_properties if name == ROW_PROPERTY]
        if report.failed:
            for row in rows:
                self.failed.setdefault(row, []).append(report.nodeid)
        elif report.passed and report.when == "call":
            self.passed.update(rows)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Generator[None, None, None]:
        yield  # after the terminal's own summary, so that the count is the last thing on the screen
        terminal = session.config.pluginmanager.get_plugin("terminalreporter")
        if terminal is None or not self.any_test_ran:
            return
        proven = self.passed - self.failed.keys()
        terminal.write_line(f"requirement rows proven: {len(proven)} of {len(self.rows)}", bold=True)
        for row, tests in sorted(self.failed.items()):
            terminal.write_line(f"  {row} is not proven: {', '.join(dict.fromkeys(tests))} failed", red=True)

    def _tie_to_rows(self, item: pytest.Item) -> list[str]:
        """Record the rows that a test names, and return a sentence for each marker that is wrong."""
        mistakes = []
        for marker in item.iter_markers(ROW_PROPERTY):
            if not marker.args or marker.kwargs:
                mistakes.append(f'{item.nodeid}: req takes row ids, as in req("STO-01").')
            for row in marker.args:
                if row in self.rows:
                    item.user_properties.append((ROW_PROPERTY, row))
                else:
                    mistakes.append(f"{item.nodeid}: req names {row!r}, not a row of docs/requirements.md.")
        return mistakes


class SkippedIsFailed:
    """Turns every skipped or expectedly failing test, and every skipped file, into a failure."""

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(self) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        if report.skipped:
            why_expected = vars(report).pop("wasxfail", None)
            what = "skipped" if why_expected is None else "xfailed"
            report.outcome = "failed"
            report.longrepr = f"{what}, which is a failure in CI: {why_expected or skip_reason(report)}"
        return report

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_make_collect_report(self) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
        report = yield
        if report.skipped:
            report.outcome = "failed"
            report.longrepr = f"skipped, which is a failure in CI: {skip_reason(report)}"
        return report


def skip_reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    """The reason alone, of the (path, line, reason) that pytest records for a skip."""
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
    return str(reason).removeprefix("Skipped: ")
