"""The two engines behind one port."""

import warnings
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from holdfast.retrieval.edge import EdgeEngine
from holdfast.retrieval.served import ServedEngine
from holdfast.retrieval.vector_index import VectorIndex

ENGINES = ("edge", "server")


@asynccontextmanager
async def index_of(engine: str, home: Path, dimensions: int | None = None) -> AsyncIterator[VectorIndex]:
    """An empty index. The server's is that of qdrant-client itself, which takes the same calls."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Payload indexes have no effect in the local Qdrant")
        if engine == "edge":
            index = VectorIndex(EdgeEngine(home / "index", "v1", dimensions))
        else:
            from qdrant_client import AsyncQdrantClient  # takes two seconds, of every worker

            index = VectorIndex(ServedEngine(lambda: AsyncQdrantClient(":memory:"), "v1", dimensions))
        yield index
        await index.close()
