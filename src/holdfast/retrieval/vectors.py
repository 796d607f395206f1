"""A vector index in Qdrant's words: points with named vectors, filters, and one search over both kinds.

`Engine` and `Collection` are what an engine must do. `VectorIndex`, which adds the organization to
everything, is the only one that calls them.
"""

from __future__ import annotations

from collections.abc import Collection as CollectionOf
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias

import msgspec

DENSE, BM25 = "dense", "bm25"
"""The names of the vectors."""

PREFETCH = 50
"""How many points each kind of vector brings into the fusion, at least."""

RRF_K = 60
"""How little the first ranks are favoured when two rankings are fused."""

PAGE = 1000
"""How many points are read at a time when all of a filter are."""


class SparseVector(NamedTuple):
    indices: list[int]
    values: list[float]


class Point(msgspec.Struct, frozen=True):
    id: str
    """A UUID."""
    payload: dict[str, Any]
    bm25: SparseVector | None = None
    dense: Sequence[float] | None = None


class Match(msgspec.Struct, frozen=True):
    """The field is one of these values."""

    key: str
    values: CollectionOf[str]


class MatchPrefix(msgspec.Struct, frozen=True):
    key: str
    prefix: str


class HasId(msgspec.Struct, frozen=True):
    ids: CollectionOf[str]


class Filter(msgspec.Struct, frozen=True):
    """All of `must`, at least one of `should` if there are any, and none of `must_not`."""

    must: tuple[Condition, ...] = ()
    should: tuple[Condition, ...] = ()
    must_not: tuple[Condition, ...] = ()


Condition: TypeAlias = Match | MatchPrefix | HasId | Filter


class Query(msgspec.Struct, frozen=True):
    bm25: SparseVector
    dense: Sequence[float] | None = None
    """With it, both rankings are fused by their ranks."""


class ScoredPoint(msgspec.Struct, frozen=True):
    id: str
    payload: dict[str, Any]
    score: float


class Collection(Protocol):
    async def upsert(self, points: Sequence[Point]) -> None:
        """Write points. Once this returns, they are not lost when the process is killed."""

    async def delete(self, wanted: Filter) -> None: ...

    async def search(self, query: Query, wanted: Filter, corpus: Filter, limit: int) -> list[ScoredPoint]:
        """The nearest points; how rare a term is, is counted among those of `corpus`."""

    async def scroll(self, wanted: Filter, fields: Sequence[str]) -> list[dict[str, Any]]:
        """These fields of the payloads of all points that are wanted."""

    async def count(self, wanted: Filter) -> int: ...


class Engine(Protocol):
    async def collection(self, organization: str, *, create: bool) -> Collection | None:
        """Where an organization's points are, with or without those of others; None where there is nothing
        yet and nothing is to be made."""

    async def close(self) -> None: ...
