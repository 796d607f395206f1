"""Compactions, and what a model is shown of a session."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from holdfast.compaction import layout
from holdfast.model import records
from holdfast.model.times import iso
from holdfast.server.shapes.shape import Shape, moment_text


class Compaction(Shape, frozen=True, kw_only=True):
    id: str
    rev: int
    parent_id: str | None = None
    strategy: str
    params: dict[str, Any]
    first_seq: int
    last_seq: int
    summary: str
    tokens_before: int | None = None
    tokens_after: int | None = None
    tokenizer: str | None = None
    created_at: str
    undone_at: str | None = None

    @classmethod
    def of(cls, compaction: records.Compaction) -> Compaction:
        return cls(
            id=compaction.id,
            rev=compaction.rev,
            parent_id=compaction.parent_id,
            strategy=compaction.strategy,
            params=compaction.params,
            first_seq=compaction.first_seq,
            last_seq=compaction.last_seq,
            summary=compaction.summary,
            tokens_before=compaction.tokens_before,
            tokens_after=compaction.tokens_after,
            tokenizer=compaction.tokenizer,
            created_at=iso(compaction.created_at),
            undone_at=moment_text(compaction.undone_at),
        )


class Fold(Shape, frozen=True, kw_only=True):
    """Messages in whose place a model is shown a summary, where the first of them stood."""

    compaction_id: str
    ranges: tuple[tuple[int, int], ...]
    """The first and last `seq` of each, in order."""
    summary: str


class Gap(Shape, frozen=True, kw_only=True):
    """Messages in a row that a model is not shown, without a summary in their place."""

    compaction_id: str
    """The latest that left out some of them."""
    first_seq: int
    last_seq: int


class Shortened(Shape, frozen=True, kw_only=True):
    """A message of which a model is shown less."""

    compaction_id: str
    seq: int


class Layout(Shape, frozen=True, kw_only=True):
    """What a model is shown now in place of stored messages. All others it is shown as they are."""

    folds: tuple[Fold, ...] = ()
    gaps: tuple[Gap, ...] = ()
    shortened: tuple[Shortened, ...] = ()

    @classmethod
    def of(cls, chain: Sequence[records.Compaction]) -> Layout:
        laid = layout.layout_of(chain)
        return cls(
            folds=tuple(
                Fold(compaction_id=each.compaction.id, ranges=each.fold.ranges, summary=each.fold.summary)
                for each in laid.summaries
                if each.compaction is not None
            ),
            gaps=tuple(
                Gap(compaction_id=each.compaction.id, first_seq=each.first_seq, last_seq=each.last_seq)
                for each in layout.gaps_of(chain)
            ),
            shortened=tuple(
                Shortened(compaction_id=compaction.id, seq=seq)
                for seq, compaction in layout.shortened_by(chain).items()
            ),
        )


class Compactions(Shape, frozen=True, kw_only=True):
    compactions: tuple[Compaction, ...]
    in_effect: tuple[str, ...]
    """The ids of those that make the view, each planned on the one before it."""
    layout: Layout

    @classmethod
    def of(cls, compactions: Sequence[records.Compaction]) -> Compactions:
        chain = layout.chain_in_effect(compactions)
        return cls(
            compactions=tuple(map(Compaction.of, compactions)),
            in_effect=tuple(each.id for each in chain),
            layout=Layout.of(chain),
        )


class Compacted(Shape, frozen=True, kw_only=True):
    compaction: Compaction | None
    """None when there was nothing to gain."""
