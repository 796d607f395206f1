"""What retrieval takes and gives: chunks of indexed files, and which of them are wanted."""

from __future__ import annotations

import msgspec

from holdfast.model.turn import ChunkRef


class Chunk(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A piece of an indexed file, with its exact text.

    An id names a place (a symbol of a file), not a text: after the file has changed, the same id
    with another `content_hash` is another text.
    """

    id: str
    repository: str
    path: str
    """POSIX, relative to the repository."""
    language: str
    start_line: int
    """Lines count from 1; both ends belong to the chunk."""
    end_line: int
    symbol: str | None = None
    symbol_type: str | None = None
    text: str
    content_hash: str
    """SHA-256 of the text in UTF-8, as lower hex."""
    score: float
    """Greater is nearer, within one search."""

    @property
    def ref(self) -> ChunkRef:
        """What a turn records of it."""
        return ChunkRef(
            chunk_id=self.id,
            path=self.path,
            start_line=self.start_line,
            end_line=self.end_line,
            content_hash=self.content_hash,
        )


class SearchFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Every condition that is given must hold. The organization is not one of them: it always holds."""

    repository: str | None = None
    workspace: str | None = None
    """A name from `[retrieval.workspaces]`, which stands for repositories and paths."""
    language: str | None = None
    path: str | None = None
    """A file, or a directory with everything below it."""


EVERYWHERE = SearchFilter()

LIMIT = 8
"""How many chunks a search gives when it is not told."""


class Found(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What a search found."""

    chunks: tuple[Chunk, ...] = ()
    """The nearest first."""
    warnings: tuple[str, ...] = ()


class Indexed(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What one run over a tree found and did, in files unless it says otherwise."""

    repository: str
    files: int
    """All that the tree holds, without those that are ignored."""
    changed: int
    """New ones, and those whose content is not what it was."""
    unchanged: int
    removed: int
    skipped: int
    """Binary, too large, not readable, or with a name that is not text."""
    chunks: int
    """Chunks that were written."""
    bytes: int
    """Bytes of the files that were written."""
    warnings: tuple[str, ...] = ()
