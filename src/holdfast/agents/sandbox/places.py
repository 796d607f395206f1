"""What a sandboxed program finds where: places to read, places to write, and places that are empty for it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
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

    A place that is only read inside a place that is only read is left out: every place costs a mount.
    """
    last = {place.path: place for place in places}
    ordered: dict[Path, Place] = {}
    for place in sorted(last.values(), key=lambda place: len(place.path.parts)):
        above = next((ordered[path] for path in place.path.parents if path in ordered), None)
        if above is None or not (_is_plainly_read(above) and _is_plainly_read(place)):
            ordered[place.path] = place
    return list(ordered.values())


def ways(places: Sequence[Place]) -> Iterator[Place]:
    """The directories on the way from a place that is written to each place in it, as places of their own.

    A directory that is one cannot be renamed, and so nothing else can come to stand where the inner place is.
    """
    found = by_path(places)
    for place in places:
        enclosing = around(place.path.parent, found)
        if enclosing is not None and enclosing.access is Access.WRITE:
            for path in place.path.parents:
                if path == enclosing.path:
                    break
                yield write(path, enclosing.source / path.relative_to(enclosing.path))


def sources(places: Sequence[Place]) -> Iterator[Place]:
    """What is only read elsewhere, and lies in a place that is written: linked settings are often there."""
    found = by_path(places)
    for place in places:
        if place.access is Access.READ and place.path != place.source:
            enclosing = around(place.source, found)
            if enclosing is not None and enclosing.access is Access.WRITE and _is_itself(enclosing):
                yield read(place.source)


def _is_itself(place: Place) -> bool:
    return place.path == place.source


def _is_plainly_read(place: Place) -> bool:
    return place.access is Access.READ and _is_itself(place)


def by_path(places: Iterable[Place]) -> Mapping[Path, Place]:
    return {place.path: place for place in places}


def around(path: Path, places: Mapping[Path, Place]) -> Place | None:
    """The place in which a path lies, or which it is."""
    return next((places[each] for each in (path, *path.parents) if each in places), None)
