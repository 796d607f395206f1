"""The messages of one chat that wait or are answered in this process, in the order in which they came."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from holdfast.model.message import Message


class Place:
    """Where a message stands in line."""

    def __init__(self, line: Line, message: Message) -> None:
        self._line = line
        self.message = message
        self.first = asyncio.Event()
        """Set when nobody who came earlier is left."""

    @property
    def is_repeated(self) -> bool:
        """Whether an earlier delivery of the same message stands in line."""
        return any(self._says_the_same(each) for each in self._line.places[: self._number])

    @property
    def is_overtaken(self) -> bool:
        """Whether somebody came later who says something else."""
        return not all(self._says_the_same(each) for each in self._line.places[self._number + 1 :])

    @property
    def _number(self) -> int:
        return self._line.places.index(self)

    def _says_the_same(self, other: Place) -> bool:
        return self.message.id is not None and self.message.id == other.message.id


class Line:
    def __init__(self) -> None:
        self.places: list[Place] = []

    @contextmanager
    def place(self, message: Message) -> Iterator[Place]:
        """A place at the end of the line, which is kept while the message is answered."""
        place = Place(self, message)
        self.places.append(place)
        self.places[0].first.set()
        try:
            yield place
        finally:
            self.places.remove(place)
            if self.places:
                self.places[0].first.set()
