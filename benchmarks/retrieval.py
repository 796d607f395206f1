"""Retrieval: how good its answers are without a model, how soon they come, and what indexing costs.

The floor is what Python brings along: SQLite's full-text search (FTS5, Porter stemming) over the same
chunks, and for a tree in which nothing changed, reading and hashing its files.
"""

from __future__ import annotations

import hashlib
import itertools
import random
import re
import shutil
import subprocess
import sysconfig
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import apsw

from benchmarks.measure import Result, Run, Spread, Suite, blocking_latencies, latencies
from holdfast.config import Settings
from holdfast.retrieval import Retrieval, SearchFilter, open_retrieval
from holdfast.retrieval.chunking import Piece, pieces
from holdfast.retrieval.edge import EdgeEngine
from holdfast.retrieval.files import paths_in, tree_of
from holdfast.retrieval.payload import LANGUAGE, PATH, REPOSITORY, chunk_fields
from holdfast.retrieval.terms import document_vector
from holdfast.retrieval.vector_index import NamedPoint, VectorIndex
from tests.retrieval.questions import AT, packages_in, questions

ORGANIZATION = "bench"
REPOSITORIES = 10
SEARCHES = 30
FLOOR_SEARCHES = 5
"""Fewer, because each takes a hundred times as long."""


async def quality(run: Run) -> list[Result]:
    """Quality: fixed questions about two packages, answered by one of the first five chunks."""
    root = packages_in(run.directory / "packages")
    async with await _opened(run) as retrieval:
        await retrieval.index(ORGANIZATION, root)
        floor = _FullText([(REPOSITORY, path, piece) for path, piece in _pieces_of(root)])
        results = []
        for kind, at_least in (("paraphrased", 0.8), ("identifiers", 1.0)):
            asked = questions(kind)
            ours = theirs = 0
            for question in asked:
                chunks = (await retrieval.search(ORGANIZATION, question.ask, limit=AT)).chunks
                ours += any(chunk.symbol in question.symbols for chunk in chunks)
                theirs += any(symbol in question.symbols for symbol in floor.search(question.ask, AT))
            share = ours / len(asked)
            results.append(
                Result(
                    "quality",
                    f"{len(asked)} questions ({kind}) answered in the first {AT} chunks",
                    f"{share:.2f}",
                    f"{theirs / len(asked):.2f}",
                    Spread(share, share, share),
                    unit="",
                    at_least=at_least,
                )
            )
        return results


async def searching(run: Run) -> list[Result]:
    """Search: a question in one repository of ten, over 100,000 chunks."""
    count = run.size(100_000, 2_000)
    chunks = list(_many_chunks(count))
    index = VectorIndex(EdgeEngine(run.directory / "index", "bench", None))
    for start in range(0, count, 1000):
        some = [_point(*chunk) for chunk in chunks[start : start + 1000]]
        await index.upsert(ORGANIZATION, some)
    floor = _FullText(chunks)
    wanted = SearchFilter(repository="repository-3", language="python")
    asked = [question.ask for question in questions("paraphrased")]
    retrieval = Retrieval(index, version="bench")
    ours, theirs = itertools.cycle(asked), itertools.cycle(asked)

    async def search() -> object:
        return await retrieval.search(ORGANIZATION, next(ours), wanted)

    taken = await run.p50(
        {
            "ours": partial(latencies, search, SEARCHES),
            "floor": partial(
                blocking_latencies, lambda: floor.search(next(theirs), 8, "repository-3"), FLOOR_SEARCHES
            ),
        },
        rounds=1,
    )
    await retrieval.close()
    mine, least = (Spread.of([value * 1000 for value in taken[name]]) for name in ("ours", "floor"))
    return [
        Result(
            "search",
            f"a question in one repository of {REPOSITORIES}, {count:,} chunks (p50)",
            f"{mine.median:.1f} ms",
            f"{least.median:.1f} ms",
            mine,
            unit=" ms",
            at_most=10,
        )
    ]


async def indexing(run: Run) -> list[Result]:
    """Indexing: source that was never indexed before."""
    root = _source(run.directory / "source", run.size(5_000_000, 200_000))
    megabytes = sum(path.stat().st_size for path in root.rglob("*.py")) / 1e6
    number = itertools.count()

    async def ours() -> float:
        async with await open_retrieval(Settings(data_dir=run.directory / f"data-{next(number)}")) as fresh:
            began = time.perf_counter()
            await fresh.index(ORGANIZATION, root)
            return megabytes / (time.perf_counter() - began)

    async def floor() -> float:
        began = time.perf_counter()
        _FullText([(REPOSITORY, path, piece) for path, piece in _pieces_of(root)])
        return megabytes / (time.perf_counter() - began)

    taken = await run.interleaved({"ours": ours, "floor": floor}, repetitions=run.size(5, 1))
    mine, theirs = Spread.of(taken["ours"]), Spread.of(taken["floor"])
    return [
        Result(
            "indexing",
            f"{megabytes:.1f} MB of Python source",
            f"{mine.median:.1f} MB/s",
            f"{theirs.median:.1f} MB/s",
            mine,
            unit=" MB/s",
            at_least=2,
        )
    ]


async def unchanged(run: Run) -> list[Result]:
    """Unchanged: indexing a tree again in which nothing has changed."""
    count = run.size(10_000, 300)
    root = _repository(run.directory / "tree", count)

    async with await _opened(run) as retrieval:
        await retrieval.index(ORGANIZATION, root)

        async def ours() -> float:
            began = time.perf_counter()
            again = await retrieval.index(ORGANIZATION, root)
            assert (again.unchanged, again.chunks) == (count, 0)
            return time.perf_counter() - began

        async def floor() -> float:
            began = time.perf_counter()
            for path in paths_in(tree_of(root)):
                hashlib.sha256((root / path).read_bytes()).hexdigest()
            return time.perf_counter() - began

        taken = await run.interleaved({"ours": ours, "floor": floor})
    mine, least = Spread.of(taken["ours"]), Spread.of(taken["floor"])
    return [
        Result(
            "unchanged",
            f"a tree of {count:,} files in which nothing changed",
            f"{mine.median:.2f} s",
            f"{least.median:.2f} s",
            mine,
            unit=" s",
            at_most=3,
        )
    ]


async def _opened(run: Run) -> Retrieval:
    return await open_retrieval(Settings(data_dir=run.directory / "data"))


class _FullText:
    """The chunks in a table of FTS5, ranked by its BM25."""

    def __init__(self, chunks: Sequence[tuple[str, str, Piece]]) -> None:
        self._connection = apsw.Connection(":memory:")
        self._connection.execute(
            "CREATE VIRTUAL TABLE chunks USING fts5"
            "(repository UNINDEXED, symbol UNINDEXED, body, tokenize = 'porter unicode61')"
        )
        with self._connection:
            self._connection.executemany(
                "INSERT INTO chunks VALUES (?, ?, ?)",
                ((name, piece.symbol, f"{path} {piece.symbol} {piece.text}") for name, path, piece in chunks),
            )

    def search(self, question: str, limit: int, repository: str = REPOSITORY) -> list[str | None]:
        words = " OR ".join(f'"{word}"' for word in re.findall(r"\w+", question))
        return [
            symbol
            for (symbol,) in self._connection.execute(
                "SELECT symbol FROM chunks WHERE chunks MATCH ? AND repository = ? ORDER BY rank LIMIT ?",
                (words, repository, limit),
            )
        ]


def _pieces_of(root: Path) -> Iterator[tuple[str, Piece]]:
    for path in sorted(root.rglob("*.py")):
        for piece in pieces(path.read_text(errors="replace"), "python"):
            yield path.relative_to(root).as_posix(), piece


def _many_chunks(count: int) -> Iterator[tuple[str, str, Piece]]:
    """The standard library's chunks, again and again, in repositories by turns."""
    found = list(itertools.islice(_pieces_of(Path(sysconfig.get_path("stdlib"))), 25_000))
    for number in range(count):
        path, piece = found[number % len(found)]
        yield f"repository-{number % REPOSITORIES}", f"{number // len(found)}/{path}", piece


def _point(repository: str, path: str, piece: Piece) -> NamedPoint:
    return NamedPoint(
        name=f"{repository}\0{path}\0{piece.start_line}",
        payload=chunk_fields(piece) | {REPOSITORY: repository, PATH: path, LANGUAGE: "python"},
        bm25=document_vector(path, piece.symbol, piece.text),
    )


def _source(directory: Path, size: int) -> Path:
    """Modules of the standard library, so many bytes of them."""
    library = Path(sysconfig.get_path("stdlib"))
    copied = 0
    for path in sorted(library.rglob("*.py")):
        if copied >= size:
            break
        if not {"test", "tests", "site-packages"}.isdisjoint(path.parts):
            continue
        copy = directory / path.relative_to(library)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, copy)
        copied += path.stat().st_size
    return directory


def _repository(root: Path, count: int) -> Path:
    """A git repository with so many small files."""
    chosen = random.Random(7)
    words = [f"word_{number}" for number in range(2000)]
    for number in range(count):
        path = root / f"package_{number % 100}" / f"module_{number}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        body = "\n".join(f"    {chosen.choice(words)} = {chosen.choice(words)}" for _ in range(30))
        path.write_text(f"def function_{number}():\n{body}\n")
    for command in (["init", "-q"], ["add", "-A"]):
        subprocess.run(["git", *command], cwd=root, check=True)
    return root


SUITE = Suite(
    "retrieval",
    {"quality": quality, "search": searching, "indexing": indexing, "unchanged": unchanged},
    plot="performance-retrieval.png",
)
