"""The port: what both engines do, and that nothing crosses from one organization to another."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from holdfast.errors import InvalidInput
from holdfast.retrieval.terms import document_vector, query_vector
from holdfast.retrieval.vector_index import EVERYTHING, ORGANIZATION, NamedPoint, VectorIndex, point_id
from holdfast.retrieval.vectors import Filter, HasId, Match, MatchPrefix, Query
from tests.retrieval.collections import ENGINES, index_of

DIMENSIONS = 3


@pytest.fixture(params=ENGINES)
async def index(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[VectorIndex]:
    async with index_of(request.param, tmp_path, DIMENSIONS) as opened:
        yield opened


def point(name: str, text: str, dense: list[float] | None = None, **fields: str) -> NamedPoint:
    return NamedPoint(
        name=name, payload={"Text": text, **fields}, bm25=document_vector("", None, text), dense=dense
    )


def asked(text: str, dense: list[float] | None = None) -> Query:
    return Query(query_vector(text), dense)


async def texts(
    index: VectorIndex, organization: str, query: Query, wanted: Filter = EVERYTHING
) -> list[str]:
    found = await index.search(organization, query, wanted, limit=10)
    return [each.payload["Text"] for each in found]


async def test_the_nearest_comes_first_with_its_payload(index: VectorIndex) -> None:
    await index.upsert("a", [point("1", "retry later"), point("2", "retry retry now"), point("3", "quota")])
    found = await index.search("a", asked("retry now"), limit=10)
    assert [each.payload["Text"] for each in found] == ["retry retry now", "retry later"]
    assert found[0].score > found[1].score
    assert found[0].id == point_id("a", "2")
    assert found[0].payload[ORGANIZATION] == "a"


async def test_a_point_that_is_written_again_is_replaced(index: VectorIndex) -> None:
    await index.upsert("a", [point("1", "retry later")])
    await index.upsert("a", [point("1", "quota exceeded")])
    assert await index.count("a") == 1
    assert await texts(index, "a", asked("retry")) == []
    assert await texts(index, "a", asked("quota")) == ["quota exceeded"]


async def test_filters_hold_together(index: VectorIndex) -> None:
    await index.upsert(
        "a",
        [
            point("1", "retry one", Repo="x", Path="src/a.py"),
            point("2", "retry two", Repo="x", Path="src/sub/b.py"),
            point("3", "retry three", Repo="y", Path="src/a.py"),
            point("4", "retry four", Repo="x", Path="srcs/a.py"),
        ],
    )

    async def with_filter(wanted: Filter) -> set[str]:
        return {text.split()[1] for text in await texts(index, "a", asked("retry"), wanted)}

    in_x = Match("Repo", ["x"])
    assert await with_filter(Filter(must=(in_x,))) == {"one", "two", "four"}
    assert await with_filter(Filter(must=(in_x, MatchPrefix("Path", "src/")))) == {"one", "two"}
    assert await with_filter(Filter(must_not=(in_x,))) == {"three"}
    assert await with_filter(Filter(should=(Match("Path", ["srcs/a.py"]), Match("Repo", ["y"])))) == {
        "three",
        "four",
    }
    assert await with_filter(Filter(must=(HasId([point_id("a", "2")]),))) == {"two"}
    assert await with_filter(Filter(must=(Match("Repo", []),))) == set()
    assert await with_filter(EVERYTHING) == {"one", "two", "three", "four"}


async def test_points_without_vectors_are_scrolled_and_counted_and_never_found(index: VectorIndex) -> None:
    await index.upsert(
        "a", [point("1", "retry"), NamedPoint(name="file", payload={"Text": "", "Kind": "file"})]
    )
    assert await texts(index, "a", asked("retry")) == ["retry"]
    assert await index.count("a") == 2
    files = Filter(must=(Match("Kind", ["file"]),))
    assert await index.scroll("a", files, ["Kind"]) == [{"Kind": "file"}]


async def test_everything_is_scrolled_however_much_it_is(index: VectorIndex) -> None:
    await index.upsert("a", [NamedPoint(name=str(n), payload={"Path": f"{n}.py"}) for n in range(2500)])
    scrolled = await index.scroll("a", EVERYTHING, ["Path"])
    assert len({each["Path"] for each in scrolled}) == len(scrolled) == 2500


async def test_what_is_wanted_is_deleted_except_for_what_is_kept(index: VectorIndex) -> None:
    await index.upsert("a", [point(str(n), f"retry {n}", Path="a.py" if n < 3 else "b.py") for n in range(5)])
    await index.delete("a", Filter(must=(Match("Path", ["a.py"]),)), keep=["1"])
    assert sorted(await texts(index, "a", asked("retry"))) == ["retry 1", "retry 3", "retry 4"]


async def test_both_kinds_of_vectors_are_fused_by_their_ranks(index: VectorIndex) -> None:
    await index.upsert(
        "a",
        [
            point("words", "retry the call", [0.0, 1.0, 0.0]),
            point("meaning", "again and again", [1.0, 0.0, 0.0]),
            point("both", "retry retry", [0.9, 0.1, 0.0]),
            point("neither", "quota", [0.0, 0.0, 1.0]),
            point("no dense vector", "retry it once more, please", None),
        ],
    )
    fused = await texts(index, "a", asked("retry", [1.0, 0.0, 0.0]))
    assert fused[0] == "retry retry"
    assert {"retry the call", "again and again", "retry it once more, please"} <= set(fused)


async def test_organizations_see_nothing_of_each_other(index: VectorIndex) -> None:
    await index.upsert("a", [point("1", "secret plan of a", [1.0, 0.0, 0.0])])
    await index.upsert("b", [point("1", "secret plan of b", [1.0, 0.0, 0.0])])
    for dense in (None, [1.0, 0.0, 0.0]):
        assert await texts(index, "a", asked("secret plan", dense)) == ["secret plan of a"]
        assert await texts(index, "c", asked("secret plan", dense)) == []
    assert await index.count("c") == 0
    assert await index.scroll("b", EVERYTHING, ["Text"]) == [{"Text": "secret plan of b"}]


HOSTILE = [
    Filter(must=(Match(ORGANIZATION, ["b"]),)),
    Filter(should=(Match(ORGANIZATION, ["a", "b"]), Match("Text", ["secret plan of b"]))),
    Filter(should=(Match(ORGANIZATION, ["b"]), Filter())),
    Filter(must_not=(Match(ORGANIZATION, ["a"]),)),
    Filter(must_not=(Filter(must=(Match(ORGANIZATION, ["a"]),)),)),
    Filter(must=(HasId([point_id("b", "1")]),)),
    Filter(should=(HasId([point_id("b", "1")]),)),
    Filter(should=(MatchPrefix(ORGANIZATION, ""), MatchPrefix("Text", "secret"))),
    Filter(must=(Filter(should=(Filter(must_not=(Match(ORGANIZATION, ["a"]),)),)),)),
]


@pytest.mark.req("EXE-06")
@pytest.mark.parametrize("hostile", HOSTILE)
async def test_no_filter_gets_around_the_organization(index: VectorIndex, hostile: Filter) -> None:
    await index.upsert("a", [point("1", "secret plan of a", [1.0, 0.0, 0.0])])
    await index.upsert("b", [point("1", "secret plan of b", [1.0, 0.0, 0.0])])
    for query in (asked("secret plan"), asked("secret plan", [1.0, 0.0, 0.0])):
        assert "secret plan of b" not in await texts(index, "a", query, hostile)
    assert {"Text": "secret plan of b"} not in await index.scroll("a", hostile, ["Text"])
    assert await index.count("a", hostile) <= 1
    await index.delete("a", hostile)
    assert await texts(index, "b", asked("secret plan")) == ["secret plan of b"]


async def test_a_payload_cannot_name_another_organization(index: VectorIndex) -> None:
    await index.upsert("a", [point("1", "planted", OrgId="b")])
    assert await texts(index, "b", asked("planted")) == []
    assert await texts(index, "a", asked("planted")) == ["planted"]


async def test_how_rare_a_word_is_elsewhere_does_not_show_in_the_scores(index: VectorIndex) -> None:
    await index.upsert("a", [point("1", "secret plan"), point("2", "public notice")])
    (before,) = await index.search("a", asked("secret"), limit=1)
    await index.upsert("b", [point(str(n), "secret plan") for n in range(50)])
    (after,) = await index.search("a", asked("secret"), limit=1)
    assert after.score == pytest.approx(before.score)


async def test_an_organization_must_have_a_name(index: VectorIndex) -> None:
    for wrong in ("", "a\0b", "x" * 1000):
        with pytest.raises(InvalidInput):
            await index.search(wrong, asked("x"), limit=1)
        with pytest.raises(InvalidInput):
            await index.upsert(wrong, [point("1", "x")])


def test_a_point_has_the_same_id_for_ever() -> None:
    assert point_id("acme", "a") == "4185d52d-5186-5e37-ba77-9c05cd01d96c"
    assert point_id("acme", "a") != point_id("acm", "ea")
