"""Every instruction becomes a turn that says what was sent, what came back, and what it was made of."""

import asyncio
import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from hashlib import sha256

import msgspec
import pytest

from holdfast import NewSession, NewTurn, Principal, Role, Turn, TurnStatus, open_store
from holdfast.blobs import Collection, collect_orphans
from holdfast.errors import NotFound, SessionNotFound
from holdfast.execution.answer import AnswerKind
from holdfast.execution.errors import (
    ContextNotFound,
    ContextWrong,
    KeyReused,
    NoCredentials,
    NoModel,
    NotAModelSession,
)
from holdfast.execution.events import ExecutionEvent, Stage, StageReached, TextAdded
from holdfast.execution.input import Mode
from holdfast.execution.orchestrator import INTERRUPTED, Orchestrator
from holdfast.execution.replay import replay
from holdfast.model.records import ContextKind
from tests.execution.worlds import SECRET, World, asked, file, said
from tests.waiting import until


@pytest.mark.req("EXE-04", "EXE-07", "EXE-08", "EXE-15", "EXE-23", "EXE-26")
async def test_an_instruction_is_answered_in_a_turn_of_a_new_session(world: World) -> None:
    instruction = "Where is it? " + "x" * 2000
    async with world.orchestrator() as orchestrator:
        answer = await orchestrator.execute(world.store, asked(instruction))
    assert (answer.kind, answer.error_code, answer.warnings) == (AnswerKind.ANSWER, None, ())
    assert answer.text == "I was given no file and no chunk to look at. "
    turn = await world.store.get_turn(answer.session_id, answer.turn_id)
    assert (turn.status, turn.sequence_number, turn.mode) == (TurnStatus.COMPLETED, 1, "ask")
    assert len(turn.instruction_summary) == 1024
    assert turn.agent_answer_summary == answer.text
    assert (await world.read(turn.full_instruction_url)).decode() == instruction
    assert (await world.read(turn.full_agent_answer_url)).decode() == answer.text
    response = json.loads(await world.read(turn.openai_response_payload_url))
    assert response["id"] == turn.openai_response_id
    assert turn.openai_response_received_at == world.now
    assert turn.openai_model == "demo"
    assert (turn.usage.input, turn.usage.output) == (
        response["usage"]["input_tokens"],
        response["usage"]["output_tokens"],
    )
    session = await world.store.get_session(answer.session_id)
    assert session.token_usage == turn.usage
    assert session.last_model == "demo"
    messages = (await world.store.get_history(session.id)).messages
    assert [(message.role, message.text, message.turn_id) for message in messages] == [
        (Role.USER, instruction, turn.id),
        (Role.AGENT, answer.text, turn.id),
    ]


async def test_the_kept_request_is_the_one_that_was_sent_and_holds_no_secret(world: World) -> None:
    async with world.orchestrator() as orchestrator:
        answer = await orchestrator.execute(
            world.store, asked("Look", active_files=(file("a.py", "print()"),))
        )
    turn = await world.store.get_turn(answer.session_id, answer.turn_id)
    (received,) = world.model.requests
    assert received.pop("stream") is True
    assert await world.request_of(turn) == received
    stored = [path.read_bytes() for path in world.path.rglob("*") if path.is_file()]
    assert not any(SECRET.encode() in data for data in stored)


@pytest.mark.req("EXE-08")
async def test_the_next_instruction_goes_on_from_the_response_before(world: World) -> None:
    async with world.orchestrator(contexts={"default": {"instructions": "Be brief."}}) as orchestrator:
        first = await orchestrator.execute(world.store, asked("One"))
        second = await orchestrator.execute(world.store, asked("Two", session_id=first.session_id))
    turns = await world.store.list_turns(first.session_id)
    assert [turn.sequence_number for turn in turns] == [1, 2]
    assert turns[1].previous_openai_response_id == turns[0].openai_response_id
    assert turns[1].conversation_id == turns[0].conversation_id == turns[0].id
    sent = world.model.requests[1]
    assert sent["previous_response_id"] == turns[0].openai_response_id
    assert said(sent) == ["user: [MODE: ask]\n\n[INSTRUCTION]\nTwo"]
    assert sent["instructions"] == "Be brief."  # a provider does not carry them from turn to turn
    assert second.session_id == first.session_id


@pytest.mark.req("EXE-03")
async def test_contexts_are_found_by_name_and_by_id(world: World) -> None:
    contexts = {"reviewer": {"model": "strict", "instructions": "Find faults.", "max_output_tokens": 99}}
    conversations = {"holdfast": {"instructions": "It is about durable sessions.", "repository": "holdfast"}}
    async with world.orchestrator(contexts=contexts, conversations=conversations) as orchestrator:
        stored = await world.store.save_context(ContextKind.AGENT, "kept", {"model": "stored"})
        for context in ("reviewer", "kept", stored.id, None):
            await orchestrator.execute(
                world.store, asked("Look", agent_context=context, conversation_context="holdfast")
            )
        with pytest.raises(ContextNotFound, match="'nobody'; there are: default, kept, reviewer"):
            await orchestrator.execute(world.store, asked("Look", agent_context="nobody"))
    assert [request["model"] for request in world.model.requests] == ["strict", "stored", "stored", "demo"]
    assert world.model.requests[0]["instructions"] == "Find faults.\n\nIt is about durable sessions."
    assert world.model.requests[0]["max_output_tokens"] == 99
    sessions = await world.store.list()
    assert {session.agent_context_id for session in sessions} == {"reviewer", stored.id, "default"}
    assert {session.repo_name for session in sessions} == {"holdfast"}
    assert sessions.total == 4


async def test_what_cannot_be_answered_leaves_no_session(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with world.orchestrator(model=None) as orchestrator:
        with pytest.raises(NoModel, match="HOLDFAST_MODEL"):
            await orchestrator.execute(world.store, asked("Look"))
    monkeypatch.delenv("TEST_MODEL_KEY")
    async with world.orchestrator() as orchestrator:
        with pytest.raises(NoCredentials, match="TEST_MODEL_KEY"):
            await orchestrator.execute(world.store, asked("Look"))
    assert (await world.store.list()).total == 0
    assert world.model.requests == []


async def test_an_agents_session_and_anothers_session_are_refused(world: World) -> None:
    agents = await world.store.create_session(NewSession(agent="gemini"))
    eve = world.store.as_principal(Principal("evil", "eve"))
    async with world.orchestrator() as orchestrator:
        with pytest.raises(NotAModelSession, match="gemini"):
            await orchestrator.execute(world.store, asked("Look", session_id=agents.id))
        mine = await orchestrator.execute(world.store, asked("Look"))
        with pytest.raises(SessionNotFound):
            await orchestrator.execute(eve, asked("Look", session_id=mine.session_id))


@pytest.mark.req("EXE-05", "EXE-14")
async def test_a_file_is_sent_whole_and_again_only_when_it_changed(world: World) -> None:
    notes, code = file("notes.md", "one", is_touched=True), file("a.py", "print(1)\n")
    async with world.orchestrator() as orchestrator:
        first = await orchestrator.execute(world.store, asked("One", active_files=(notes, code)))
        for files in ((notes, code), (file("notes.md", "two"), code)):
            await orchestrator.execute(
                world.store, asked("More", session_id=first.session_id, active_files=files)
            )
    turns = await world.store.list_turns(first.session_id)
    refs = [
        [(ref.path, ref.is_touched, ref.was_sent_to_llm) for ref in turn.active_file_refs] for turn in turns
    ]
    assert refs == [
        [("notes.md", True, True), ("a.py", False, True)],
        [("notes.md", True, False), ("a.py", False, False)],
        [("notes.md", False, True), ("a.py", False, False)],
    ]
    ref = turns[0].active_file_refs[1]
    assert (ref.content_hash, ref.size_bytes) == (sha256(b"print(1)\n").hexdigest(), 9)
    assert await world.blobs.get("local", ref.content_hash) == b"print(1)\n"
    assert "Path: a.py" in said(world.model.requests[0])[1]
    assert len(said(world.model.requests[1])) == 1
    assert "two" in said(world.model.requests[2])[1]


@pytest.mark.req("EXE-05", "EXE-14")
async def test_files_that_cannot_be_sent_are_recorded_and_said(world: World) -> None:
    files = (
        file("large.txt", "x" * (100 * 1024 + 1)),
        file("at-the-limit.txt", "x" * (100 * 1024)),
        file("binary", "a\0b"),
        file("vanished.txt"),
    )
    async with world.orchestrator() as orchestrator:
        answer = await orchestrator.execute(world.store, asked("Look", active_files=files))
    assert answer.warnings == (
        "large.txt was not sent: it has 102,401 bytes, and 102,400 are sent.",
        "binary was not sent: it is not text.",
        "vanished.txt was not sent: its content did not come with the request.",
    )
    (turn,) = await world.store.list_turns(answer.session_id)
    assert [(ref.path, ref.was_sent_to_llm, ref.was_too_large_to_send) for ref in turn.active_file_refs] == [
        ("large.txt", False, True),
        ("at-the-limit.txt", True, False),
        ("binary", False, False),
    ]


async def test_the_answer_is_told_as_it_comes_and_only_once_it_is_stored(world: World) -> None:
    told: list[ExecutionEvent] = []
    async with world.orchestrator() as orchestrator:
        answer = await orchestrator.execute(world.store, asked("Look"), tell=told.append)
    assert "".join(event.text for event in told if isinstance(event, TextAdded)) == answer.text
    stages = [event.stage for event in told if isinstance(event, StageReached)]
    assert stages == [
        Stage.SESSION_STARTED,
        Stage.TURN_CREATED,
        Stage.TURN_EXECUTION_STARTED,
        Stage.FILES_ANALYSED,
        Stage.LLM_STARTED,
        Stage.LLM_COMPLETED,
        Stage.TURN_COMPLETED,
    ]


@pytest.mark.req("EXE-10")
async def test_sequences_have_no_gap_however_many_call_at_once(either_world: World) -> None:
    world = either_world
    async with world.orchestrator() as orchestrator:
        first = await orchestrator.execute(world.store, asked("First"))
        answers = await asyncio.gather(
            *(
                orchestrator.execute(world.store, asked(f"Call {number}", session_id=first.session_id))
                for number in range(50)
            )
        )
    assert {answer.kind for answer in answers} == {AnswerKind.ANSWER}
    turns = await world.store.list_turns(first.session_id)
    assert [turn.sequence_number for turn in turns] == list(range(1, 52))
    assert [turn.previous_openai_response_id for turn in turns] == [
        None,
        *(turn.openai_response_id for turn in turns[:-1]),
    ]


async def test_turns_of_two_processes_are_run_in_the_order_in_which_they_were_opened(world: World) -> None:
    turns = await turns_of_two_processes(world)
    assert [turn.previous_openai_response_id for turn in turns[1:]] == [
        turn.openai_response_id for turn in turns[:-1]
    ]


async def turns_of_two_processes(world: World, *, chains: bool = True) -> Sequence[Turn]:
    """Four turns, the third of which was opened by another process while the second ran."""
    async with (
        open_store(f"sqlite:///{world.path / 'holdfast.db'}") as other,
        world.orchestrator(chains=chains) as here,
        World(other, world.path, world.model).orchestrator(chains=chains) as there,
    ):
        session_id = (await here.execute(world.store, asked("Begin"))).session_id
        _, slow = await here.start(world.store, asked("SLOW", session_id=session_id))
        await until(lambda: len(world.model.requests) == 2)
        _, third = await there.start(other, asked("From elsewhere", session_id=session_id))
        _, fourth = await here.start(world.store, asked("From here", session_id=session_id))
        await asyncio.gather(slow, third, fourth)
    return await world.store.list_turns(session_id)


async def test_an_earlier_turn_that_nobody_is_at_work_on_is_not_waited_for_without_end(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.execution.orchestrator.EARLIER_SECONDS", 0.1)
    async with world.orchestrator() as orchestrator:
        session_id = (await orchestrator.execute(world.store, asked("First"))).session_id
        await world.store.add_turn(session_id, NewTurn(instruction_summary="of a process that hangs"))
        answer = await orchestrator.execute(world.store, asked("Third", session_id=session_id))
    assert answer.kind is AnswerKind.ANSWER


async def test_a_repeated_call_gives_the_same_turn_and_does_not_call_the_model_again(
    either_world: World,
) -> None:
    world = either_world
    async with world.orchestrator() as orchestrator:
        calls = (orchestrator.execute(world.store, asked("Once"), key="k") for _ in range(8))
        answers = await asyncio.gather(*calls)
        with pytest.raises(KeyReused, match="'k'"):
            await orchestrator.execute(world.store, asked("Something else"), key="k")
    async with world.orchestrator() as later:
        again = await later.execute(world.store, asked("Once"), key="k")
    assert {msgspec.json.encode(answer) for answer in (*answers, again)} == {msgspec.json.encode(answers[0])}
    assert len(world.model.requests) == 1
    assert (await world.store.list()).total == 1


async def test_a_caller_that_goes_away_does_not_stop_the_turn(world: World) -> None:
    async with world.orchestrator() as orchestrator:
        calling = asyncio.create_task(orchestrator.execute(world.store, asked("SLOW, please"), key="left"))
        await until(lambda: bool(world.model.requests))
        calling.cancel()
        await asyncio.wait([calling])
        answer = await orchestrator.execute(world.store, asked("SLOW, please"), key="left")
    assert answer.kind is AnswerKind.ANSWER
    assert len(world.model.requests) == 1


async def test_a_caller_that_goes_away_while_its_turn_is_opened_leaves_none_pending(world: World) -> None:
    async with world.orchestrator() as orchestrator:
        first = await orchestrator.execute(world.store, asked("Begin"))
        for wait in range(40):
            calling = asyncio.create_task(
                orchestrator.execute(world.store, asked(f"Go on {wait}", session_id=first.session_id))
            )
            await asyncio.sleep(wait / 4000)
            calling.cancel()
            await asyncio.wait([calling])
    assert await world.store.as_system().pending_turns() == []


async def test_a_turn_that_is_stopped_at_once_fails(world: World) -> None:
    async with world.orchestrator() as orchestrator:
        turn, running = await orchestrator.start(world.store, asked("SLOW"))
        running.cancel(INTERRUPTED)
        await asyncio.wait([running])
        ended = await world.store.get_turn(turn.session_id, turn.id)
    assert (ended.status, ended.stop_reason) == (TurnStatus.FAILED, "interrupted")


async def test_a_stored_context_that_is_wrong_is_in_nobodys_way_who_does_not_name_it(world: World) -> None:
    await world.store.save_context(ContextKind.AGENT, "reviewer", {"modle": "strict"})
    async with world.orchestrator() as orchestrator:
        assert (await orchestrator.execute(world.store, asked("Look"))).kind is AnswerKind.ANSWER
        with pytest.raises(ContextWrong, match="'reviewer' cannot be used"):
            await orchestrator.execute(world.store, asked("Look", agent_context="reviewer"))


@pytest.mark.req("EXE-27")
async def test_a_rerun_is_a_new_turn_and_the_old_one_stays_as_it_was(world: World) -> None:
    notes = {"notes.md": b"before"}

    def read(organization: str, repository: str, path: str) -> bytes | str:
        return notes[path]

    async with world.orchestrator(read_file=read) as orchestrator:
        first = await orchestrator.execute(
            world.store, asked("Look", mode=Mode.ASK, repository="here", active_files=(file("notes.md"),))
        )
        before = await world.store.get_turn(first.session_id, first.turn_id)
        notes["notes.md"] = b"after"
        again = await orchestrator.rerun(world.store, first.session_id, first.turn_id)
    assert await world.store.get_turn(first.session_id, first.turn_id) == before
    turn = await world.store.get_turn(again.session_id, again.turn_id)
    assert (turn.sequence_number, turn.instruction_summary) == (2, "Look")
    assert turn.active_file_refs[0].content_hash == sha256(b"after").hexdigest()
    assert turn.previous_openai_response_id == before.openai_response_id


async def test_a_replay_makes_the_very_same_request_again(world: World) -> None:
    async with world.orchestrator(contexts={"default": {"instructions": "Be brief."}}) as orchestrator:
        first = await orchestrator.execute(world.store, asked("One", active_files=(file("a.py", "1\n"),)))
        await orchestrator.execute(world.store, asked("Two", session_id=first.session_id))
        world.model.forget()
        await orchestrator.execute(world.store, asked("Three", session_id=first.session_id))
    for turn in await world.store.list_turns(first.session_id):
        made = await replay(world.store, world.blobs, first.session_id, turn.id)
        assert made.identical, turn.sequence_number
        assert made.sent_hash == made.remade_hash


async def test_an_earlier_turn_that_is_answered_later_does_not_change_a_replay(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def go_ahead(*_: object) -> None:
        """As when whoever has the earlier turn hangs."""

    monkeypatch.setattr(Orchestrator, "_wait_for_the_one_before", go_ahead)
    turns = await turns_of_two_processes(world, chains=False)
    assert [turn.status for turn in turns] == [TurnStatus.COMPLETED] * 4
    for turn in turns:
        assert (await replay(world.store, world.blobs, turn.session_id, turn.id)).identical


async def test_a_replay_says_what_is_missing(world: World) -> None:
    async with world.orchestrator() as orchestrator:
        answer = await orchestrator.execute(world.store, asked("One", active_files=(file("a.py", "1\n"),)))
    (turn,) = await world.store.list_turns(answer.session_id)
    (stored,) = world.path.rglob(f"{turn.active_file_refs[0].content_hash}*")
    stored.unlink()
    made = await replay(world.store, world.blobs, answer.session_id, turn.id)
    assert not made.identical
    assert made.problem is not None
    assert turn.active_file_refs[0].content_hash in made.problem


async def test_a_turn_that_was_never_sent_cannot_be_replayed(world: World) -> None:
    session = await world.store.create_session(NewSession(agent="gemini"))
    turn = await world.store.add_turn(session.id, NewTurn(instruction_summary="Look"))
    with pytest.raises(NotFound, match="not sent to a model"):
        await replay(world.store, world.blobs, session.id, turn.id)


async def test_nothing_that_a_turn_was_made_of_is_collected_as_an_orphan(world: World) -> None:
    async with world.orchestrator() as orchestrator:
        answer = await orchestrator.execute(world.store, asked("One", active_files=(file("a.py", "1\n"),)))
    later = datetime.now(UTC) + timedelta(days=10)
    assert await collect_orphans(world.blobs, world.store, now=later) == Collection(0, 0, 0)
    assert (await replay(world.store, world.blobs, answer.session_id, answer.turn_id)).identical
    await world.store.delete(answer.session_id)
    collected = await collect_orphans(world.blobs, world.store, now=later)
    assert collected.set_aside == 6  # instruction, file, parameters, request, answer, response
