"""The fields of a point, named as the platform's indexes name them (IDX-025), and what is made of them.

There are two kinds of points. A chunk has vectors and its exact text. A file has neither: it says what
was indexed of a file, and its hash is written only after all of its chunks are.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from holdfast.retrieval.chunk import Chunk
from holdfast.retrieval.chunking import Piece
from holdfast.retrieval.vectors import ScoredPoint

KIND, REPOSITORY, PATH, LANGUAGE = "Kind", "Repo", "Path", "Language"
FILE_HASH, EMBEDDING_MODEL, ROOT = "FileHash", "EmbeddingModel", "Root"

CHUNK, FILE = "chunk", "file"

SOURCE_CODE = 2
"""The platform's number for this type of content."""

INDEXED_FIELDS = (KIND, REPOSITORY, PATH, LANGUAGE)
"""What is filtered by, besides the organization."""

_UNSLUGGED = re.compile(r"[^\w.]+")


def named(document: str, pieces: Iterable[Piece]) -> Iterator[tuple[str, dict[str, Any], Piece]]:
    """The pieces of a document, each with its semantic id and the fields that say which part it is.

    A piece is named after its symbol and not after its lines: what moves within a file keeps its id.
    """
    sections = [(_slug(piece.symbol or "body"), piece) for piece in pieces]
    totals = Counter(slug for slug, _ in sections)
    seen: Counter[str] = Counter()
    for slug, piece in sections:
        seen[slug] += 1
        semantic_id = f"{document}:sec:{slug}#p{seen[slug]}"
        yield (
            semantic_id,
            {
                "SemanticId": semantic_id,
                "SectionKey": piece.symbol or "body",
                "PartIndex": seen[slug],
                "PartTotal": totals[slug],
            },
            piece,
        )


def chunk_fields(piece: Piece) -> dict[str, Any]:
    fields = {
        KIND: CHUNK,
        "ContentTypeId": SOURCE_CODE,
        "StartLine": piece.start_line,
        "EndLine": piece.end_line,
        "Symbol": piece.symbol,
        "SymbolType": piece.symbol_type,
        "ContentHash": content_hash(piece.text),
        "Text": piece.text,
    }
    return {name: value for name, value in fields.items() if value is not None}


def content_hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def chunk_of(point: ScoredPoint) -> Chunk:
    fields = point.payload
    return Chunk(
        id=point.id,
        repository=fields[REPOSITORY],
        path=fields[PATH],
        language=fields[LANGUAGE],
        start_line=fields["StartLine"],
        end_line=fields["EndLine"],
        symbol=fields.get("Symbol"),
        symbol_type=fields.get("SymbolType"),
        text=fields["Text"],
        content_hash=fields["ContentHash"],
        score=point.score,
    )


def _slug(section: str) -> str:
    return _UNSLUGGED.sub("-", section.lower())
