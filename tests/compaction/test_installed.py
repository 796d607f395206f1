"""Strategies that another package brings: named in the settings and on the command line like ours."""

import json
from pathlib import Path
from typing import Any

import pytest

from holdfast import open_store
from holdfast.compaction.policy import CompactionPolicy
from holdfast.compaction.strategies import strategy_of
from holdfast.errors import InvalidInput
from holdfast.testing.compaction import check_planning
from tests.cli.command import Cli
from tests.compaction.sessions import conversation, filled

MODULE = """
from holdfast.compaction.strategies import SlidingWindow

class Few:
    name = "few"
    version = 3
    def __init__(self, keep=4):
        self._window = SlidingWindow(max_messages=keep)
    def plan(self, view, budget, counter):
        return self._window.plan(view, budget, counter)

class Window(SlidingWindow, frozen=True, kw_only=True):
    name = "window"

def nothing():
    return object()
"""

ENTRY_POINTS = """
[holdfast.compaction]
few = fewer:Few
window = fewer:Window
nothing = fewer:nothing
absent = fewer:Absent
unheard_of = unheard_of:Few
"""


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """Where a package is installed, as pip would leave it."""
    site = tmp_path / "site"
    about = site / "fewer-1.0.dist-info"
    about.mkdir(parents=True)
    (site / "fewer.py").write_text(MODULE)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: fewer\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(ENTRY_POINTS)
    return site


@pytest.fixture
def importable(installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(installed))


@pytest.mark.usefixtures("importable")
@pytest.mark.parametrize("spec", ["few", {"name": "few", "keep": 2}, {"name": "window", "max_messages": 3}])
def test_an_installed_strategy_is_known_by_its_name(spec: str | dict[str, Any]) -> None:
    check_planning(CompactionPolicy.of({"strategy": spec}).planner(), examples=20)


WRONG: dict[str, tuple[str | dict[str, Any], str]] = {
    "unknown": (
        "fewest",
        "There is no strategy 'fewest'; there are none, .*, hard_clear.*, few, nothing, unheard_of, window",
    ),
    "a parameter it does not have": ({"name": "few", "most": 1}, "'few' of fewer cannot be set up: .*'most'"),
    "a field it does not have": ({"name": "window", "most": 1}, "'window' of fewer cannot be set up: .*most"),
    "no strategy": ("nothing", "'nothing' of fewer is none: it needs a name, a version and plan"),
    "not in its module": ("absent", "'absent' of fewer cannot be loaded: .*Absent"),
    "no module": ("unheard_of", "'unheard_of' of fewer cannot be loaded: No module named 'unheard_of'"),
}


@pytest.mark.usefixtures("importable")
@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_with_an_installed_strategy_is_said_with_its_package(case: str) -> None:
    spec, said = WRONG[case]
    with pytest.raises(InvalidInput, match=said):
        strategy_of(spec)


@pytest.mark.usefixtures("process")
async def test_a_session_is_compacted_by_an_installed_strategy(tmp_path: Path, installed: Path) -> None:
    cli = Cli(tmp_path)
    cli.environment["PYTHONPATH"] = str(installed)
    (tmp_path / "data").mkdir()
    async with open_store(f"sqlite:///{tmp_path / 'data' / 'holdfast.db'}") as store:
        session = await filled(store, conversation(10))
    done = cli("sessions", "compact", session, "--strategy", "few", "--param", "keep=4", "--json")
    assert done.returncode == 0, done.stderr
    (record,) = json.loads(cli("sessions", "compactions", session, "--json").stdout)["compactions"]
    assert record["strategy"] == "few"
    shown = json.loads(cli("sessions", "view", session, "--json").stdout)
    assert [message["seq"] for message in shown] == [1, *range(38, 42)]
