"""Sets of sequence numbers, as the fewest ranges that hold them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from itertools import chain
from typing import TypeAlias

Ranges: TypeAlias = tuple[tuple[int, int], ...]
"""First and last of each, in order; between two of them is always a gap."""


def ranges_of(seqs: Iterable[int]) -> Ranges:
    return union((seq, seq) for seq in seqs)


def union(*many: Iterable[tuple[int, int]]) -> Ranges:
    ordered = sorted(chain.from_iterable(many))
    if not ordered:
        return ()
    joined: list[tuple[int, int]] = []
    begin, end = ordered[0]
    for first, last in ordered:
        if first > end + 1:
            joined.append((begin, end))
            begin, end = first, last
        elif last > end:
            end = last
    return (*joined, (begin, end))


def without(whole: Ranges, taken: Ranges) -> Ranges:
    """What of `whole` is not in `taken`."""
    rest: list[tuple[int, int]] = []
    for first, last in whole:
        for gone_first, gone_last in taken[_at(taken, first) :]:
            if gone_first > last:
                break
            if first < gone_first:
                rest.append((first, gone_first - 1))
            first = max(first, gone_last + 1)
        if first <= last:
            rest.append((first, last))
    return tuple(rest)


def covers(outer: Ranges, inner: Ranges) -> bool:
    return not without(inner, outer)


def overlap(one: Ranges, other: Ranges) -> bool:
    return size(without(one, other)) < size(one)


def contains(ranges: Ranges, seq: int) -> bool:
    at = _at(ranges, seq)
    return at < len(ranges) and ranges[at][0] <= seq <= ranges[at][1]


def size(ranges: Ranges) -> int:
    return sum(last - first + 1 for first, last in ranges)


def _at(ranges: Ranges, seq: int) -> int:
    """The index of the first range that may reach `seq`."""
    return max(0, bisect_right(ranges, (seq, float("inf"))) - 1)
