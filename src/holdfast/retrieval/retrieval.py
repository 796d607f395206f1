"""Indexing trees and searching them, for one process.

The index is opened by the first call that needs it and stays open until `close`, because only one process
may have the embedded one open at a time.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path

from holdfast.errors import HoldfastError, InvalidInput
from holdfast.model.text import label
from holdfast.retrieval.chunk import Chunk, Found, Indexed, SearchFilter
from holdfast.retrieval.embeddings import Embedder
from holdfast.retrieval.errors import EmbeddingsFailed
from holdfast.retrieval.files import tree_of
from holdfast.retrieval.indexer import Indexer, Progress
from holdfast.retrieval.payload import chunk_of
from holdfast.retrieval.scope import Workspace, WorkspaceUnknown, filter_of
from holdfast.retrieval.terms import query_vector
from holdfast.retrieval.vector_index import VectorIndex
from holdfast.retrieval.vectors import Collection, Query

log = logging.getLogger("holdfast.retrieval")

LIMIT = 8
MOST = 100

CONSIDERED = 8000
"""Characters of a question that are searched for. More of them find nothing better."""

MAX_FILE_BYTES = 1024 * 1024

OPTIMIZED_AFTER = 5000
"""Chunks that are written before the index is tidied up again."""

EVERYWHERE = SearchFilter()

NOTHING_INDEXED = "Nothing is indexed here yet: run `holdfast index PATH`."

Opening = Callable[[bool], Awaitable[Collection | None]]
"""Opens the collection; None where there is none and none is to be made."""


class Retrieval:
    def __init__(
        self,
        opening: Opening,
        *,
        version: str,
        embedder: Embedder | None = None,
        workspaces: Mapping[str, Workspace] | None = None,
        max_file_bytes: int = MAX_FILE_BYTES,
    ) -> None:
        self._opening = opening
        self._version = version
        self._embedder = embedder
        self._workspaces = workspaces or {}
        self._max_file_bytes = max_file_bytes
        self._index: VectorIndex | None = None
        self._opened = asyncio.Lock()
        self._indexing = asyncio.Lock()
        self._written = 0
        self._optimizing: asyncio.Task[None] | None = None

    async def search(
        self, organization: str, query: str, wanted: SearchFilter = EVERYWHERE, *, limit: int = LIMIT
    ) -> Found:
        """The chunks of an organization that are nearest to a question, and what should be known of them."""
        if not 1 <= limit <= MOST:
            raise InvalidInput(f"A search gives between 1 and {MOST} chunks, and not {limit}.")
        index = await self._open(create=False)
        if index is None:
            return Found(warnings=(NOTHING_INDEXED,))
        try:
            scope = filter_of(wanted, self._workspaces)
        except WorkspaceUnknown as unknown:
            return Found(warnings=(str(unknown),))
        considered = query[:CONSIDERED].encode(errors="replace").decode()
        question, warnings = await self._question(considered)
        if question is None:
            return Found(warnings=("There is no word in the question that could be searched for.",))
        points = await index.search(organization, question, scope, limit=min(MOST, max(12, 3 * limit)))
        if not points and not await index.count(organization):
            warnings = (*warnings, NOTHING_INDEXED)
        return Found(chunks=tuple(_diverse(map(chunk_of, points), limit)), warnings=warnings)

    async def index(
        self,
        organization: str,
        root: Path,
        *,
        repository: str | None = None,
        progress: Progress = lambda done, total: None,
    ) -> Indexed:
        """Bring the index up to date with a directory. One tree is indexed at a time."""
        async with self._indexing:
            tree = await asyncio.to_thread(tree_of, root)
            index = await self._open(create=True)
            assert index is not None
            indexer = Indexer(
                index,
                organization,
                label(repository or tree.root.name or "root", "repository"),
                tree,
                version=self._version,
                embedder=self._embedder,
                max_file_bytes=self._max_file_bytes,
            )
            indexed = await indexer.run(progress)
            self._tidy(index, indexed.chunks)
            return indexed

    async def close(self) -> None:
        if self._optimizing is not None:
            await self._optimizing
        if self._embedder is not None:
            await self._embedder.close()
        if self._index is not None:
            await self._index.close()
            self._index = None

    async def _open(self, *, create: bool) -> VectorIndex | None:
        async with self._opened:
            if self._index is None:
                collection = await self._opening(create)
                self._index = None if collection is None else VectorIndex(collection)
            return self._index

    async def _question(self, text: str) -> tuple[Query | None, tuple[str, ...]]:
        bm25 = query_vector(text)
        if self._embedder is not None and text.strip():
            try:
                return Query(bm25, (await self._embedder.embed([text]))[0]), ()
            except EmbeddingsFailed as error:
                return (Query(bm25) if bm25.indices else None), (f"{error} Searched by words only.",)
        return (Query(bm25) if bm25.indices else None), ()

    def _tidy(self, index: VectorIndex, written: int) -> None:
        """After many writes, tidy up beside whatever else is done: nobody waits for it but `close`."""
        self._written += written
        running = self._optimizing is not None and not self._optimizing.done()
        if self._written >= OPTIMIZED_AFTER and not running:
            self._written = 0
            self._optimizing = asyncio.create_task(_optimize(index))


async def _optimize(index: VectorIndex) -> None:
    try:
        await index.optimize()
    except HoldfastError as error:
        log.warning("the index was not tidied up: %s", error)


def _diverse(chunks: Iterable[Chunk], limit: int) -> list[Chunk]:
    """The first so many, of which several parts of one symbol come after the best parts of others."""
    best: dict[tuple[str, str, str | None], Chunk] = {}
    others = []
    for chunk in chunks:
        place = (chunk.repository, chunk.path, chunk.symbol)
        if best.setdefault(place, chunk) is not chunk:
            others.append(chunk)
    return [*best.values(), *others][:limit]
