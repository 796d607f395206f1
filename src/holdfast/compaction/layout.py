"""How a session's view is laid out: which messages are hidden, shortened, or stand summarised.

A layout is put together from compaction records alone, without reading a message, so computing a
view reads only the messages that are shown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Protocol, TypeVar

import msgspec

from holdfast.compaction.plan import Fold, Plan, Replacement, plan_of
from holdfast.compaction.ranges import Ranges, contains, covers, overlap, union, without
from holdfast.errors import NotFound
from holdfast.model.ids import CompactionId
from holdfast.model.records import Compaction


class Standing(msgspec.Struct, frozen=True):
    """A summary that stands in the view, where the first message it stands for stood."""

    fold: Fold
    compaction: Compaction | None
    """None while it is only planned."""

    @property
    def first_seq(self) -> int:
        return self.fold.ranges[0][0]


class Layout(msgspec.Struct, frozen=True, kw_only=True):
    head: Compaction | None = None
    """The compaction whose view it is; None where nothing is compacted."""
    hidden: Ranges = ()
    summaries: tuple[Standing, ...] = ()
    replaced: Mapping[int, Replacement] = {}

    def shown(self, last_seq: int) -> Ranges:
        """The stored messages of the view."""
        return without_hidden(last_seq, self.hidden)

    def after(self, plan: Plan, compaction: Compaction | None = None) -> Layout:
        """The layout once a plan was carried out."""
        removed = plan.removed
        standing = [each for each in self.summaries if not covers(removed, each.fold.ranges)]
        standing += [Standing(fold, compaction) for fold in plan.folds]
        replaced = {seq: each for seq, each in self.replaced.items() if not contains(removed, seq)}
        replaced |= {each.seq: each for each in plan.replaced}
        return Layout(
            head=compaction or self.head,
            hidden=union(self.hidden, removed),
            summaries=tuple(sorted(standing, key=lambda each: each.first_seq)),
            replaced=replaced,
        )


def without_hidden(last_seq: int, hidden: Ranges) -> Ranges:
    shown: list[tuple[int, int]] = []
    first = 1
    for gone_first, gone_last in hidden:
        if first < gone_first:
            shown.append((first, min(gone_first - 1, last_seq)))
        first = gone_last + 1
    if first <= last_seq:
        shown.append((first, last_seq))
    return tuple(shown)


def layout_of(chain: Sequence[Compaction]) -> Layout:
    """The layout after compactions of which each was planned on the view of the one before it."""
    layout = Layout()
    for compaction in chain:
        layout = layout.after(plan_of(compaction), compaction)
    return layout


class Gap(msgspec.Struct, frozen=True):
    """Messages in a row that are not shown, and for which no summary stands."""

    first_seq: int
    last_seq: int
    compaction: Compaction
    """The latest that left out some of them."""


def gaps_of(chain: Sequence[Compaction]) -> list[Gap]:
    """What these compactions, of which each was planned on the one before it, leave out of the view."""
    layout = layout_of(chain)
    dropped = without(layout.hidden, union(*(each.fold.ranges for each in layout.summaries)))
    latest = [(plan_of(each).dropped, each) for each in reversed(chain)]
    return [Gap(*seqs, next(each for ranges, each in latest if overlap(ranges, (seqs,)))) for seqs in dropped]


def shortened_by(chain: Sequence[Compaction]) -> dict[int, Compaction]:
    """The messages of which less is shown, and the latest of these compactions that shortened each."""
    latest = {each.seq: compaction for compaction in chain for each in plan_of(compaction).replaced}
    return {seq: latest[seq] for seq in sorted(layout_of(chain).replaced)}


class Linked(Protocol):
    """A compaction, or its outline."""

    @property
    def id(self) -> CompactionId: ...

    @property
    def parent_id(self) -> CompactionId | None: ...

    @property
    def undone_at(self) -> datetime | None: ...


L = TypeVar("L", bound=Linked)


def chain_in_effect(compactions: Sequence[L]) -> list[L]:
    """The newest compaction that stands on none that was undone, behind those it stands on.

    Undoing one thus gives the view it was planned on, and takes what was planned on it along.
    """
    known = {each.id: each for each in compactions}
    for compaction in reversed(compactions):
        chain = _chain(known, compaction)
        if all(each.undone_at is None for each in chain):
            return chain
    return []


def chain_to(compactions: Sequence[L], compaction_id: CompactionId) -> list[L]:
    """The branch that ends with this compaction, in effect or not."""
    known = {each.id: each for each in compactions}
    if compaction_id not in known:
        raise NotFound(f"The session has no compaction {compaction_id}.")
    return _chain(known, known[compaction_id])


def _chain(known: Mapping[CompactionId, L], last: L) -> list[L]:
    chain = [last]
    while (parent := chain[-1].parent_id) is not None and parent in known:
        chain.append(known[parent])
    return chain[::-1]
