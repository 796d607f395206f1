"""Dense vectors: used when an endpoint makes them, done without when it does not, and never mixed."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.config import load_settings
from holdfast.errors import InvalidInput
from holdfast.retrieval import Retrieval, open_retrieval
from tests.retrieval.embeddings_server import DIMENSIONS, EmbeddingsServer, embeddings_server
from tests.retrieval.trees import ORGANIZATION, found, opened, written

pytestmark = pytest.mark.usefixtures("process")

FILES = {"a.py": "def kitten(): pass\n", "b.py": "def automobile(): pass\n", "c.py": "def beverage(): pass\n"}


@pytest.fixture
def server() -> Iterator[EmbeddingsServer]:
    with embeddings_server() as running:
        yield running


async def with_embeddings(home: Path, server: EmbeddingsServer, **chosen: object) -> Retrieval:
    return await opened(
        home,
        **{
            "embeddings_url": server.url,
            "embeddings_model": "toy",
            "embeddings_dimensions": DIMENSIONS,
            **chosen,
        },
    )


async def test_a_chunk_is_found_by_what_it_means(
    tmp_path: Path, server: EmbeddingsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOY_KEY", "secret")
    retrieval = await with_embeddings(tmp_path, server, embeddings_key_env="TOY_KEY")
    await retrieval.index(ORGANIZATION, written(tmp_path / "r", FILES))
    assert (await found(retrieval, "a cat"))[0].path == "a.py"
    assert server.requests[0]["model"] == "toy"
    assert set(server.keys) == {"Bearer secret"}
    await retrieval.close()


async def test_a_question_without_a_word_to_look_for_still_has_a_meaning(
    tmp_path: Path, server: EmbeddingsServer
) -> None:
    retrieval = await with_embeddings(tmp_path, server)
    await retrieval.index(ORGANIZATION, written(tmp_path / "r", FILES))
    answer = await retrieval.search(ORGANIZATION, "how and why?")
    assert len(answer.chunks) == 3
    assert answer.warnings == ()
    await retrieval.close()


BROKEN: list[int | bytes] = [
    500,
    429,
    b"not json",
    b'{"data": []}',
    b'{"data": [{"index": 0, "embedding": [1.0]}]}',
]


@pytest.mark.parametrize("broken", BROKEN)
async def test_words_answer_with_a_warning_when_the_endpoint_does_not(
    tmp_path: Path, server: EmbeddingsServer, broken: int | bytes
) -> None:
    retrieval = await with_embeddings(tmp_path, server)
    await retrieval.index(ORGANIZATION, written(tmp_path / "r", FILES))
    server.broken = broken
    answer = await retrieval.search(ORGANIZATION, "kitten")
    assert [chunk.path for chunk in answer.chunks] == ["a.py"]
    assert "Searched by words only." in answer.warnings[0]
    await retrieval.close()


async def test_an_endpoint_that_is_gone_stops_neither_indexing_nor_searching(tmp_path: Path) -> None:
    with embeddings_server() as server:
        retrieval = await with_embeddings(tmp_path, server)
    indexed = await retrieval.index(ORGANIZATION, written(tmp_path / "r", FILES))
    assert (indexed.changed, indexed.chunks) == (3, 3)
    assert "does not answer" in indexed.warnings[0]
    assert [chunk.path for chunk in await found(retrieval, "kitten")] == ["a.py"]
    await retrieval.close()


async def test_what_was_indexed_without_dense_vectors_gets_them_later(
    tmp_path: Path, server: EmbeddingsServer
) -> None:
    retrieval = await with_embeddings(tmp_path, server)
    root = written(tmp_path / "r", FILES)
    server.broken = 503
    await retrieval.index(ORGANIZATION, root)
    server.broken = None
    assert (await retrieval.index(ORGANIZATION, root)).changed == 3
    assert (await found(retrieval, "a cat"))[0].path == "a.py"
    assert (await retrieval.index(ORGANIZATION, root)).changed == 0
    await retrieval.close()


async def test_another_model_is_another_index(tmp_path: Path, server: EmbeddingsServer) -> None:
    root = written(tmp_path / "r", FILES)
    for model in ("toy", "toy!", "other"):
        retrieval = await with_embeddings(tmp_path, server, embeddings_model=model)
        assert "holdfast index" in (await retrieval.search(ORGANIZATION, "kitten")).warnings[0]
        assert (await retrieval.index(ORGANIZATION, root)).changed == 3
        await retrieval.close()
    plain = await opened(tmp_path)
    assert "holdfast index" in (await plain.search(ORGANIZATION, "kitten")).warnings[0]
    first = await with_embeddings(tmp_path, server)
    assert (await first.index(ORGANIZATION, root)).changed == 0
    await first.close()
    await plain.close()


def test_the_settings_of_embeddings_belong_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_RETRIEVAL_EMBEDDINGS_URL", "http://127.0.0.1:1/v1")
    with pytest.raises(InvalidInput, match="belong together"):
        load_settings()


async def test_a_key_that_is_named_must_be_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "URL": "http://127.0.0.1:1/v1",
        "MODEL": "m",
        "DIMENSIONS": "3",
        "KEY_ENV": "NOT_SET",
    }.items():
        monkeypatch.setenv(f"HOLDFAST_RETRIEVAL_EMBEDDINGS_{name}", value)
    with pytest.raises(InvalidInput, match="NOT_SET"):
        await open_retrieval(load_settings(data_dir=tmp_path))
