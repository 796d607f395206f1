"""What a strategy wants done to a view. A plan speaks of stored messages by their `seq` alone.

A fold puts one summary in the place of messages, a replacement shows a message shortened, and what
is dropped is not shown. A summary that stands in the view is named by the messages it stands for.
The plan that was carried out, with its summaries, is what the store keeps as a compaction's edits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec

from holdfast.compaction.errors import UnreadableCompaction
from holdfast.compaction.ranges import Ranges, contains, covers, union, without
from holdfast.model.records import Compaction

Count = Annotated[int, msgspec.Meta(ge=0)]
AtLeastOne = Annotated[int, msgspec.Meta(ge=1)]


class Fold(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    ranges: Ranges
    tokens: Count
    """The room for its summary as a message; once that is made, what it takes."""
    level: Count = 0
    """0 for a summary of messages; one more than the highest among the summaries it condenses."""
    instructions: str | None = None
    """What the summariser is asked to heed besides."""
    summary: str = ""


class Replacement(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    seq: int
    content: dict[str, Any]
    tokens: Count | None = None
    """What it takes as a message, where that is known. It is counted again before it is recorded."""


class Plan(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    folds: tuple[Fold, ...] = ()
    replaced: tuple[Replacement, ...] = ()
    dropped: Ranges = ()
    upto: int = 0
    """The last message there was when it was planned."""

    @property
    def removed(self) -> Ranges:
        """The messages that are no longer shown themselves."""
        return union(self.dropped, *(fold.ranges for fold in self.folds))

    @property
    def touched(self) -> Ranges:
        """Every message it says something about."""
        return union(self.removed, ((each.seq, each.seq) for each in self.replaced))

    @property
    def summary(self) -> str:
        """All its summaries, for a person to read."""
        return "\n\n".join(fold.summary for fold in self.folds)

    def summarized(self, summaries: Sequence[tuple[str, int]]) -> Plan:
        """The plan with the text and the tokens of each fold's summary."""
        folds = tuple(
            msgspec.structs.replace(fold, summary=text, tokens=tokens)
            for fold, (text, tokens) in zip(self.folds, summaries, strict=True)
        )
        return msgspec.structs.replace(self, folds=folds)

    def followed_by(self, later: Plan) -> Plan:
        """One plan that does what this one does, and then what `later` does to the view it leaves."""
        removed = later.removed
        again = {each.seq for each in later.replaced}
        return Plan(
            folds=(*(fold for fold in self.folds if not covers(removed, fold.ranges)), *later.folds),
            replaced=(
                *(e for e in self.replaced if e.seq not in again and not contains(removed, e.seq)),
                *later.replaced,
            ),
            dropped=union(without(self.dropped, removed), later.dropped),
        )

    def edits(self) -> dict[str, Any]:
        """As a compaction record keeps it."""
        edits: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(self))
        return edits

    def as_recorded(self) -> Plan:
        """The plan as it will be read again; an error where it could not be."""
        return msgspec.convert(self.edits(), Plan)


def plan_of(compaction: Compaction) -> Plan:
    """What a recorded compaction does. One without edits folds its whole range."""
    if compaction.edits:
        try:
            return msgspec.convert(compaction.edits, Plan)
        except msgspec.ValidationError as error:
            raise UnreadableCompaction(compaction.id, str(error)) from None
    whole = ((compaction.first_seq, compaction.last_seq),)
    tokens = compaction.tokens_after or 0
    return Plan(folds=(Fold(ranges=whole, tokens=tokens, summary=compaction.summary),))
