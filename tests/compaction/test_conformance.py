"""Every strategy of ours under the suite that anybody's can be put under."""

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import pytest
from hypothesis import Phase, settings

from holdfast.compaction.errors import StrategyFailed
from holdfast.compaction.plan import Fold, Plan, Replacement
from holdfast.compaction.strategies import STRATEGIES, strategy_of
from holdfast.compaction.strategy import CompactionStrategy
from holdfast.model.message import Role
from holdfast.testing.compaction import check_in_store, check_planning
from tests.long_plugin import Trials

Test = TypeVar("Test", bound=Callable[..., None])

OURS: list[str | dict[str, Any]] = [
    *STRATEGIES,
    {"name": "sliding_window", "max_messages": 5},
    {"name": "summarize", "keep_recent_messages": 4},
    {"name": "summarize", "keep_recent_turns": 2, "summary_budget": 200},
    {"name": "hierarchical", "leaf_tokens": 200, "fanout": 2, "keep_recent_messages": 3},
    {"name": "hard_clear", "keep_recent": 0},
    {"name": "tool_result_trim", "max_chars": 100, "head": 40, "tail": 20, "keep_last": 0},
]


@pytest.mark.parametrize("spec", OURS, ids=str)
def test_our_strategies_plan_well(spec: str | dict[str, Any], trials: Trials) -> None:
    check_planning(strategy_of(spec), examples=trials(120, long=1_000))


@pytest.mark.req("STO-17", "STO-18")
@pytest.mark.parametrize("spec", ["pipeline", "sliding_window", "hierarchical"])
def test_our_strategies_keep_sessions_whole(spec: str, trials: Trials) -> None:
    check_in_store(strategy_of(spec), examples=trials(6, long=60))


class Careless:
    """A strategy that folds the first half of a view, whatever is in it."""

    name = "careless"
    version = 1

    def plan(self, view: Any, budget: Any, counter: Any) -> Plan | None:
        half = view.last_seq // 2
        return Plan(folds=(Fold(ranges=((1, half),), tokens=20),)) if half else None


class Inflating(Careless):
    """Shows more of every result, and says that it is less."""

    def plan(self, view: Any, budget: Any, counter: Any) -> Plan | None:
        padded = {"type": "text", "text": "pad " * 2_000}
        return Plan(
            replaced=tuple(
                Replacement(seq=each.item.message.seq, content=padded, tokens=1)
                for each in view.results
                if each.item.message.tool_call_id is not None and each.item.tokens > 50
            )
        )


class Rewording(Careless):
    """Puts other words into people's mouths."""

    def plan(self, view: Any, budget: Any, counter: Any) -> Plan | None:
        long = [item for item in view.items if not item.fixed and item.tokens > view.tokens // 4]
        words = [item for item in long if item.message.role is Role.AGENT and not item.message.tool_calls]
        ok = {"type": "text", "text": "ok"}
        replaced = tuple(Replacement(seq=item.message.seq, content=ok) for item in words)
        return Plan(replaced=replaced) if replaced else None


class OnlyOnce(Careless):
    """Does not expect to find a summary."""

    def plan(self, view: Any, budget: Any, counter: Any) -> Plan | None:
        if any(atom.is_summary for atom in view.atoms):
            raise KeyError("a summary")
        return strategy_of("summarize").plan(view, budget, counter)


class Idle(Careless):
    def plan(self, view: Any, budget: Any, counter: Any) -> Plan | None:
        return None


@pytest.fixture
def any_history() -> Iterator[None]:
    """Hypothesis does not look for the smallest history that shows a fault, which takes many seconds."""
    usual = settings.get_current_profile_name()
    settings.register_profile("any history", settings(), phases=[Phase.generate])
    settings.load_profile("any history")
    yield
    settings.load_profile(usual)


def finds(test: Test) -> Test:
    """Mark a test in which the suite fails, as it should."""
    long_histories_are_shown = pytest.mark.filterwarnings("ignore:Generating overly large repr")
    with_any_history: Callable[[Test], Test] = pytest.mark.usefixtures("any_history")
    return with_any_history(long_histories_are_shown(test))


@finds
@pytest.mark.parametrize("kind", [Inflating, Rewording, OnlyOnce, Idle])
def test_the_suite_finds_a_strategy_that(kind: type[Careless]) -> None:
    with pytest.raises((AssertionError, KeyError, ExceptionGroup)):
        check_planning(kind(), examples=200)


@finds
def test_the_suite_finds_a_strategy_in_a_store_that_does_not_expect_its_own_summaries() -> None:
    with pytest.raises((StrategyFailed, ExceptionGroup)):
        check_in_store(OnlyOnce(), examples=30)


@finds
def test_the_suite_finds_a_strategy_that_parts_calls_from_results() -> None:
    careless: CompactionStrategy = Careless()
    with pytest.raises((AssertionError, ExceptionGroup)):
        check_planning(careless, examples=200)
