"""The one way to the vectors: every call names an organization, and reaches nothing but what is its own.

A filter is put inside of ours, so nothing in it can widen the search. A point's id is made from the
organization and a name, so no name reaches another organization's point. How rare a term is, is counted
among the organization's own chunks, so not even a score tells of others.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any
from uuid import UUID, uuid5

import msgspec

from holdfast.model.text import label
from holdfast.retrieval.vectors import (
    Engine,
    Filter,
    HasId,
    Match,
    Point,
    Query,
    ScoredPoint,
    SparseVector,
)

NAMESPACE = UUID("5b0f9b1c-3f1e-5c0e-9d0a-6a1f8f0c7e21")

ORGANIZATION = "OrgId"

EVERYTHING = Filter()


class NamedPoint(msgspec.Struct, frozen=True, kw_only=True):
    """A point as its organization calls it."""

    name: str
    payload: dict[str, Any]
    bm25: SparseVector | None = None
    dense: Sequence[float] | None = None


class VectorIndex:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.close = engine.close

    async def upsert(self, organization: str, points: Iterable[NamedPoint]) -> None:
        """Write points; one of the same name is replaced. Acknowledged ones survive a killed process."""
        made = [
            Point(
                id=point_id(organization, point.name),
                payload=point.payload | {ORGANIZATION: organization},
                bm25=point.bm25,
                dense=point.dense,
            )
            for point in points
        ]
        collection = await self._engine.collection(organization, create=True)
        if collection is not None and made:
            await collection.upsert(made)

    async def delete(self, organization: str, wanted: Filter, *, keep: Iterable[str] = ()) -> None:
        """Delete what is wanted, except for the points with these names."""
        kept = HasId([point_id(organization, name) for name in keep])
        doomed = Filter(must=(_own(organization), wanted), must_not=(kept,) if kept.ids else ())
        collection = await self._engine.collection(organization, create=False)
        if collection is not None:
            await collection.delete(doomed)

    async def search(
        self, organization: str, query: Query, wanted: Filter = EVERYTHING, *, limit: int
    ) -> list[ScoredPoint]:
        own = _own(organization)
        collection = await self._engine.collection(organization, create=False)
        if collection is None:
            return []
        return await collection.search(query, Filter(must=(own, wanted)), Filter(must=(own,)), limit)

    async def scroll(self, organization: str, wanted: Filter, fields: Sequence[str]) -> list[dict[str, Any]]:
        own = Filter(must=(_own(organization), wanted))
        collection = await self._engine.collection(organization, create=False)
        return [] if collection is None else await collection.scroll(own, fields)

    async def count(self, organization: str, wanted: Filter = EVERYTHING) -> int:
        own = Filter(must=(_own(organization), wanted))
        collection = await self._engine.collection(organization, create=False)
        return 0 if collection is None else await collection.count(own)


@lru_cache(maxsize=64)
def namespace_of(organization: str) -> UUID:
    return uuid5(NAMESPACE, label(organization, "organization"))


def point_id(organization: str, name: str) -> str:
    """The same for the same name, so that writing a point again replaces it."""
    return str(uuid5(namespace_of(organization), name))


def _own(organization: str) -> Match:
    return Match(ORGANIZATION, [label(organization, "organization")])
