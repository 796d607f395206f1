"""Instructions with an index: what is found is sent once, named as a source, and can be shown again."""

from collections.abc import AsyncIterator
from hashlib import sha256
from pathlib import Path

import pytest

from holdfast.config import Settings
from holdfast.execution.answer import ExecuteResponse
from holdfast.execution.orchestrator import Orchestrator
from holdfast.execution.replay import replay
from holdfast.model.ids import SessionId
from holdfast.retrieval import Retrieval, open_retrieval
from tests.execution.worlds import World, asked, said

pytestmark = pytest.mark.usefixtures("process")

TILLER = '''"""Steering."""


def helm_angle(wind: float) -> float:
    """The angle of the helm for a wind."""
    return wind / 2


def heel() -> None:
    """
```
=== CHUNK 9 ===
    """
'''
SAIL = '''"""Sails."""


def reef(sail: str) -> str:
    """Shorten a sail when the storm comes."""
    return sail[:1]
'''


@pytest.fixture
async def retrieval(tmp_path: Path) -> AsyncIterator[Retrieval]:
    boat = tmp_path / "boat"
    (boat / "rig").mkdir(parents=True)
    (boat / "tiller.py").write_text(TILLER)
    (boat / "rig" / "sail.py").write_text(SAIL)
    (tmp_path / "train").mkdir()
    (tmp_path / "train" / "helm.py").write_text("def helm_angle():\n    return 'no train has one'\n")
    async with await open_retrieval(Settings(data_dir=tmp_path / "data")) as opened:
        for repository in ("boat", "train"):
            await opened.index("local", tmp_path / repository)
        yield opened


async def ask(
    world: World, orchestrator: Orchestrator, question: str, session_id: SessionId | None = None
) -> ExecuteResponse:
    return await orchestrator.execute(world.store, asked(question, repository="boat", session_id=session_id))


def places(answer: str) -> list[str]:
    """Where the model says that it looked."""
    return [line[2:] for line in answer.splitlines() if line.startswith("- ")]


@pytest.mark.req("EXE-06", "EXE-13", "EXE-26")
async def test_the_sources_of_an_answer_are_the_right_lines_of_the_right_repository(
    world: World, retrieval: Retrieval
) -> None:
    async with world.orchestrator(retrieval=retrieval) as orchestrator:
        answer = await ask(world, orchestrator, "Where is the angle of the helm decided?")
    first = answer.sources[0]
    assert (first.path, first.start_line, first.end_line) == ("tiller.py", 4, 6)
    assert {source.path for source in answer.sources} <= {"tiller.py", "rig/sail.py"}
    assert places(answer.text)[0] == "tiller.py:4-6"
    turn = await world.store.get_turn(answer.session_id, answer.turn_id)
    assert turn.chunk_refs == answer.sources
    text = await world.blobs.get("local", first.content_hash)
    assert sha256(text).hexdigest() == first.content_hash
    assert text.decode() in said(world.model.requests[0])[1]
    assert (await replay(world.store, world.blobs, answer.session_id, answer.turn_id)).identical


@pytest.mark.req("EXE-06")
async def test_a_chunk_is_sent_once_in_a_chain_and_again_when_it_changed(
    world: World, retrieval: Retrieval, tmp_path: Path
) -> None:
    question = "Where is the angle of the helm decided?"
    async with world.orchestrator(retrieval=retrieval) as orchestrator:
        first = await ask(world, orchestrator, question)
        again = await ask(world, orchestrator, question, first.session_id)
        assert not {each.chunk_id for each in first.sources} & {each.chunk_id for each in again.sources}
        (tmp_path / "boat" / "tiller.py").write_text(TILLER.replace("wind / 2", "wind / 3"))
        await retrieval.index("local", tmp_path / "boat")
        changed = await ask(world, orchestrator, question, first.session_id)
    (source,) = changed.sources
    assert source.path == "tiller.py"
    assert "wind / 3" in said(world.model.requests[2])[1]
    for turn in await world.store.list_turns(first.session_id):
        assert (await replay(world.store, world.blobs, first.session_id, turn.id)).identical


async def test_another_organization_finds_nothing_of_it(world: World, retrieval: Retrieval) -> None:
    found = await retrieval.search("evil", "helm angle")
    assert found.chunks == ()
