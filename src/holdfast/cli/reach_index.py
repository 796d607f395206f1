"""The index, as the command line reaches it.

Only one process may open the embedded index, and a running server is that process. Without one, the
command opens it itself.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Protocol

from holdfast.client import Client
from holdfast.config import Settings
from holdfast.model.principal import LOCAL
from holdfast.retrieval import Found, Indexed, Retrieval, SearchFilter, open_retrieval
from holdfast.retrieval.indexer import Progress


class Index(Protocol):
    async def search(self, query: str, wanted: SearchFilter, limit: int) -> Found: ...

    async def index(self, root: Path, repository: str | None, progress: Progress) -> Indexed: ...


@asynccontextmanager
async def reached_index(settings: Settings) -> AsyncIterator[Index]:
    if client := await Client.find(settings.data_dir):
        async with client:
            yield ServedIndex(client)
        return
    async with await open_retrieval(settings) as retrieval:
        yield OwnIndex(retrieval)


class ServedIndex:
    def __init__(self, client: Client) -> None:
        self._client = client

    async def search(self, query: str, wanted: SearchFilter, limit: int) -> Found:
        return await self._client.search(query, wanted, limit=limit)

    async def index(self, root: Path, repository: str | None, progress: Progress) -> Indexed:
        return await self._client.index(str(root), repository=repository, progress=progress)


class OwnIndex:
    def __init__(self, retrieval: Retrieval) -> None:
        self._retrieval = retrieval

    async def search(self, query: str, wanted: SearchFilter, limit: int) -> Found:
        return await self._retrieval.search(LOCAL.organization, query, wanted, limit=limit)

    async def index(self, root: Path, repository: str | None, progress: Progress) -> Indexed:
        return await self._retrieval.index(LOCAL.organization, root, repository=repository, progress=progress)
