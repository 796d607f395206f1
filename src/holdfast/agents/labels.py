"""Texts of an agent, made fit to be shown to a person and chosen from."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.model.text import readable


def shown(text: str) -> str:
    """`text` without what cannot be stored, and without space around it."""
    return readable(text).strip()


def unique_labels(names: Sequence[str]) -> tuple[str, ...]:
    """A label for each name, in order and no two alike: the name itself, unless it is empty or taken."""
    labels: dict[str, None] = {}
    counts: dict[str, int] = {}
    for number, name in enumerate(names, 1):
        label = wanted = shown(name) or f"Option {number}"
        count = counts.get(wanted, 1)
        while label in labels:
            count += 1
            label = f"{wanted} ({count})"
        labels[label] = None
        counts[wanted] = count
    return tuple(labels)
