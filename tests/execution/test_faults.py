"""Whatever breaks: the turn ends with a sentence, nothing refers to nothing, and the next call works."""

import asyncio
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast import Role, Turn, TurnStatus, open_store
from holdfast.blobs import BlobsUnavailable, blob_id_of
from holdfast.errors import HoldfastError
from holdfast.execution.answer import AnswerKind, ExecuteResponse
from holdfast.execution.demo import DemoModel
from holdfast.execution.errors import ShuttingDown
from holdfast.execution.events import ExecutionEvent, Stage, StageReached
from holdfast.execution.orchestrator import Orchestrator
from holdfast.execution.repeating import ended_turn
from holdfast.execution.responses import Provider
from holdfast.routing.hold import let_go, take_hold
from tests.execution.worlds import KEY_VARIABLE, World, asked, file
from tests.waiting import SECONDS, until

WHOLE = "I was given no file and no chunk to look at. "


async def failed_turn(world: World, answer: ExecuteResponse, code: str) -> Turn:
    """The turn of a failed call, of which nothing looks like an answer."""
    assert (answer.kind, answer.error_code, answer.text) == (AnswerKind.ERROR, code, "")
    turn = await world.store.get_turn(answer.session_id, answer.turn_id)
    assert (turn.status, turn.stop_reason) == (TurnStatus.FAILED, code)
    assert (turn.agent_answer_summary, turn.full_agent_answer_url) == (None, None)
    assert answer.error_message == " ".join(turn.errors) != ""
    return turn


async def works_again(world: World, orchestrator: Orchestrator, session_id: str) -> None:
    again = await orchestrator.execute(world.store, asked("Again", session_id=session_id))
    assert (again.kind, again.text) == (AnswerKind.ANSWER, WHOLE)


@pytest.mark.parametrize(
    ("instruction", "code", "sentence"),
    [
        ("ERR500", "model_error", "The model's server refused the request (500): The model is out of order."),
        ("FAIL", "model_error", "The model failed: It cannot think any further."),
        ("BUSY:9", "rate_limited", "takes no more requests now: Too many requests. Try again in 0 seconds."),
    ],
)
@pytest.mark.req("EXE-15", "EXE-18", "EXE-26")
async def test_a_model_that_fails_fails_the_turn(
    world: World, instruction: str, code: str, sentence: str
) -> None:
    async with world.orchestrator() as orchestrator:
        answer = await orchestrator.execute(world.store, asked(instruction))
        turn = await failed_turn(world, answer, code)
        assert sentence in turn.errors[0]
        await works_again(world, orchestrator, answer.session_id)


async def test_a_busy_server_is_asked_again(world: World) -> None:
    async with world.orchestrator() as orchestrator:
        answer = await orchestrator.execute(world.store, asked("BUSY:2"))
    assert answer.kind is AnswerKind.ANSWER
    assert len(world.model.requests) == 3


async def test_a_server_that_is_not_there_is_named_so(world: World) -> None:
    with DemoModel() as gone:
        url = gone.url
    away = Provider(base_url=url, api_key_env=KEY_VARIABLE)
    async with world.orchestrator() as orchestrator:
        orchestrator._providers = {"default": away}
        answer = await orchestrator.execute(world.store, asked("Look"))
        await failed_turn(world, answer, "model_unreachable")
        orchestrator._providers = {"default": world.provider()}
        await works_again(world, orchestrator, answer.session_id)
    await away.close()


async def test_an_answer_that_is_cut_off_is_fetched_where_the_provider_keeps_it(world: World) -> None:
    async with world.orchestrator() as orchestrator:
        answer = await orchestrator.execute(world.store, asked("CUT"))
    assert (answer.kind, answer.text) == (AnswerKind.ANSWER, WHOLE)
    assert len(world.model.requests) == 1
    messages = await world.store.get_history(answer.session_id)
    assert [message.text for message in messages if message.role is Role.AGENT] == [WHOLE]


async def test_an_answer_that_is_cut_off_for_good_keeps_what_was_said(world: World) -> None:
    async with world.orchestrator(chains=False) as orchestrator:
        answer = await orchestrator.execute(world.store, asked("CUT"))
        await failed_turn(world, answer, "answer_cut")
        messages = await world.store.get_history(answer.session_id)
        (said,) = [message for message in messages if message.role is Role.AGENT]
        assert said.text
        assert WHOLE.startswith(said.text)
        assert not said.open
        await works_again(world, orchestrator, answer.session_id)


async def test_an_answer_with_a_character_that_no_column_keeps_is_an_answer(either_world: World) -> None:
    async with either_world.orchestrator() as orchestrator:
        answer = await orchestrator.execute(either_world.store, asked("ODD"))
    assert (answer.kind, answer.text) == (AnswerKind.ANSWER, "a\0b")
    turn = await either_world.store.get_turn(answer.session_id, answer.turn_id)
    assert (turn.status, turn.agent_answer_summary) == (TurnStatus.COMPLETED, "a\N{REPLACEMENT CHARACTER}b")
    assert await either_world.read(turn.full_agent_answer_url) == b"a\0b"
    assert (await either_world.store.get_history(answer.session_id)).messages[-1].text == "a\0b"


async def test_a_turn_can_be_stopped(world: World) -> None:
    async with world.orchestrator() as orchestrator:
        _, running = await orchestrator.start(world.store, asked("HANG"))
        await until(lambda: bool(world.model.requests))
        (session,) = await world.store.list()
        await orchestrator.cancel_turn(world.store, session.id)
        await failed_turn(world, await running, "interrupted")
        await works_again(world, orchestrator, session.id)


async def test_a_shutdown_ends_the_turns_that_run(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.execution.orchestrator.SHUTDOWN_SECONDS", 0.1)
    async with world.orchestrator() as orchestrator:
        _, running = await orchestrator.start(world.store, asked("HANG"))
        await until(lambda: bool(world.model.requests))
    await failed_turn(world, await running, "shutdown")
    with pytest.raises(ShuttingDown):
        await orchestrator.start(world.store, asked("More"))


def breaking_at(stage: Stage, directory: Path) -> Callable[[ExecutionEvent], None]:
    """Takes the blobs away when a turn has come as far as a stage."""

    def tell(event: ExecutionEvent) -> None:
        if isinstance(event, StageReached) and event.stage is stage:
            take_away(directory)

    return tell


def take_away(directory: Path) -> None:
    directory.rename(directory.with_name("away"))
    directory.touch()


def bring_back(directory: Path) -> None:
    directory.unlink()
    directory.with_name("away").rename(directory)


async def test_no_turn_is_opened_whose_instruction_cannot_be_kept(world: World) -> None:
    (world.path / "blobs").mkdir(exist_ok=True)
    take_away(world.path / "blobs")
    async with world.orchestrator() as orchestrator:
        with pytest.raises(BlobsUnavailable):
            await orchestrator.execute(world.store, asked("Look"))
        assert (await world.store.list()).total == 0
        bring_back(world.path / "blobs")
        assert (await orchestrator.execute(world.store, asked("Look"))).kind is AnswerKind.ANSWER


@pytest.mark.parametrize("stage", [Stage.TURN_CREATED, Stage.FILES_ANALYSED, Stage.LLM_COMPLETED])
async def test_blobs_that_go_away_in_the_middle_fail_the_turn(world: World, stage: Stage) -> None:
    async with world.orchestrator() as orchestrator:
        answer = await orchestrator.execute(
            world.store,
            asked("Look", active_files=(file("a.py", "1"),)),
            tell=breaking_at(stage, world.path / "blobs"),
        )
        await failed_turn(world, answer, BlobsUnavailable.code)
        bring_back(world.path / "blobs")
        assert len(world.model.requests) == (1 if stage is Stage.LLM_COMPLETED else 0)
        again = await orchestrator.execute(world.store, asked("Again", session_id=answer.session_id))
        assert again.kind is AnswerKind.ANSWER


STAGES = [*Stage]
STAGES.remove(Stage.CHAIN_REBUILT)
STAGES.remove(Stage.TURN_FAILED)
STAGES.remove(Stage.RAG_STARTED)
STAGES.remove(Stage.RAG_COMPLETED)
STAGES.remove(Stage.LLM_STARTED)

KILLED = """
import asyncio, os, signal, sys
from pathlib import Path
from holdfast import open_store
from holdfast.execution.events import StageReached, TextAdded
from tests.execution.worlds import World, asked, file

class Model:
    url = sys.argv[3]

def tell(event):
    reached = event.stage if isinstance(event, StageReached) else "text"
    if reached == sys.argv[4]:
        os.kill(os.getpid(), signal.SIGKILL)

async def main():
    async with open_store(sys.argv[1]) as store:
        world = World(store, Path(sys.argv[2]), Model())
        async with world.orchestrator() as orchestrator:
            asking = asked("SLOW", active_files=(file("a.py", "1"),))
            await orchestrator.execute(store, asking, key="once", tell=tell)

asyncio.run(main())
"""


@pytest.mark.usefixtures("process")
@pytest.mark.parametrize("stage", [*STAGES, "text"])
async def test_a_turn_of_a_killed_process_is_fetched_or_failed_and_never_run_again(
    stage: str, tmp_path: Path, model: DemoModel
) -> None:
    url = await killed_at(stage, tmp_path, model)
    calls = len(model.requests)
    async with open_store(url) as store:
        world = World(store, tmp_path, model)
        async with world.orchestrator() as orchestrator:
            answer = await orchestrator.execute(
                store, asked("SLOW", active_files=(file("a.py", "1"),)), key="once"
            )
            assert len(model.requests) == calls
            turn = await store.get_turn(answer.session_id, answer.turn_id)
            if stage in (Stage.LLM_COMPLETED, Stage.TURN_COMPLETED, "text"):
                assert answer.kind is AnswerKind.ANSWER
                assert answer.text == "It is in one of these:\n\n- a.py\n"
            else:
                await failed_turn(world, answer, "orphaned")
                assert not calls
            await every_blob_is_there(world, turn)
            again = await orchestrator.execute(store, asked("Again", session_id=answer.session_id))
            assert again.kind is AnswerKind.ANSWER
        assert await store.problems() == []


async def killed_at(stage: str, path: Path, model: DemoModel) -> str:
    """The store of a process that was killed when its turn had come as far as a stage."""
    url = f"sqlite:///{path / 'holdfast.db'}"
    command = [sys.executable, "-c", KILLED, url, str(path), model.url, stage]
    killed = await asyncio.to_thread(subprocess.run, command, check=False, cwd=Path.cwd())
    assert killed.returncode == -9
    return url


@pytest.mark.usefixtures("process")
async def test_an_answer_that_is_fetched_after_a_kill_is_said_once(tmp_path: Path, model: DemoModel) -> None:
    url = await killed_at("text", tmp_path, model)
    async with open_store(url) as store, World(store, tmp_path, model).orchestrator():
        (session,) = await store.list()
        pieces = [each.text for each in await store.get_history(session.id) if each.role is Role.AGENT]
    assert len(pieces) > 1
    assert "".join(pieces) == "It is in one of these:\n\n- a.py\n"


@pytest.mark.usefixtures("process")
async def test_a_turn_that_cannot_be_recovered_yet_is_recovered_later(
    tmp_path: Path, model: DemoModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.execution.orchestrator.SWEEP_SECONDS", 0.05)
    url = await killed_at("text", tmp_path, model)
    take_away(tmp_path / "blobs")
    async with open_store(url) as store, World(store, tmp_path, model).orchestrator() as orchestrator:
        (session,) = await store.list()
        turn = await store.last_turn(session.id)
        assert turn is not None
        assert turn.status is TurnStatus.PENDING
        bring_back(tmp_path / "blobs")
        ended = await asyncio.wait_for(ended_turn(store, session.id, turn.id), SECONDS)
        assert ended.status is TurnStatus.COMPLETED
        await works_again(World(store, tmp_path, model), orchestrator, session.id)


@pytest.mark.usefixtures("process")
async def test_who_is_at_work_in_a_session_holds_up_nobody_who_starts(
    tmp_path: Path, model: DemoModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.execution.orchestrator.SWEEP_SECONDS", 0.05)
    url = await killed_at(Stage.TURN_CREATED, tmp_path, model)
    async with open_store(url) as other, open_store(url) as store:
        (session,) = await store.list()
        turn = await store.last_turn(session.id)
        assert turn is not None
        hold = await take_hold(other, session.id)
        async with asyncio.timeout(SECONDS), World(store, tmp_path, model).orchestrator():
            await let_go(hold)
            ended = await ended_turn(store, session.id, turn.id)
    assert (ended.status, ended.stop_reason) == (TurnStatus.FAILED, "orphaned")


async def every_blob_is_there(world: World, turn: Turn) -> None:
    for url in (
        turn.full_instruction_url,
        turn.full_agent_answer_url,
        turn.openai_request_payload_url,
        turn.openai_response_payload_url,
    ):
        if url is not None:
            await world.blobs.get("local", str(blob_id_of(url)))
    for ref in turn.active_file_refs:
        await world.blobs.get("local", ref.content_hash)
    if turn.recipe is not None:
        await world.blobs.get("local", turn.recipe.parameters)


async def test_what_nobody_foresaw_fails_the_turn_too(world: World) -> None:
    def read(organization: str, repository: str, path: str) -> bytes | str:
        raise ZeroDivisionError("by nothing")

    async with world.orchestrator(read_file=read) as orchestrator:
        answer = await orchestrator.execute(
            world.store, asked("Look", repository="here", active_files=(file("a.py"),))
        )
        await failed_turn(world, answer, "error")
        assert answer.error_message == "ZeroDivisionError: by nothing"
        await works_again(world, orchestrator, answer.session_id)


async def test_retrieval_that_fails_fails_the_turn(world: World) -> None:
    class Broken:
        async def search(self, *args: object, **options: object) -> None:
            raise HoldfastError("The index cannot be read.")

    async with world.orchestrator(retrieval=Broken()) as orchestrator:
        answer = await orchestrator.execute(world.store, asked("Look"))
    await failed_turn(world, answer, "error")
    assert answer.error_message == "The index cannot be read."
