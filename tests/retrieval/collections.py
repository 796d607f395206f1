"""The two engines behind one port."""

import warnings
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from holdfast.retrieval.edge import open_edge
from holdfast.retrieval.served import opened_in
from holdfast.retrieval.vector_index import VectorIndex

ENGINES = ("edge", "server")


@asynccontextmanager
async def index_of(engine: str, home: Path, dimensions: int | None = None) -> AsyncIterator[VectorIndex]:
    """An empty index. The server's is that of qdrant-client itself, which takes the same calls."""
    if engine == "edge":
        collection = await open_edge(home / "index", "v1", dimensions, create=True)
        assert collection is not None
        yield VectorIndex(collection)
        await collection.close()
        return
    from qdrant_client import AsyncQdrantClient

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Payload indexes have no effect in the local Qdrant")
        client = AsyncQdrantClient(":memory:")
        served = await opened_in(client, "v1", dimensions, create=True)
    assert served is not None
    yield VectorIndex(served)
    await served.close()
