"""The embedded engine: Qdrant's own code in this process (qdrant-edge), over one directory.

Every organization has a collection of its own, because to count how rare a word is among some of a
collection's points costs ten times as much as the search itself. What an update has returned for is in a
write-ahead log and survives a killed process.

The engine holds Python's lock while it works. So points are written a few at a time, and its optimizer is
never run: it stops the process for minutes, and below the size at which it would build a graph
(`FULL_SCAN_KILOBYTES`) searches are not faster for it.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from holdfast.errors import MissingExtra
from holdfast.retrieval.errors import IndexDamaged, IndexFull, IndexUnavailable
from holdfast.retrieval.ownership import Ownership
from holdfast.retrieval.payload import INDEXED_FIELDS, PATH
from holdfast.retrieval.vector_index import ORGANIZATION, namespace_of
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

AT_ONCE = 200
"""How many points are written at a time: some 20 ms during which nothing else runs."""

FLUSHED_AFTER = 5000
"""Points that are written before the log is folded into the collection's files."""

SPARE_BYTES = 64 << 20
"""How much of the disk must be left before anything is written. The engine writes to files that are mapped
into memory: where the disk is full, the system ends the process for it (SIGBUS), and nobody is told why."""

TIMES_WRITTEN = 4
"""How often what is indexed goes to the disk, at most: to the log, the payload and the vectors."""

FULL_SCAN_KILOBYTES = 4_000_000
"""Up to how many vectors are compared one by one."""


class EdgeEngine:
    """The collections of one version, of which this process is the only owner once it has opened one."""

    def __init__(self, directory: Path, version: str, dimensions: int | None) -> None:
        self._directory = directory
        self._version = directory / version
        self._dimensions = dimensions
        self._opening = asyncio.Lock()
        self._ownership: Ownership | None = None
        self._collections: dict[str, EdgeCollection] = {}

    async def collection(self, organization: str, *, create: bool) -> EdgeCollection | None:
        async with self._opening:
            if organization not in self._collections:
                shard = self._version / str(namespace_of(organization))
                if not create and not await asyncio.to_thread(shard.is_dir):
                    return None
                opening = asyncio.create_task(asyncio.to_thread(self._open, shard))
                try:
                    await asyncio.shield(opening)
                finally:  # whoever does not wait any longer leaves it open for the next
                    self._collections[organization] = await opening
            return self._collections[organization]

    async def close(self) -> None:
        async with self._opening:
            while self._collections:
                _, collection = self._collections.popitem()
                await collection.close()
            if self._ownership is not None:
                self._ownership.release()
                self._ownership = None

    def _open(self, shard: Path) -> EdgeCollection:
        try:
            from qdrant_edge import EdgeShard
        except ModuleNotFoundError:
            raise MissingExtra("The embedded index", "retrieval") from None
        self._version.mkdir(parents=True, exist_ok=True, mode=0o700)
        if self._ownership is None:
            self._ownership = Ownership(self._directory)
        if not shard.is_dir():
            _require_space(self._version, 0)
            try:
                _make(shard, self._dimensions)
            except Exception as error:  # the engine knows one kind only
                raise IndexUnavailable(f"No index can be made in {shard}: {error}.") from error
        try:
            return EdgeCollection(EdgeShard.load(str(shard)), shard)
        except Exception as error:
            raise IndexDamaged(shard, error) from error


def _make(shard: Path, dimensions: int | None) -> None:
    """Make a collection under another name first: one that has its own is whole."""
    import qdrant_edge as qdrant

    dense = {} if dimensions is None else {DENSE: qdrant.EdgeVectorParams(dimensions, qdrant.Distance.Cosine)}
    config = qdrant.EdgeConfig(
        vectors=dense,
        sparse_vectors={BM25: qdrant.EdgeSparseVectorParams(modifier=qdrant.Modifier.Idf)},
        optimizers=qdrant.EdgeOptimizersConfig(indexing_threshold=FULL_SCAN_KILOBYTES),
    )
    unfinished = shard.with_name(f"{shard.name}.new")
    if unfinished.exists():
        shutil.rmtree(unfinished)
    made = qdrant.EdgeShard.create(str(unfinished), config)
    for field in (ORGANIZATION, *INDEXED_FIELDS):
        params = qdrant.KeywordIndexParams(is_tenant=field == ORGANIZATION, prefix=field == PATH)
        made.update(qdrant.UpdateOperation.create_field_index(field, params))
    made.flush()
    made.close()
    unfinished.rename(shard)


def _require_space(directory: Path, written: int) -> None:
    needed = SPARE_BYTES + TIMES_WRITTEN * written
    if shutil.disk_usage(directory).free < needed:
        raise IndexFull(directory, needed)


class EdgeCollection:
    def __init__(self, shard: qdrant.EdgeShard, directory: Path) -> None:
        self._shard = shard
        self._directory = directory
        self._unflushed = 0

    async def upsert(self, points: Sequence[Point]) -> None:
        import qdrant_edge as qdrant

        def write(some: Sequence[Point]) -> None:
            _require_space(self._directory, sum(map(_size, some)))
            made = [qdrant.Point(point.id, _vectors(point), point.payload) for point in some]
            self._shard.update(qdrant.UpdateOperation.upsert_points(made))

        for start in range(0, len(points), AT_ONCE):
            await _done(partial(write, points[start : start + AT_ONCE]))
        self._unflushed += len(points)
        if self._unflushed >= FLUSHED_AFTER:
            self._unflushed = 0
            await _done(self._shard.flush)

    async def delete(self, wanted: Filter) -> None:
        import qdrant_edge as qdrant

        operation = qdrant.UpdateOperation.delete_points_by_filter(_filter(wanted))

        def delete() -> None:
            _require_space(self._directory, 0)
            self._shard.update(operation)

        await _done(delete)

    async def search(self, query: Query, wanted: Filter, corpus: Filter, limit: int) -> list[ScoredPoint]:
        """The collection is one organization's, and so all of it is the corpus."""
        request = _request(query, _filter(wanted), limit)
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

    async def close(self) -> None:
        await _done(self._shard.flush)
        await _done(self._shard.close)


async def _done(action: Callable[[], T]) -> T:
    try:
        return await asyncio.to_thread(action)
    except IndexFull:
        raise
    except Exception as error:  # the engine knows one kind only
        raise IndexUnavailable(f"The index could not do it: {error}.") from error


def _size(point: Point) -> int:
    """About how many bytes a point has."""
    numbers = 2 * len(point.bm25.indices) if point.bm25 else 0
    return len(msgspec.json.encode(point.payload)) + 4 * (numbers + len(point.dense or ()))


def _request(query: Query, wanted: qdrant.Filter, limit: int) -> qdrant.QueryRequest:
    import qdrant_edge as qdrant

    by_terms = qdrant.Query.Nearest(_sparse(query.bm25), using=BM25)
    if query.dense is None:
        return qdrant.QueryRequest(limit=limit, query=by_terms, filter=wanted, with_payload=True)
    by_meaning = qdrant.Query.Nearest(list(query.dense), using=DENSE)
    return qdrant.QueryRequest(
        limit=limit,
        query=qdrant.Fusion.Rrf(k=RRF_K),  # type: ignore[arg-type]  # its stubs do not know it as a Fusion
        prefetches=[
            qdrant.Prefetch(limit=max(limit, PREFETCH), query=by_terms, filter=wanted),
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
