"""What a sandboxed program finds where: places to read, places to write, and places that are empty for it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path


class Access(StrEnum):
    READ = "read"
    WRITE = "write"
    HIDDEN = "hidden"
    """An empty directory or file stands in its place."""


@dataclass(frozen=True, slots=True)
class Place:
    path: Path
    """Where the program finds it."""
    access: Access
    source: Path
    """What is there: the same path, unless something else stands in for it."""


def read(path: Path, source: Path | None = None) -> Place:
    return Place(path, Access.READ, source or path)


def write(path: Path, source: Path | None = None) -> Place:
    return Place(path, Access.WRITE, source or path)


def hidden(path: Path) -> Place:
    return Place(path, Access.HIDDEN, path)


def in_order(places: Iterable[Place]) -> list[Place]:
    """Each path once, as the last place says that names it; what lies in another place comes after it.

    What only says again what the place around it says is left out: every place costs a mount.
    """
    last = {place.path: place for place in places}
    ordered: dict[Path, Place] = {}
    for place in sorted(last.values(), key=lambda place: len(place.path.parts)):
        above = next((ordered[path] for path in place.path.parents if path in ordered), None)
        if above is None or not (_is_plainly_read(above) and _is_plainly_read(place)):
            ordered[place.path] = place
    return list(ordered.values())


def _is_plainly_read(place: Place) -> bool:
    return place.access is Access.READ and place.path == place.source


def around(path: Path, places: Sequence[Place]) -> Place | None:
    """The place in which a path lies, or which it is."""
    found = [place for place in places if place.path == path or place.path in path.parents]
    return max(found, key=lambda place: len(place.path.parts), default=None)
