"""What a view is made of: items, and the atoms of items that stay together."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from holdfast.compaction.ranges import Ranges, union
from holdfast.model.message import Message


class Kind(StrEnum):
    STORED = "stored"
    """A message as it was said."""
    SHORTENED = "shortened"
    """A message with other content than it was said with."""
    SUMMARY = "summary"
    SYNTHETIC = "synthetic"
    """A result that was never given."""


# In Python 3.11 a member of an enumeration costs a call each time it is named, and views are long.
STORED, SHORTENED, SUMMARY, SYNTHETIC = Kind


NOTE_OF_CALL = "resultOf"
"""In the metadata of a note: the call whose result it tells, apart from the call."""


def is_note(message: Message) -> bool:
    """Whether it tells a tool's result, in the role of a user: nobody said it."""
    return NOTE_OF_CALL in message.metadata


class Item(msgspec.Struct, frozen=True, gc=False):  # there are many, and none can refer to itself
    message: Message
    tokens: int
    ranges: Ranges
    """The stored messages it stands for."""
    kind: Kind = STORED
    fixed: bool = False
    level: int = 0


class Atom(msgspec.Struct, frozen=True, gc=False):
    """Items that stay together."""

    items: tuple[Item, ...]
    last: int
    """The place of the last one in the view."""
    fixed: bool
    tokens: int

    @property
    def ranges(self) -> Ranges:
        """The stored messages they stand for."""
        return union([each for item in self.items for each in item.ranges])

    @property
    def is_summary(self) -> bool:
        return self.items[0].kind is SUMMARY
