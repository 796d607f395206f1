"""The embedded engine: Qdrant's own code in this process (qdrant-edge), over one directory.

What an update has returned for is in a write-ahead log and survives a killed process; `flush` puts it on
disk. The engine works outside of Python's lock, on threads of its own and on ours.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from holdfast.errors import MissingExtra
from holdfast.retrieval.errors import IndexDamaged, IndexUnavailable
from holdfast.retrieval.ownership import Ownership
from holdfast.retrieval.payload import INDEXED_FIELDS, PATH
from holdfast.retrieval.vector_index import ORGANIZATION
from holdfast.retrieval.vectors import (
    BM25,
    DENSE,
    PAGE,
    PREFETCH,
    RRF_K,
    Condition,
    Filter,
    HasId,
    Match,
    MatchPrefix,
    Point,
    Query,
    ScoredPoint,
    SparseVector,
)

if TYPE_CHECKING:
    import qdrant_edge as qdrant

T = TypeVar("T")


async def open_edge(
    directory: Path, version: str, dimensions: int | None, *, create: bool
) -> EdgeCollection | None:
    """The collection of that version in a directory; None when there is none and none is to be made."""
    return await asyncio.to_thread(_open, directory, version, dimensions, create)


def _open(directory: Path, version: str, dimensions: int | None, create: bool) -> EdgeCollection | None:
    shard = directory / version
    if not create and not shard.is_dir():
        return None
    try:
        import qdrant_edge
    except ModuleNotFoundError:
        raise MissingExtra("The embedded index", "retrieval") from None
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    ownership = Ownership(directory)
    try:
        if not shard.is_dir():
            _make(shard, dimensions)
        return EdgeCollection(qdrant_edge.EdgeShard.load(str(shard)), ownership)
    except Exception as error:  # the engine knows one kind only
        ownership.release()
        raise IndexDamaged(shard, error) from error


def _make(shard: Path, dimensions: int | None) -> None:
    """Make a collection under another name first: one that has its own is whole."""
    import qdrant_edge as qdrant

    dense = {} if dimensions is None else {DENSE: qdrant.EdgeVectorParams(dimensions, qdrant.Distance.Cosine)}
    config = qdrant.EdgeConfig(
        vectors=dense, sparse_vectors={BM25: qdrant.EdgeSparseVectorParams(modifier=qdrant.Modifier.Idf)}
    )
    unfinished = shard.with_name(f"{shard.name}.new")
    if unfinished.exists():
        _remove(unfinished)
    made = qdrant.EdgeShard.create(str(unfinished), config)
    for field in (ORGANIZATION, *INDEXED_FIELDS):
        params = qdrant.KeywordIndexParams(is_tenant=field == ORGANIZATION, prefix=field == PATH)
        made.update(qdrant.UpdateOperation.create_field_index(field, params))
    made.flush()
    made.close()
    unfinished.rename(shard)


def _remove(directory: Path) -> None:
    for path in directory.iterdir():
        if path.is_dir():
            _remove(path)
        else:
            path.unlink()
    directory.rmdir()


class EdgeCollection:
    def __init__(self, shard: qdrant.EdgeShard, ownership: Ownership) -> None:
        self._shard = shard
        self._ownership = ownership

    async def upsert(self, points: Sequence[Point]) -> None:
        import qdrant_edge as qdrant

        def write() -> None:
            made = [qdrant.Point(point.id, _vectors(point), point.payload) for point in points]
            self._shard.update(qdrant.UpdateOperation.upsert_points(made))

        if points:
            await _done(write)

    async def delete(self, wanted: Filter) -> None:
        import qdrant_edge as qdrant

        operation = qdrant.UpdateOperation.delete_points_by_filter(_filter(wanted))
        await _done(lambda: self._shard.update(operation))

    async def search(self, query: Query, wanted: Filter, corpus: Filter, limit: int) -> list[ScoredPoint]:
        request = _request(query, _filter(wanted), _filter(corpus), limit)
        found = await _done(lambda: self._shard.query(request))
        return [ScoredPoint(str(point.id), point.payload or {}, point.score) for point in found]

    async def scroll(self, wanted: Filter, fields: Sequence[str]) -> list[dict[str, Any]]:
        import qdrant_edge as qdrant

        chosen, only = _filter(wanted), qdrant.PayloadSelector.Include(list(fields))

        def read() -> list[dict[str, Any]]:
            payloads: list[dict[str, Any]] = []
            offset = None
            while True:
                page, offset = self._shard.scroll(
                    qdrant.ScrollRequest(offset=offset, limit=PAGE, filter=chosen, with_payload=only)
                )
                payloads += [record.payload or {} for record in page]
                if offset is None:
                    return payloads

        return await _done(read)

    async def count(self, wanted: Filter) -> int:
        import qdrant_edge as qdrant

        request = qdrant.CountRequest(filter=_filter(wanted), exact=True)
        return await _done(lambda: self._shard.count(request))

    async def flush(self) -> None:
        await _done(self._shard.flush)

    async def optimize(self) -> None:
        await _done(self._shard.optimize)

    async def close(self) -> None:
        await _done(self._shard.close)
        self._ownership.release()


async def _done(action: Callable[[], T]) -> T:
    try:
        return await asyncio.to_thread(action)
    except Exception as error:  # the engine knows one kind only
        raise IndexUnavailable(f"The index could not do it: {error}.") from error


def _request(query: Query, wanted: qdrant.Filter, corpus: qdrant.Filter, limit: int) -> qdrant.QueryRequest:
    import qdrant_edge as qdrant

    rarity = qdrant.SearchParams(idf=qdrant.IdfParams(corpus=corpus))
    by_terms = qdrant.Query.Nearest(_sparse(query.bm25), using=BM25)
    if query.dense is None:
        return qdrant.QueryRequest(
            limit=limit, query=by_terms, filter=wanted, params=rarity, with_payload=True
        )
    by_meaning = qdrant.Query.Nearest(list(query.dense), using=DENSE)
    return qdrant.QueryRequest(
        limit=limit,
        query=qdrant.Fusion.Rrf(k=RRF_K),  # type: ignore[arg-type]  # its stubs do not know it as a Fusion
        prefetches=[
            qdrant.Prefetch(limit=max(limit, PREFETCH), query=by_terms, filter=wanted, params=rarity),
            qdrant.Prefetch(limit=max(limit, PREFETCH), query=by_meaning, filter=wanted),
        ],
        filter=wanted,
        with_payload=True,
    )


def _vectors(point: Point) -> dict[str, Any]:
    vectors: dict[str, Any] = {}
    if point.bm25 is not None:
        vectors[BM25] = _sparse(point.bm25)
    if point.dense is not None:
        vectors[DENSE] = list(point.dense)
    return vectors


def _sparse(vector: SparseVector) -> qdrant.SparseVector:
    import qdrant_edge as qdrant

    return qdrant.SparseVector(vector.indices, vector.values)


def _filter(wanted: Filter) -> qdrant.Filter:
    import qdrant_edge as qdrant

    return qdrant.Filter(
        must=[_condition(each) for each in wanted.must],
        should=[_condition(each) for each in wanted.should] or None,
        must_not=[_condition(each) for each in wanted.must_not],
    )


def _condition(condition: Condition) -> qdrant.FieldCondition | qdrant.HasIdCondition | qdrant.Filter:
    import qdrant_edge as qdrant

    match condition:
        case Match(key, values):
            return qdrant.FieldCondition(key, match=qdrant.MatchAny(list(values)))
        case MatchPrefix(key, prefix):
            return qdrant.FieldCondition(key, match=qdrant.MatchPrefix(prefix))
        case HasId(ids):
            return qdrant.HasIdCondition(set(ids))
        case Filter():
            return _filter(condition)
