"""Strategies that other packages bring.

A package names them in its entry points, and settings then name them like ours:

    [project.entry-points."holdfast.compaction"]
    keep_questions = "my_package:KeepQuestions"

What is named is a class, or anything else that makes a strategy of the parameters.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Any

import msgspec

from holdfast.compaction.strategy import CompactionStrategy
from holdfast.errors import InvalidInput

GROUP = "holdfast.compaction"


def installed_names() -> list[str]:
    return sorted(entry_points(group=GROUP).names)


def installed_strategy(name: str, given: Mapping[str, Any]) -> CompactionStrategy | None:
    """The strategy that an installed package brings under this name; None where none does."""
    for entry in entry_points(group=GROUP, name=name):
        return _made(entry, given)
    return None


def _made(entry: EntryPoint, given: Mapping[str, Any]) -> CompactionStrategy:
    brought_by = f"The strategy {entry.name!r} of {entry.dist.name if entry.dist else entry.value}"
    try:
        make = entry.load()
    except (ImportError, AttributeError) as error:
        raise InvalidInput(f"{brought_by} cannot be loaded: {error}.") from None
    try:
        is_struct = isinstance(make, type) and issubclass(make, msgspec.Struct)
        strategy = msgspec.convert(given, make) if is_struct else make(**given)
    except (TypeError, ValueError) as error:  # msgspec's errors are among them
        raise InvalidInput(f"{brought_by} cannot be set up: {error}.") from None
    if not isinstance(strategy, CompactionStrategy):
        raise InvalidInput(f"{brought_by} is none: it needs a name, a version and plan().")
    return strategy
