"""Indexing trees and searching them, for one process.

The index is opened by the first call that needs it and stays open until `close`, because only one process
may have the embedded one open at a time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from holdfast.errors import InvalidInput
from holdfast.model.text import label
from holdfast.retrieval.chunk import EVERYWHERE, LIMIT, Chunk, Found, Indexed, SearchFilter
from holdfast.retrieval.embeddings import Embedder
from holdfast.retrieval.errors import EmbeddingsFailed
from holdfast.retrieval.files import tree_of
from holdfast.retrieval.indexer import Indexer, Progress
from holdfast.retrieval.payload import chunk_of
from holdfast.retrieval.scope import Workspace, WorkspaceUnknown, filter_of
from holdfast.retrieval.terms import query_vector
from holdfast.retrieval.vector_index import VectorIndex
from holdfast.retrieval.vectors import Query

MOST = 100

CONSIDERED = 8000
"""Characters of a question that are searched for. More of them find nothing better."""

MAX_FILE_BYTES = 1024 * 1024

NOTHING_INDEXED = "Nothing is indexed here yet: run `holdfast index PATH`."


class Retrieval:
    def __init__(
        self,
        index: VectorIndex,
        *,
        version: str,
        embedder: Embedder | None = None,
        workspaces: Mapping[str, Workspace] | None = None,
        max_file_bytes: int = MAX_FILE_BYTES,
        serves: Callable[[str], bool] = lambda organization: True,
    ) -> None:
        """`serves` says whether an organization has repositories here. One that has none finds nothing."""
        self._serves = serves
        self._index = index
        self._version = version
        self._embedder = embedder
        self._workspaces = workspaces or {}
        self._max_file_bytes = max_file_bytes
        self._indexing = asyncio.Lock()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def search(
        self, organization: str, query: str, wanted: SearchFilter = EVERYWHERE, *, limit: int = LIMIT
    ) -> Found:
        """The chunks of an organization that are nearest to a question, and what should be known of them."""
        if not 1 <= limit <= MOST:
            raise InvalidInput(f"A search gives between 1 and {MOST} chunks, and not {limit}.")
        if not self._serves(organization):
            return Found(warnings=(NOTHING_INDEXED,))
        try:
            scope = filter_of(wanted, self._workspaces)
        except WorkspaceUnknown as unknown:
            return Found(warnings=(str(unknown),))
        considered = query[:CONSIDERED].encode(errors="replace").decode()
        question, warnings = await self._question(considered)
        if question is None:
            return Found(warnings=("There is no word in the question that could be searched for.",))
        points = await self._index.search(organization, question, scope, limit=min(MOST, max(12, 3 * limit)))
        if not points and not await self._index.count(organization):
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
            indexer = Indexer(
                self._index,
                organization,
                label(repository or tree.root.name or "root", "repository"),
                tree,
                version=self._version,
                embedder=self._embedder,
                max_file_bytes=self._max_file_bytes,
            )
            return await indexer.run(progress)

    async def close(self) -> None:
        if self._embedder is not None:
            await self._embedder.close()
        await self._index.close()

    async def _question(self, text: str) -> tuple[Query | None, tuple[str, ...]]:
        bm25 = query_vector(text)
        if self._embedder is not None and text.strip():
            try:
                return Query(bm25, (await self._embedder.embed([text]))[0]), ()
            except EmbeddingsFailed as error:
                return (Query(bm25) if bm25.indices else None), (f"{error} Searched by words only.",)
        return (Query(bm25) if bm25.indices else None), ()


def _diverse(chunks: Iterable[Chunk], limit: int) -> list[Chunk]:
    """The first so many, of which several parts of one symbol come after the best parts of others."""
    best: dict[tuple[str, str, str | None], Chunk] = {}
    others = []
    for chunk in chunks:
        place = (chunk.repository, chunk.path, chunk.symbol)
        if best.setdefault(place, chunk) is not chunk:
            others.append(chunk)
    return [*best.values(), *others][:limit]
