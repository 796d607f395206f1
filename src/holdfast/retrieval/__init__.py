"""Finding the pieces of indexed files that matter to a question.

`files` says what a tree holds, `chunking` cuts it, `terms` and `embeddings` make vectors of the pieces,
`indexer` keeps an index equal to a tree, and `vector_index` is the only way to the vectors: Qdrant, in
this process (`edge`) or on a server (`served`).
"""

from __future__ import annotations

from holdfast.retrieval.chunk import Chunk, Found, Indexed, SearchFilter
from holdfast.retrieval.opening import open_retrieval
from holdfast.retrieval.retrieval import Retrieval

__all__ = ["Chunk", "Found", "Indexed", "Retrieval", "SearchFilter", "open_retrieval"]
