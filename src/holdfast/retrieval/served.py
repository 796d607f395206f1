"""A Qdrant server or cluster, by its address (qdrant-client)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from holdfast.errors import MissingExtra
from holdfast.retrieval.errors import IndexUnavailable
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
    from qdrant_client import AsyncQdrantClient, models

T = TypeVar("T")

SECONDS = 30
"""How long an answer may take."""


class ServedEngine:
    """One collection for all organizations, as Qdrant advises; it knows each as a tenant."""

    def __init__(self, connect: Callable[[], AsyncQdrantClient], name: str, dimensions: int | None) -> None:
        self._connect = connect
        self._name = name
        self._dimensions = dimensions
        self._opening = asyncio.Lock()
        self._client: AsyncQdrantClient | None = None
        self._collection: ServedCollection | None = None

    async def collection(self, organization: str, *, create: bool) -> ServedCollection | None:
        async with self._opening:
            if self._collection is None:
                if self._client is None:
                    self._client = await asyncio.to_thread(self._connect)
                if not await _done(self._client.collection_exists(self._name)):
                    if not create:
                        return None
                    await _make(self._client, self._name, self._dimensions)
                self._collection = ServedCollection(self._client, self._name)
            return self._collection

    async def close(self) -> None:
        if self._client is not None:
            await _done(self._client.close())
            self._client = self._collection = None


def connected(url: str, key: str | None) -> AsyncQdrantClient:
    try:
        from qdrant_client import AsyncQdrantClient
    except ModuleNotFoundError:
        raise MissingExtra("An index on a Qdrant server", "qdrant") from None
    return AsyncQdrantClient(url=url, api_key=key, timeout=SECONDS, check_compatibility=False)


async def _make(client: AsyncQdrantClient, name: str, dimensions: int | None) -> None:
    from qdrant_client import models

    dense = {}
    if dimensions is not None:
        dense[DENSE] = models.VectorParams(size=dimensions, distance=models.Distance.COSINE)
    await _done(
        client.create_collection(
            name,
            vectors_config=dense,
            sparse_vectors_config={BM25: models.SparseVectorParams(modifier=models.Modifier.IDF)},
        )
    )
    for field in (ORGANIZATION, *INDEXED_FIELDS):
        schema = models.KeywordIndexParams(
            type=models.KeywordIndexType.KEYWORD, is_tenant=field == ORGANIZATION, prefix=field == PATH
        )
        await _done(client.create_payload_index(name, field, field_schema=schema, wait=True))


class ServedCollection:
    def __init__(self, client: AsyncQdrantClient, name: str) -> None:
        self._client = client
        self._name = name

    async def upsert(self, points: Sequence[Point]) -> None:
        from qdrant_client import models

        made = [
            models.PointStruct(id=point.id, vector=_vectors(point), payload=point.payload) for point in points
        ]
        if made:
            await _done(self._client.upsert(self._name, made, wait=True))

    async def delete(self, wanted: Filter) -> None:
        from qdrant_client import models

        selector = models.FilterSelector(filter=_filter(wanted))
        await _done(self._client.delete(self._name, selector, wait=True))

    async def search(self, query: Query, wanted: Filter, corpus: Filter, limit: int) -> list[ScoredPoint]:
        asked = _asked(query, _filter(wanted), _filter(corpus), limit)
        found = await _done(self._client.query_points(self._name, limit=limit, with_payload=True, **asked))
        return [ScoredPoint(str(point.id), point.payload or {}, point.score) for point in found.points]

    async def scroll(self, wanted: Filter, fields: Sequence[str]) -> list[dict[str, Any]]:
        payloads: list[dict[str, Any]] = []
        offset = None
        while True:
            page, offset = await _done(
                self._client.scroll(
                    self._name, _filter(wanted), limit=PAGE, offset=offset, with_payload=list(fields)
                )
            )
            payloads += [record.payload or {} for record in page]
            if offset is None:
                return payloads

    async def count(self, wanted: Filter) -> int:
        return (await _done(self._client.count(self._name, _filter(wanted), exact=True))).count


async def _done(call: Awaitable[T]) -> T:
    from httpx import HTTPError
    from qdrant_client.http.exceptions import ApiException

    try:
        return await call
    except (ApiException, HTTPError, OSError) as error:
        raise IndexUnavailable(f"The Qdrant server did not do it: {error}.") from error


def _asked(query: Query, wanted: models.Filter, corpus: models.Filter, limit: int) -> dict[str, Any]:
    from qdrant_client import models

    rarity = models.SearchParams(idf=models.IdfCorpusParams(corpus=corpus))
    by_terms = _sparse(query.bm25)
    if query.dense is None:
        return {"query": by_terms, "using": BM25, "query_filter": wanted, "search_params": rarity}
    prefetch = [
        models.Prefetch(query=by_terms, using=BM25, filter=wanted, params=rarity, limit=max(limit, PREFETCH)),
        models.Prefetch(query=list(query.dense), using=DENSE, filter=wanted, limit=max(limit, PREFETCH)),
    ]
    return {
        "prefetch": prefetch,
        "query": models.RrfQuery(rrf=models.Rrf(k=RRF_K)),
        "query_filter": wanted,
    }


def _vectors(point: Point) -> dict[str, Any]:
    vectors: dict[str, Any] = {}
    if point.bm25 is not None:
        vectors[BM25] = _sparse(point.bm25)
    if point.dense is not None:
        vectors[DENSE] = list(point.dense)
    return vectors


def _sparse(vector: SparseVector) -> models.SparseVector:
    from qdrant_client import models

    return models.SparseVector(indices=vector.indices, values=vector.values)


def _filter(wanted: Filter) -> models.Filter:
    from qdrant_client import models

    return models.Filter(
        must=[_condition(each) for each in wanted.must],
        should=[_condition(each) for each in wanted.should] or None,
        must_not=[_condition(each) for each in wanted.must_not],
    )


def _condition(condition: Condition) -> models.Condition:
    from qdrant_client import models

    match condition:
        case Match(key, values):
            return models.FieldCondition(key=key, match=models.MatchAny(any=list(values)))
        case MatchPrefix(key, prefix):
            return models.FieldCondition(key=key, match=models.MatchPrefix(prefix=prefix))
        case HasId(ids):
            return models.HasIdCondition(has_id=list(ids))
        case Filter():
            return _filter(condition)
