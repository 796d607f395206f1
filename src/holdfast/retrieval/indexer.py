"""Bringing an index up to date with a tree: what changed is written, what is gone is deleted, no more.

The index itself remembers each file by a point of its own. That point loses its hash before the file's
chunks are touched and gets it back when all of them are written, so a run that was interrupted at any
moment leaves nothing that the next one does not finish.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from holdfast.model.times import iso
from holdfast.retrieval import payload
from holdfast.retrieval.chunk import Indexed
from holdfast.retrieval.chunking import pieces
from holdfast.retrieval.embeddings import Embedder
from holdfast.retrieval.errors import EmbeddingsFailed, RepositoryElsewhere
from holdfast.retrieval.files import Tree, paths_in, read, text_of
from holdfast.retrieval.languages import language_of
from holdfast.retrieval.terms import document_vector
from holdfast.retrieval.vector_index import NamedPoint, VectorIndex, point_id
from holdfast.retrieval.vectors import Filter, Match

CHUNKS_AT_ONCE = 1000
FILES_AT_ONCE = 500
"""How many chunks are written, and how many files are looked at, before the next are."""

Progress: TypeAlias = Callable[[int, int], None]
"""Told how many files of how many have been looked at."""


class _Known(msgspec.Struct, frozen=True):
    """What the index says of a file."""

    hash: str | None
    """None while its chunks are being written, or when that was interrupted."""
    model: str | None
    root: str


class _File(msgspec.Struct, frozen=True):
    """A file whose chunks are to be written."""

    path: str
    hash: str
    size: int
    chunks: list[NamedPoint]


class _Batch(msgspec.Struct):
    looked_at: int = 0
    skipped: int = 0
    unchanged: list[str] = []
    files: list[_File] = []


class Indexer:
    """One run of one repository."""

    def __init__(
        self,
        index: VectorIndex,
        organization: str,
        repository: str,
        tree: Tree,
        *,
        version: str,
        embedder: Embedder | None,
        max_file_bytes: int,
    ) -> None:
        self._index = index
        self._organization = organization
        self._repository = repository
        self._tree = tree
        self._version = version
        self._embedder = embedder
        self._max_file_bytes = max_file_bytes
        self._own = Match(payload.REPOSITORY, [repository])
        self._warnings: list[str] = []

    async def run(self, progress: Progress) -> Indexed:
        everywhere = await self._known()
        self._check_root(everywhere)
        part = f"{self._tree.within}/" if self._tree.within else ""
        known = {path: each for path, each in everywhere.items() if f"{path}/".startswith(part)}
        paths = await asyncio.to_thread(paths_in, self._tree)
        gone = set(known)
        looked_at = changed = unchanged = skipped = chunks = size = 0
        remaining = iter(paths)
        # One after the other: cutting and writing both hold Python's lock, and would only wait for it.
        while (batch := await asyncio.to_thread(self._next, remaining, known)).looked_at:
            await self._write(batch.files, known)
            looked_at += batch.looked_at
            changed += len(batch.files)
            unchanged += len(batch.unchanged)
            skipped += batch.skipped
            chunks += sum(len(file.chunks) for file in batch.files)
            size += sum(file.size for file in batch.files)
            gone.difference_update(batch.unchanged, (file.path for file in batch.files))
            progress(looked_at, len(paths))
        await self._delete(sorted(gone))
        return Indexed(
            repository=self._repository,
            files=len(paths),
            changed=changed,
            unchanged=unchanged,
            removed=len(gone),
            skipped=skipped,
            chunks=chunks,
            bytes=size,
            warnings=tuple(self._warnings),
        )

    async def _known(self) -> dict[str, _Known]:
        """Of all the repository, also when only a part of it is meant."""
        files = Filter(must=(self._own, Match(payload.KIND, [payload.FILE])))
        fields = (payload.PATH, payload.FILE_HASH, payload.EMBEDDING_MODEL, payload.ROOT)
        return {
            each[payload.PATH]: _Known(
                each.get(payload.FILE_HASH), each.get(payload.EMBEDDING_MODEL), each[payload.ROOT]
            )
            for each in await self._index.scroll(self._organization, files, fields)
        }

    def _check_root(self, known: Mapping[str, _Known]) -> None:
        """Two repositories of one name would take turns in deleting each other's chunks."""
        for root in {each.root for each in known.values()} - {str(self._tree.root)}:
            if Path(root).is_dir():
                raise RepositoryElsewhere(self._repository, root, self._tree.root)

    def _next(self, paths: Iterator[str], known: Mapping[str, _Known]) -> _Batch:
        """Look at the next files, until there is enough to write."""
        batch = _Batch()
        chunks = 0
        root = os.open(self._tree.root, os.O_RDONLY | os.O_DIRECTORY)
        try:
            for path in islice(paths, FILES_AT_ONCE):
                batch.looked_at += 1
                data = read(root, path, self._max_file_bytes)
                text = None if data is None else text_of(data)
                if data is None or text is None:
                    batch.skipped += 1
                    continue
                digest = hashlib.sha256(data).hexdigest()
                if self._is_current(known.get(path), digest):
                    batch.unchanged.append(path)
                    continue
                file = _File(path, digest, len(data), list(self._chunks(path, text)))
                batch.files.append(file)
                chunks += len(file.chunks)
                if chunks >= CHUNKS_AT_ONCE:
                    break
        finally:
            os.close(root)
        return batch

    def _is_current(self, known: _Known | None, digest: str) -> bool:
        if known is None or known.hash != digest:
            return False
        return self._embedder is None or known.model == self._embedder.model

    def _chunks(self, path: str, text: str) -> Iterator[NamedPoint]:
        language = language_of(path)
        document = point_id(self._organization, self._document(path))
        shared = self._fields(path) | {payload.LANGUAGE: language, "DocId": document}
        for name, part, piece in payload.named(document, pieces(text, language)):
            yield NamedPoint(
                name=name,
                payload=shared | part | payload.chunk_fields(piece),
                bm25=document_vector(path, piece.symbol, piece.text),
            )

    async def _write(self, files: Sequence[_File], known: Mapping[str, _Known]) -> None:
        if not files:
            return
        await self._remember(files, model=None, done=False)
        chunks = [chunk for file in files for chunk in file.chunks]
        embedded, model = await self._embedded(chunks)
        await self._index.upsert(self._organization, embedded)
        if replaced := [file.path for file in files if file.path in known]:
            old = Filter(
                must=(self._own, Match(payload.KIND, [payload.CHUNK]), Match(payload.PATH, replaced))
            )
            await self._index.delete(self._organization, old, keep=(chunk.name for chunk in chunks))
        await self._remember(files, model=model, done=True)

    async def _remember(self, files: Sequence[_File], *, model: str | None, done: bool) -> None:
        """Write the points of the files themselves: that they are being indexed, or that they are."""
        points = []
        for file in files:
            name = self._document(file.path)
            fields = self._fields(file.path) | {
                payload.KIND: payload.FILE,
                payload.ROOT: str(self._tree.root),
            }
            if done:
                fields[payload.FILE_HASH] = file.hash
            if model is not None:
                fields[payload.EMBEDDING_MODEL] = model
            points.append(NamedPoint(name=name, payload=fields))
        await self._index.upsert(self._organization, points)

    async def _embedded(self, chunks: list[NamedPoint]) -> tuple[list[NamedPoint], str | None]:
        """The chunks with their dense vectors, and the model those come from, if there are any.

        Without them a chunk is found by its words, and the next run tries again.
        """
        if self._embedder is None:
            return chunks, None
        texts = ["\n".join((each.payload[payload.PATH], each.payload["Text"])) for each in chunks]
        try:
            vectors = await self._embedder.embed(texts)
        except EmbeddingsFailed as error:
            self._embedder = None
            self._warnings.append(f"{error} What follows is found by its words only, until you index again.")
            return chunks, None
        model = self._embedder.model
        return [
            NamedPoint(
                name=chunk.name,
                payload=chunk.payload | {payload.EMBEDDING_MODEL: model},
                bm25=chunk.bm25,
                dense=vector,
            )
            for chunk, vector in zip(chunks, vectors, strict=True)
        ], model

    async def _delete(self, paths: Sequence[str]) -> None:
        for start in range(0, len(paths), FILES_AT_ONCE):
            some = Match(payload.PATH, paths[start : start + FILES_AT_ONCE])
            await self._index.delete(self._organization, Filter(must=(self._own, some)))

    def _document(self, path: str) -> str:
        return f"{self._repository}\0{path}"

    def _fields(self, path: str) -> dict[str, Any]:
        fields = {
            "ProjectId": self._repository,
            payload.REPOSITORY: self._repository,
            "RepoBranch": self._tree.branch,
            "CommitSha": self._tree.commit,
            payload.PATH: path,
            "IndexVersion": self._version,
            "IndexedUtc": iso(datetime.now(UTC)),
        }
        return {name: value for name, value in fields.items() if value is not None}
