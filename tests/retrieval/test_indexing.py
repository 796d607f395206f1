"""Keeping an index equal to a tree: what changed is written, what is gone is deleted, no more."""

import json
import os
import shutil
from pathlib import Path

import pytest

from holdfast.config import load_settings
from holdfast.errors import InvalidInput, NotFound
from holdfast.retrieval import Indexed, Retrieval, SearchFilter, open_retrieval
from holdfast.retrieval.errors import IndexUnavailable, RepositoryElsewhere
from holdfast.retrieval.files import Tree, paths_in
from holdfast.retrieval.payload import content_hash
from tests.retrieval.trees import GREETING, ORGANIZATION, found, git, opened, paths_found, repository, written

pytestmark = pytest.mark.usefixtures("process")


async def index(retrieval: Retrieval, root: Path, organization: str = ORGANIZATION) -> Indexed:
    return await retrieval.index(organization, root)


async def test_a_tree_is_indexed_and_found_with_its_exact_lines(tmp_path: Path, retrieval: Retrieval) -> None:
    root = repository(
        tmp_path / "hello", {"src/greeting.py": GREETING, "README.md": "# Hello\n\nSays hello.\n"}
    )
    indexed = await index(retrieval, root)
    assert (indexed.repository, indexed.files, indexed.changed, indexed.chunks) == ("hello", 2, 2, 5)
    assert indexed.bytes == len(GREETING) + 21
    chunk = (await found(retrieval, "say goodbye: farewell"))[0]
    assert (chunk.repository, chunk.path, chunk.language) == ("hello", "src/greeting.py", "python")
    assert (chunk.start_line, chunk.end_line) == (11, 12)
    assert (chunk.symbol, chunk.symbol_type) == ("farewell", "function")
    assert chunk.text == "\n".join(GREETING.split("\n")[10:12])
    assert chunk.content_hash == content_hash(chunk.text)


async def test_an_unchanged_tree_writes_nothing(tmp_path: Path, retrieval: Retrieval) -> None:
    root = repository(tmp_path / "r", {"a.py": GREETING, "empty.py": "", "b.txt": "words"})
    await index(retrieval, root)
    again = await index(retrieval, root)
    assert (again.changed, again.unchanged, again.removed, again.chunks, again.bytes) == (0, 3, 0, 0, 0)


async def test_only_what_changed_is_written(tmp_path: Path, retrieval: Retrieval) -> None:
    root = repository(tmp_path / "r", {"a.py": GREETING, "b.py": "def other(): pass\n"})
    await index(retrieval, root)
    before = {chunk.symbol: chunk for chunk in await found(retrieval, "greet farewell")}
    written(root, {"a.py": "import os\n\n\n" + GREETING.replace("Goodbye", "So long")})
    assert (await index(retrieval, root)).changed == 1
    after = {chunk.symbol: chunk for chunk in await found(retrieval, "greet farewell")}
    moved, changed = after["Greeter.greet"], after["farewell"]
    assert moved.id == before["Greeter.greet"].id
    assert moved.start_line == before["Greeter.greet"].start_line + 3
    assert moved.content_hash == before["Greeter.greet"].content_hash
    assert changed.id == before["farewell"].id
    assert changed.content_hash != before["farewell"].content_hash
    assert "So long" in changed.text


async def test_what_a_file_no_longer_holds_is_no_longer_found(tmp_path: Path, retrieval: Retrieval) -> None:
    root = repository(tmp_path / "r", {"a.py": GREETING})
    await index(retrieval, root)
    written(root, {"a.py": "def welcome(): pass\n"})
    assert (await index(retrieval, root)).chunks == 1
    assert [chunk.symbol for chunk in await found(retrieval, "greet farewell welcome")] == ["welcome"]


async def test_deleted_and_renamed_files_go(tmp_path: Path, retrieval: Retrieval) -> None:
    root = repository(tmp_path / "r", {"gone.py": GREETING, "old.py": GREETING, "kept.py": GREETING})
    await index(retrieval, root)
    (root / "gone.py").unlink()
    (root / "old.py").rename(root / "new.py")
    indexed = await index(retrieval, root)
    assert (indexed.changed, indexed.unchanged, indexed.removed) == (1, 1, 2)
    assert await paths_found(retrieval, "farewell") == {"kept.py", "new.py"}


async def test_a_file_that_becomes_ignored_or_binary_goes(tmp_path: Path, retrieval: Retrieval) -> None:
    root = repository(tmp_path / "r", {"a.py": GREETING, "b.py": GREETING})
    await index(retrieval, root)
    git(root, "rm", "-q", "--cached", "a.py")
    written(root, {".gitignore": "a.py\n", "b.py": b"\0\0"})
    assert (await index(retrieval, root)).removed == 2
    assert await paths_found(retrieval, "farewell") == set()


async def test_a_part_of_a_repository_is_indexed_without_touching_the_rest(
    tmp_path: Path, retrieval: Retrieval
) -> None:
    root = repository(tmp_path / "r", {"one/a.py": GREETING, "two/b.py": GREETING})
    await index(retrieval, root)
    shutil.rmtree(root / "one")
    (root / "two" / "b.py").unlink()
    assert (await index(retrieval, root / "two")).removed == 1
    assert await paths_found(retrieval, "farewell") == {"one/a.py"}


async def test_what_cannot_be_understood_is_skipped(tmp_path: Path, retrieval: Retrieval) -> None:
    root = written(
        tmp_path / "plain",
        {
            "binary.py": b"\x7fELF\0\0\0",
            "large.py": "farewell = 1\n" * 100_000,
            "latin.py": b"# caf\xe9\ndef farewell(): pass\n",
            "crlf.py": b"def farewell():\r\n    pass\r\n",
            "broken.py": "def farewell(:\n  ((((\n",
            "odd \n name.py": "def farewell(): pass\n",
        },
    )
    (root / "loop").symlink_to(root)
    os.mkfifo(root / "pipe.py")
    indexed = await index(retrieval, root)
    assert (indexed.files, indexed.changed, indexed.skipped) == (6, 4, 2)
    chunks = {chunk.path: chunk for chunk in await found(retrieval, "farewell")}
    assert chunks.keys() == {"latin.py", "crlf.py", "broken.py", "odd \n name.py"}
    assert chunks["latin.py"].text == "# caf\ufffd\ndef farewell(): pass"
    assert chunks["crlf.py"].text == "def farewell():\r\n    pass\r"


async def test_files_that_vanish_meanwhile_are_skipped(
    tmp_path: Path, retrieval: Retrieval, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = written(
        tmp_path / "plain", {"stays.py": GREETING, "vanishes.py": GREETING, "deep/too.py": GREETING}
    )

    def listed_and_then_gone(tree: Tree) -> list[str]:
        paths = paths_in(tree)
        (root / "vanishes.py").unlink()
        shutil.rmtree(root / "deep")
        return paths

    monkeypatch.setattr("holdfast.retrieval.indexer.paths_in", listed_and_then_gone)
    indexed = await index(retrieval, root)
    assert (indexed.files, indexed.changed, indexed.skipped) == (3, 1, 2)


async def test_progress_is_told_to_the_end(tmp_path: Path, retrieval: Retrieval) -> None:
    root = written(tmp_path / "plain", {f"{n}.py": "x = 1\n" for n in range(1200)})
    steps: list[tuple[int, int]] = []
    await retrieval.index(ORGANIZATION, root, progress=lambda done, total: steps.append((done, total)))
    assert steps == [(500, 1200), (1000, 1200), (1200, 1200)]


@pytest.mark.req("EXE-06")
async def test_searches_stay_within_what_is_asked_for(tmp_path: Path) -> None:
    workspaces = {
        "front": {"repositories": ["web"]},
        "docs": {"repositories": ["web", "api"], "paths": ["docs"]},
    }
    retrieval = await opened(tmp_path, workspaces=workspaces)
    for name in ("web", "api"):
        root = repository(
            tmp_path / name, {"src/a.py": GREETING, "docs/a.md": "farewell", "src2/b.py": GREETING}
        )
        await index(retrieval, root)

    async def places(**wanted: str) -> set[str]:
        chunks = (await retrieval.search(ORGANIZATION, "farewell", SearchFilter(**wanted), limit=50)).chunks
        return {f"{chunk.repository}/{chunk.path}" for chunk in chunks}

    assert await places(repository="web", path="src") == {"web/src/a.py"}
    assert await places(repository="web", path="./src/") == {"web/src/a.py"}
    assert await places(repository="web", path="src/a.py") == {"web/src/a.py"}
    assert await places(language="markdown") == {"web/docs/a.md", "api/docs/a.md"}
    assert await places(workspace="front", language="markdown") == {"web/docs/a.md"}
    assert await places(workspace="docs") == {"web/docs/a.md", "api/docs/a.md"}
    assert await places(workspace="docs", repository="api") == {"api/docs/a.md"}
    assert await places(workspace="front", repository="api") == set()
    unknown = await retrieval.search(ORGANIZATION, "farewell", SearchFilter(workspace="nobody's"))
    assert unknown.chunks == ()
    assert 'no workspace "nobody\'s"' in unknown.warnings[0]
    await retrieval.close()


@pytest.mark.req("EXE-06")
async def test_organizations_index_the_same_tree_without_meeting(
    tmp_path: Path, retrieval: Retrieval
) -> None:
    root = repository(tmp_path / "r", {"a.py": GREETING})
    assert (await index(retrieval, root, "one")).chunks == 4
    assert (await index(retrieval, root, "two")).chunks == 4
    (one, two) = [(await found(retrieval, "farewell", organization=name))[0] for name in ("one", "two")]
    assert one.id != two.id
    assert one.content_hash == two.content_hash
    (root / "a.py").unlink()
    await index(retrieval, root, "one")
    assert await found(retrieval, "farewell", organization="one") == []
    assert await found(retrieval, "farewell", organization="two") == [two]
    assert await found(retrieval, "farewell", organization="three") == []


@pytest.mark.req("EXE-13")
async def test_a_turn_records_a_chunk_by_its_place_and_hash(tmp_path: Path, retrieval: Retrieval) -> None:
    await index(retrieval, repository(tmp_path / "r", {"a.py": GREETING}))
    chunk = (await found(retrieval, "farewell"))[0]
    ref = chunk.ref
    assert (ref.chunk_id, ref.path, ref.start_line, ref.end_line) == (chunk.id, "a.py", 11, 12)
    assert ref.content_hash == content_hash(chunk.text)


async def test_two_repositories_of_one_name_are_kept_apart(tmp_path: Path, retrieval: Retrieval) -> None:
    first = repository(tmp_path / "x" / "api", {"a.py": GREETING})
    second = repository(tmp_path / "y" / "api", {"b.py": GREETING})
    await index(retrieval, first)
    with pytest.raises(RepositoryElsewhere, match="--repo"):
        await index(retrieval, second)
    assert (await retrieval.index(ORGANIZATION, second, repository="other")).repository == "other"
    assert await paths_found(retrieval, "farewell") == {"a.py", "b.py"}
    shutil.move(first, tmp_path / "z")
    moved = await retrieval.index(ORGANIZATION, tmp_path / "z", repository="api")
    assert (moved.changed, moved.unchanged) == (0, 1)


async def test_a_part_of_another_repository_of_the_same_name_is_refused_too(
    tmp_path: Path, retrieval: Retrieval
) -> None:
    first = repository(tmp_path / "x" / "api", {"a.py": GREETING})
    second = repository(tmp_path / "y" / "api", {"src/b.py": GREETING})
    await index(retrieval, first)
    with pytest.raises(RepositoryElsewhere):
        await index(retrieval, second / "src")
    assert (await index(retrieval, first)).unchanged == 1


async def test_several_parts_of_one_symbol_do_not_crowd_others_out(
    tmp_path: Path, retrieval: Retrieval
) -> None:
    long = "def farewell():\n" + "    farewell = 'farewell'\n" * 300
    await index(retrieval, repository(tmp_path / "r", {"long.py": long, "short.py": GREETING}))
    symbols = [(chunk.path, chunk.symbol) for chunk in await found(retrieval, "farewell")]
    assert set(symbols[:2]) == {("long.py", "farewell"), ("short.py", "farewell")}
    assert len(symbols) == 7


async def test_before_anything_is_indexed_the_answer_says_how(tmp_path: Path, retrieval: Retrieval) -> None:
    nothing = await retrieval.search(ORGANIZATION, "farewell")
    assert nothing.chunks == ()
    assert "holdfast index PATH" in nothing.warnings[0]
    assert not (tmp_path / "data").exists()
    await index(retrieval, repository(tmp_path / "r", {"a.py": GREETING}), "another")
    assert "holdfast index PATH" in (await retrieval.search(ORGANIZATION, "farewell")).warnings[0]


async def test_questions_of_any_kind_are_answered(tmp_path: Path, retrieval: Retrieval) -> None:
    await index(retrieval, repository(tmp_path / "r", {"a.py": GREETING}))
    for wordless in ("", "???", "the of and"):
        assert "no word" in (await retrieval.search(ORGANIZATION, wordless)).warnings[0]
    huge = "farewell " + "other words \0 \ud800 " * 500_000
    assert (await retrieval.search(ORGANIZATION, huge)).chunks[0].path == "a.py"
    for wrong in (0, 101, -1):
        with pytest.raises(InvalidInput, match="between 1 and 100"):
            await retrieval.search(ORGANIZATION, "farewell", limit=wrong)


async def test_what_cannot_be_indexed_is_said(tmp_path: Path, retrieval: Retrieval) -> None:
    with pytest.raises(NotFound, match="There is no directory"):
        await index(retrieval, tmp_path / "nowhere")
    with pytest.raises(InvalidInput, match="repository"):
        await retrieval.index(ORGANIZATION, tmp_path, repository="x" * 1000)


async def test_an_interrupted_run_is_finished_by_the_next(
    tmp_path: Path, retrieval: Retrieval, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The chunks of the old text are deleted, although the run that wrote the new ones did not get there."""
    root = repository(tmp_path / "r", {"a.py": GREETING})
    await index(retrieval, root)
    written(root, {"a.py": "def welcome(): pass\n"})

    async def failing(*_: object, **__: object) -> None:
        raise IndexUnavailable("The disk is full.")

    with monkeypatch.context() as patched:
        patched.setattr("holdfast.retrieval.vector_index.VectorIndex.delete", failing)
        with pytest.raises(IndexUnavailable, match="full"):
            await index(retrieval, root)
    written(root, {"a.py": "def hello(): pass\n"})
    assert (await index(retrieval, root)).changed == 1
    assert [chunk.symbol for chunk in await found(retrieval, "greet farewell welcome hello")] == ["hello"]


async def test_an_organization_without_repositories_here_finds_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also what it has indexed before."""
    tree = written(tmp_path / "tree", {"a.py": GREETING})
    counts = []
    named: list[dict[str, str]] = [{}, {"acme": str(tmp_path)}, {"*": "/srv/{organization}"}]
    for roots in named:
        monkeypatch.setenv("HOLDFAST_WORKSPACE_ROOTS", json.dumps(roots))
        async with await open_retrieval(load_settings(data_dir=tmp_path)) as retrieval:
            await retrieval.index("acme", tree)
            counts.append(len((await retrieval.search("acme", "farewell")).chunks))
    assert counts == [0, 1, 1]
