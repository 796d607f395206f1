"""The strategies, by name: ours, and those that other packages bring.

`pipeline` tries the cheap ones first and stops as soon as the view is small enough. `hard_clear`
forgets without a summary, and is used only where somebody names it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import msgspec

from holdfast.compaction.budget import Budget
from holdfast.compaction.installed import installed_names, installed_strategy
from holdfast.compaction.items import Atom
from holdfast.compaction.plan import AtLeastOne, Count, Fold, Plan, Replacement
from holdfast.compaction.strategy import (
    CompactionStrategy,
    Configured,
    Keep,
    from_a_beginning,
    older,
    only_a_summary,
    saves_enough,
    together,
)
from holdfast.compaction.tool_results import ToolResult, cleared, older_results, shortened
from holdfast.compaction.view import View
from holdfast.errors import InvalidInput
from holdfast.model.tokens import MESSAGE_OVERHEAD, TokenCounter

KEEP_RECENT_TOKENS = 20_000
SUMMARY_TOKENS = 2_000
LEAF_SUMMARY_TOKENS = 1_000
SMALLEST_SUMMARY = 48
"""Tokens below which a summary says nothing."""


class NoCompaction(Configured, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: ClassVar[str] = "none"

    def plan(self, view: View, budget: Budget, counter: TokenCounter) -> Plan | None:
        return None


class SlidingWindow(Configured, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Shows the latest messages and no summary of the others. Summaries that are there stay."""

    name: ClassVar[str] = "sliding_window"
    max_messages: Count | None = None
    max_tokens: Count | None = None

    def plan(self, view: View, budget: Budget, counter: TokenCounter) -> Plan | None:
        tokens = budget.aim if self.max_messages is None and self.max_tokens is None else self.max_tokens
        boundary = Keep(messages=self.max_messages, tokens=tokens).boundary(view)
        return _dropping(view, older(view, boundary, room=budget.room, summaries=False))


class HardClear(Configured, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Shows the latest messages and nothing else: what was summarised is forgotten too."""

    name: ClassVar[str] = "hard_clear"
    keep_recent: Count = 5

    def plan(self, view: View, budget: Budget, counter: TokenCounter) -> Plan | None:
        boundary = Keep(messages=self.keep_recent).boundary(view)
        return _dropping(view, older(view, boundary, room=budget.room))


class ToolResultTrim(Configured, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Shows long results of tools with their middle left out, except the latest ones."""

    name: ClassVar[str] = "tool_result_trim"
    max_chars: Count = 4_000
    head: Count = 1_500
    tail: Count = 1_500
    keep_last: Count = 3
    exclude: tuple[str, ...] = ()
    """Tools whose results are left alone."""

    def __post_init__(self) -> None:
        if self.head + self.tail >= self.max_chars:
            raise InvalidInput("What is kept of a result's head and tail is less than its greatest length.")

    def plan(self, view: View, budget: Budget, counter: TokenCounter) -> Plan | None:
        replaced = [
            (result, replacement)
            for result in older_results(view.results, self.keep_last, self.exclude)
            if (replacement := shortened(result, self.max_chars, self.head, self.tail, counter))
        ]
        return _replacing(view, replaced)


class ToolResultClear(Configured, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Shows a placeholder for results of tools, the oldest first, except the latest ones."""

    name: ClassVar[str] = "tool_result_clear"
    trigger: Count = 0
    """Tokens of the view below which nothing is cleared."""
    keep: Count = 3
    clear_at_least: Count = 0
    """Tokens that must be saved for it to be worth it."""
    exclude: tuple[str, ...] = ()
    placeholder: str = "[this result is no longer shown; the original is stored]"

    def plan(self, view: View, budget: Budget, counter: TokenCounter) -> Plan | None:
        if view.tokens < self.trigger:
            return None
        replaced = cleared(older_results(view.results, self.keep, self.exclude), self.placeholder, counter)
        if _saved(replaced) < self.clear_at_least:
            return None
        return _replacing(view, replaced)


class Summarize(Configured, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Puts one summary in the place of everything older than the latest messages."""

    name: ClassVar[str] = "summarize"
    keep_recent_tokens: Count | None = None
    keep_recent_messages: Count | None = None
    keep_recent_turns: Count | None = None
    summary_budget: AtLeastOne = SUMMARY_TOKENS
    instructions: str | None = None

    def plan(self, view: View, budget: Budget, counter: TokenCounter) -> Plan | None:
        keep = _keep(self.keep_recent_tokens, self.keep_recent_messages, self.keep_recent_turns, budget)
        summary = _summary_room(self.summary_budget, budget)
        taken = older(view, keep.boundary(view), room=budget.room, added=summary)
        fold = _fold(taken, summary, self.instructions)
        if fold is None or not saves_enough(view, _tokens(taken) - fold.tokens):
            return None
        return Plan(folds=(fold,))


class Hierarchical(Configured, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Puts a summary in the place of every stretch of older messages, and one of them in the place of many.

    A message is summarised once and not again with every compaction, so early ones fade in steps.
    """

    name: ClassVar[str] = "hierarchical"
    leaf_tokens: AtLeastOne = 4_000
    """How long a stretch is, at least, that gets a summary of its own."""
    fanout: int = 4
    """How many summaries of one level stand side by side before one takes their place."""
    keep_recent_tokens: Count | None = None
    keep_recent_messages: Count | None = None
    keep_recent_turns: Count | None = None
    summary_budget: AtLeastOne = LEAF_SUMMARY_TOKENS
    instructions: str | None = None

    def __post_init__(self) -> None:
        if self.fanout < 2:
            raise InvalidInput("A hierarchy joins at least two summaries.")

    def plan(self, view: View, budget: Budget, counter: TokenCounter) -> Plan | None:
        keep = _keep(self.keep_recent_tokens, self.keep_recent_messages, self.keep_recent_turns, budget)
        summary = _summary_room(self.summary_budget, budget)
        taken = older(view, keep.boundary(view), room=budget.room, added=summary)
        said = [atom for atom in taken if not atom.is_summary]
        room_for_leaves = max(1, (budget.aim - view.tokens + _tokens(said)) // summary)
        leaf_tokens = max(self.leaf_tokens, _tokens(said) // room_for_leaves)
        folds = [
            (fold, _tokens(group) - fold.tokens)
            for group in [*self._condensable(taken), *_stretches(said, leaf_tokens)]
            if (fold := _fold(group, summary, self.instructions))
        ]
        if not folds or not saves_enough(view, sum(saved for _, saved in folds)):
            return None
        return Plan(folds=tuple(fold for fold, _ in folds))

    def _condensable(self, taken: Sequence[Atom]) -> list[list[Atom]]:
        levels: dict[int, list[Atom]] = {}
        for atom in taken:
            if atom.is_summary:
                levels.setdefault(atom.items[0].level, []).append(atom)
        return [atoms for atoms in levels.values() if len(atoms) >= self.fanout]


class Pipeline(Configured, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Lets one strategy after the other shorten the view, until it is small enough."""

    name: ClassVar[str] = "pipeline"
    stages: tuple[str | dict[str, Any], ...] = ("tool_result_trim", "tool_result_clear", "summarize")
    """Names, or tables with a name and parameters, the cheapest first."""

    def __post_init__(self) -> None:
        if not self.stages:
            raise InvalidInput("A pipeline has at least one stage.")
        self.strategies()

    def strategies(self) -> list[CompactionStrategy]:
        return [strategy_of(stage) for stage in self.stages]

    def plan(self, view: View, budget: Budget, counter: TokenCounter) -> Plan | None:
        whole: Plan | None = None
        current, latest = view, whole
        for stage in self.strategies():
            if latest is not None and latest is not whole:
                whole = latest
                current = view.after(whole)
            if current.tokens <= budget.aim:
                break
            if plan := stage.plan(current, budget, counter):
                latest = whole.followed_by(plan) if whole else plan
        return latest


STRATEGIES: dict[str, type[Configured]] = {
    kind.name: kind
    for kind in (
        NoCompaction,
        SlidingWindow,
        ToolResultTrim,
        ToolResultClear,
        Summarize,
        Hierarchical,
        Pipeline,
        HardClear,
    )
}

ALIASES: dict[str, tuple[str, dict[str, str]]] = {
    "Summary": ("summarize", {"keep_recent": "keep_recent_messages"}),
    "AdaptiveChunking": ("hierarchical", {"keep_recent": "keep_recent_messages"}),
    "ToolResultTruncation": ("tool_result_trim", {}),
}
"""What the session-management document's own system calls strategies and parameters, where it differs by
more than the spelling: `SlidingWindow` is read as `sliding_window`."""


def _spelled(name: str) -> str:
    return name.replace("_", "").replace("-", "").lower()


_MEANT: dict[str, tuple[str, dict[str, str]]] = {
    **{_spelled(name): (name, {}) for name in STRATEGIES},
    **{_spelled(alias): meant for alias, meant in ALIASES.items()},
}


def strategy_of(spec: str | Mapping[str, Any]) -> CompactionStrategy:
    """The strategy of a name, or of a table with a `name` and its parameters."""
    fields = {"name": spec} if isinstance(spec, str) else dict(spec)
    wanted = str(fields.pop("name", ""))
    if _spelled(wanted) not in _MEANT:
        if (brought := installed_strategy(wanted, fields)) is not None:
            return brought
        known = ", ".join([*STRATEGIES, *installed_names()])
        raise InvalidInput(f"There is no strategy {wanted!r}; there are {known}.")
    name, renamed = _MEANT[_spelled(wanted)]
    given = {renamed.get(key, key): value for key, value in fields.items()}
    try:
        strategy: Any = msgspec.convert(given, STRATEGIES[name])
    except msgspec.ValidationError as error:
        raise InvalidInput(f"The strategy {name!r} cannot be set up: {error}.") from None
    checked: CompactionStrategy = strategy
    return checked


def _keep(tokens: int | None, messages: int | None, turns: int | None, budget: Budget) -> Keep:
    if tokens is None and messages is None and turns is None:
        tokens = min(KEEP_RECENT_TOKENS, budget.aim // 2)
    return Keep(tokens, messages, turns)


def _summary_room(wanted: int, budget: Budget) -> int:
    """A summary takes at most a quarter of what the view should become."""
    return max(1, min(wanted, budget.aim // 4))


def _stretches(atoms: Sequence[Atom], least: int) -> list[list[Atom]]:
    """Atoms in stretches of at least so many tokens each; one too short at the end joins the one before."""
    stretches: list[list[Atom]] = []
    tokens = least
    for atom in atoms:
        if tokens >= least:
            stretches.append([])
            tokens = 0
        stretches[-1].append(atom)
        tokens += atom.tokens
    if len(stretches) > 1 and tokens < least:
        last = stretches.pop()
        stretches[-1] += last
    return stretches


def _fold(atoms: Sequence[Atom], summary_budget: int, instructions: str | None) -> Fold | None:
    """The fold of atoms into a summary of at most half their size."""
    tokens = min(summary_budget + MESSAGE_OVERHEAD, _tokens(atoms) // 2)
    if only_a_summary(atoms) or tokens < SMALLEST_SUMMARY:
        return None
    levels = [atom.items[0].level for atom in atoms if atom.is_summary]
    condensed = len(levels) == len(atoms)
    level = max(levels) + condensed if levels else 0
    return Fold(ranges=together(atoms), tokens=tokens, level=level, instructions=instructions)


def _tokens(atoms: Sequence[Atom]) -> int:
    return sum([atom.tokens for atom in atoms])


def _dropping(view: View, older_ones: Sequence[Atom]) -> Plan | None:
    atoms = from_a_beginning(view, older_ones)
    return Plan(dropped=together(atoms)) if saves_enough(view, _tokens(atoms)) else None


def _replacing(view: View, replaced: Sequence[tuple[ToolResult, Replacement]]) -> Plan | None:
    plan = Plan(replaced=tuple(each for _, each in replaced))
    return plan if saves_enough(view, _saved(replaced)) else None


def _saved(replaced: Sequence[tuple[ToolResult, Replacement]]) -> int:
    return sum(result.item.tokens - (each.tokens or 0) for result, each in replaced)
