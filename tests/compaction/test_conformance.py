"""Every strategy of ours under the suite that anybody's can be put under."""

import os
from typing import Any

import pytest

from holdfast.compaction.plan import Fold, Plan
from holdfast.compaction.strategies import STRATEGIES, strategy_of
from holdfast.compaction.strategy import CompactionStrategy
from holdfast.testing.compaction import check_in_store, check_planning

EXAMPLES = int(os.environ.get("HOLDFAST_COMPACTION_EXAMPLES", "120"))
"""Histories for each strategy. The whole suite is ten thousand, and takes some minutes."""

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
def test_our_strategies_plan_well(spec: str | dict[str, Any]) -> None:
    check_planning(strategy_of(spec), examples=EXAMPLES)


@pytest.mark.req("STO-17", "STO-18")
@pytest.mark.parametrize("spec", ["pipeline", "sliding_window", "hierarchical"])
def test_our_strategies_keep_sessions_whole(spec: str) -> None:
    check_in_store(strategy_of(spec), examples=max(5, EXAMPLES // 20))


class Careless:
    """A strategy that folds the first half of a view, whatever is in it."""

    name = "careless"
    version = 1

    def plan(self, view: Any, budget: Any, counter: Any) -> Plan | None:
        half = view.last_seq // 2
        return Plan(folds=(Fold(ranges=((1, half),), tokens=20),)) if half else None


def test_the_suite_finds_a_strategy_that_parts_calls_from_results() -> None:
    careless: CompactionStrategy = Careless()
    with pytest.raises((AssertionError, ExceptionGroup)):
        check_planning(careless, examples=200)
