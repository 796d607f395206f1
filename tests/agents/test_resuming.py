"""Sessions that outlive their agents and servers: resumed, forked, and put right after a crash."""

import asyncio
import os
import shutil
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast import NewCompaction, Session, SessionPatch, SessionStatus, TextContent, TurnStatus, open_store
from holdfast.agents.catalogue import AgentEntry
from holdfast.agents.primer import make_primer
from holdfast.agents.process import strays
from holdfast.agents.session_files import kept
from holdfast.agents.supervisor import ServedElsewhere, StartFailed, Supervisor
from holdfast.compaction.policy import CompactionPolicy
from holdfast.errors import Conflict, InvalidTransition, SessionEnded
from holdfast.model.question import QuestionSet, QuestionStatus
from tests.agents.scripts import members, script
from tests.agents.worlds import World, working
from tests.waiting import SECONDS, until


async def test_a_resumed_session_goes_on_in_the_same_place(world: World) -> None:
    async with working(world) as (supervisor, session):
        await world.ask(supervisor, session, "say first")
        await supervisor.complete(world.store, session.id)
        before = await world.store.get_session(session.id)
        resumed = await supervisor.resume(world.store, session.id)
        assert (resumed.id, resumed.status) == (session.id, SessionStatus.ACTIVE)
        assert resumed.agent_session_id == before.agent_session_id
        turn = await world.ask(supervisor, session, "say second")
        assert (turn.sequence_number, turn.agent_answer_summary) == (2, "second ")
        said = [text for role, text in await world.texts(session) if role == "agent"]
        assert said == ["first ", "second "]


async def test_what_a_loading_agent_tells_of_the_past_is_not_stored_again(world: World) -> None:
    world.agents["demo"] = msgspec.structs.replace(world.demo, env={"HOLDFAST_DEMO_RESUME": "no"})
    async with working(world) as (supervisor, session):
        await world.ask(supervisor, session, "say first")
        await supervisor.cancel(world.store, session.id)
        count = (await world.store.get_session(session.id)).message_count
        await supervisor.resume(world.store, session.id)
        assert (await world.store.get_session(session.id)).message_count == count
        assert (await world.ask(supervisor, session, "say second")).agent_answer_summary == "second "


async def test_an_agent_without_memory_is_told_the_transcript(world: World, tmp_path: Path) -> None:
    world.agents["echo"] = forgetful(tmp_path)
    async with world.supervisor() as supervisor:
        session = await world.open(supervisor, "echo")
        await world.ask(supervisor, session, "remember the word heron")
        await supervisor.complete(world.store, session.id)
        await supervisor.resume(world.store, session.id)
        (noted,) = [m for m in await world.messages(session) if "primer" in m.metadata]
        assert noted.metadata["primer"]["firstSeq"] == 1
        turn = await world.ask(supervisor, session, "what was it")
        assert "user: remember the word heron" in (turn.agent_answer_summary or "")
        turn = await world.ask(supervisor, session, "and now")
        assert turn.agent_answer_summary == "and now"


async def test_a_primer_is_the_latest_that_there_is_room_for(world: World) -> None:
    async with working(world) as (supervisor, session):
        for word in ("one", "two", "three"):
            await world.ask(supervisor, session, f"say {word}")
        primer = await make_primer(world.store, session.id, room=60)
        assert primer is not None
        assert "agent: three" in primer.text
        assert "one" not in primer.text
        assert primer.last_seq == (await world.store.get_session(session.id)).message_count


async def test_a_primer_has_the_summary_of_what_was_folded(world: World, tmp_path: Path) -> None:
    world.agents["echo"] = forgetful(tmp_path)
    async with world.supervisor() as supervisor:
        session = await world.open(supervisor, "echo")
        for text in ("remember the word heron", "and the word egret"):
            await world.ask(supervisor, session, text)
        last = next(m.seq for m in await world.messages(session) if "egret" in m.text) - 1
        fold = NewCompaction(first_seq=1, last_seq=last, strategy="summarize", summary="A word was given.")
        compaction = await world.store.commit_compaction(session.id, fold)

        fork = await supervisor.fork(world.store, session.id)
        (copy,) = await world.store.list_compactions(fork.id)
        await supervisor.complete(world.store, session.id)
        resumed = await supervisor.resume(world.store, session.id)
        for each, folded in ((resumed, compaction), (fork, copy)):
            (noted,) = [m for m in await world.messages(each) if "primer" in m.metadata]
            assert noted.metadata["primer"]["compactionId"] == folded.id
            assert noted.metadata["primer"]["firstSeq"] == 1
            told = (await world.ask(supervisor, each, "what was it")).agent_answer_summary or ""
            assert "summary of what was said before: A word was given." in told
            assert "user: and the word egret" in told
            assert "heron" not in told


@pytest.mark.req("STO-16")
async def test_a_long_session_is_compacted_after_its_turns_as_its_agent_is_configured(
    world: World, tmp_path: Path
) -> None:
    strategy = {"name": "summarize", "keep_recent_turns": 1}
    policy = CompactionPolicy(strategy=strategy, messages=6, share=None, window=4_000)
    world.agents["echo"] = msgspec.structs.replace(forgetful(tmp_path), compaction=policy)
    async with world.supervisor() as supervisor:
        session = await world.open(supervisor, "echo")
        for number in range(4):
            said = f"Do not touch src/heron_{number}.py, because test_{number} needs it as it is. " * 9
            await world.ask(supervisor, session, said)

        async def compacted() -> int:
            return (await world.store.get_session(session.id)).compaction_count

        await until(compacted)
        assert (await world.ask(supervisor, session, "and on")).status is TurnStatus.COMPLETED
        await supervisor.complete(world.store, session.id)
        await supervisor.resume(world.store, session.id)
        told = (await world.ask(supervisor, session, "what was it")).agent_answer_summary or ""
    assert "summary of what was said before: " in told


async def test_an_ended_in_error_session_is_forked_and_not_resumed(world: World) -> None:
    async with working(world) as (supervisor, session):
        await world.ask(supervisor, session, "say heron\ncrash")
        await until(lambda: has_status(world, session.id, SessionStatus.ERROR))
        with pytest.raises(InvalidTransition):
            await supervisor.resume(world.store, session.id)
        fork = await supervisor.fork(world.store, session.id)
        assert (fork.agent, fork.repo_id, fork.status) == ("demo", session.repo_id, SessionStatus.ACTIVE)
        assert fork.custom["forkedFrom"]["session"] == session.id
        original = [message.content for message in await world.messages(session)]
        assert [message.content for message in await world.messages(fork)][: len(original)] == original
        assert (await world.ask(supervisor, fork, "say on")).sequence_number == 1


async def test_a_fork_of_a_session_at_work_has_what_was_said_so_far(world: World) -> None:
    async with working(world) as (supervisor, session):
        turn = await supervisor.prompt(world.store, session.id, "say so far\nwait")

        async def said() -> bool:
            return ("agent", "so far ") in await world.texts(session)

        await until(said)
        fork = await supervisor.fork(world.store, session.id)
        copies = [message.content for message in await world.messages(fork)]
        assert TextContent(text="so far ", partial=False) in copies
        assert (await world.store.get_turn(session.id, turn.id)).status is TurnStatus.PENDING


async def test_a_failed_resume_leaves_the_session_as_it_was(world: World) -> None:
    async with working(world) as (supervisor, session):
        await supervisor.complete(world.store, session.id)
        world.agents["demo"] = AgentEntry(command=sys.executable, args=("-c", "raise SystemExit(4)"))
        async with world.supervisor() as other:
            with pytest.raises(StartFailed):
                await other.resume(world.store, session.id)
        assert (await world.status(session))[0] == "completed"
        assert await world.store.processes(session.id) == []


async def test_two_who_resume_at_once_start_one_agent(world: World) -> None:
    async with working(world) as (supervisor, session):
        await supervisor.complete(world.store, session.id)
        resumed = await asyncio.gather(*(supervisor.resume(world.store, session.id) for _ in range(4)))
        assert {each.status for each in resumed} == {SessionStatus.ACTIVE}
        assert len(supervisor.agents) == 1


async def test_those_who_resume_at_once_over_postgresql_start_one_agent(
    postgres_url: str, tmp_path: Path
) -> None:
    """Which of them reads the session when is not the same each time."""
    async with (
        open_store(postgres_url) as store,
        working(World(store, tmp_path)) as (supervisor, session),
    ):
        for _ in range(5):
            await supervisor.complete(store, session.id)
            resumed = await asyncio.gather(*(supervisor.resume(store, session.id) for _ in range(4)))
            assert {each.status for each in resumed} == {SessionStatus.ACTIVE}
            assert len(supervisor.agents) == 1


async def test_a_prompt_while_the_agent_is_starting_is_taken_when_it_has_started(world: World) -> None:
    async with resuming(world) as (supervisor, session, starting):
        prompts = [
            asyncio.ensure_future(supervisor.prompt(world.store, session.id, f"say {word}"))
            for word in ("first", "second")
        ]
        release(world)
        assert (await starting).status is SessionStatus.ACTIVE
        turns = [await world.ended(session, turn) for turn in await asyncio.gather(*prompts)]
        assert [turn.agent_answer_summary for turn in turns] == ["first ", "second "]


async def test_a_prompt_to_an_agent_that_did_not_start_is_refused(world: World) -> None:
    async with resuming(world) as (supervisor, session, starting):
        prompting = asyncio.ensure_future(supervisor.prompt(world.store, session.id, "say something"))
        release(world, broken=True)
        with pytest.raises(StartFailed):
            await starting
        with pytest.raises(SessionEnded):
            await prompting
        assert await world.store.last_turn(session.id) is None


@pytest.mark.req("ACP-13")
async def test_a_shutdown_ends_an_agent_that_is_being_started(world: World) -> None:
    async with resuming(world) as (supervisor, session, starting):
        pass
    assert starting.done()
    with pytest.raises(Conflict, match="shutting down"):
        await starting
    assert not supervisor.agents
    assert await world.status(session) == ("completed", None)
    assert await world.store.processes(session.id) == []


async def test_an_agent_of_another_server_is_left_to_it(world: World, tmp_path: Path) -> None:
    async with working(world) as (_, session):
        async with open_store(f"sqlite:///{tmp_path / 'holdfast.db'}") as store:
            other = World(store, tmp_path)
            async with other.supervisor() as supervisor:
                with pytest.raises(ServedElsewhere):
                    await supervisor.resume(store, session.id)
        assert await world.status(session) == ("active", None)


@pytest.mark.req("SEC-11")
async def test_a_killed_server_leaves_nothing_half_done(world: World) -> None:
    """A server is killed in the middle of a turn with a question open; the next one puts things right."""
    told, question = await killed_server(world)

    async def agent_is_gone() -> bool:
        return not await asyncio.to_thread(strays, told["mark"])

    await until(agent_is_gone)  # its sandbox ends with the server
    assert left_by_sandboxes(world)
    async with world.supervisor() as supervisor:
        assert left_by_sandboxes(world) == []
        session = await world.store.get_session(told["session"])
        assert (session.status, session.status_reason) == (SessionStatus.CANCELLED, "server_restart")
        assert members(told["pid"]) == []
        turns = await world.store.list_turns(session.id)
        assert {(turn.status, turn.stop_reason) for turn in turns} == {(TurnStatus.FAILED, "server_restart")}
        assert (await world.box.get(question.id)).status is QuestionStatus.REJECTED
        assert ("agent", "heron ") in await world.texts(session)
        assert await world.store.processes(session.id) == []
        await supervisor.resume(world.store, session.id)
        assert (await world.ask(supervisor, session, "say on")).agent_answer_summary == "on "


@pytest.mark.req("SEC-18")
async def test_a_server_on_a_copy_ends_no_agent_of_the_server_that_it_was_copied_from(world: World) -> None:
    copy = world.directory / "copy"
    async with working(world) as (supervisor, session):
        agent = supervisor.agents[session.id]
        shutil.copytree(world.directory, copy, ignore=shutil.ignore_patterns("copy", "workspace", "socket"))
        async with open_store(f"sqlite:///{copy / 'holdfast.db'}") as store:
            other = World(store, copy)
            other.records = world.records
            async with other.supervisor() as second:
                there = await store.get_session(session.id)
                assert (there.status, there.status_reason) == (SessionStatus.CANCELLED, "server_restart")
                other.root = world.root
                second.repositories = world.repositories
                await second.resume(store, session.id)
                await second.cancel(store, session.id)
            assert members(agent.process.pid)
            assert (world.repository / ".git" / "commondir").exists()
        assert (await world.ask(supervisor, session, "say on")).agent_answer_summary == "on "


async def test_a_question_that_cannot_be_withdrawn_does_not_keep_the_next_server_from_starting(
    world: World,
) -> None:
    told, question = await killed_server(world)
    lock = world.box.directory / question.id / "answers.json.lock"
    lock.write_text(str(os.getpid()))  # as another program writes it that is alive, or whose number is
    async with world.supervisor():
        session = await world.store.get_session(told["session"])
        assert (session.status, session.status_reason) == (SessionStatus.CANCELLED, "server_restart")
        assert await world.store.processes(session.id) == []


async def test_an_archived_session_is_resumed_if_it_had_not_failed(world: World) -> None:
    async with working(world) as (supervisor, session):
        await supervisor.complete(world.store, session.id)
        await world.store.patch(session.id, SessionPatch(status=SessionStatus.ARCHIVED))
        assert (await supervisor.resume(world.store, session.id)).status is SessionStatus.ACTIVE


async def test_files_that_a_failed_load_destroys_are_put_back(tmp_path: Path) -> None:
    chats = tmp_path / ".gemini" / "tmp" / "p" / "chats"
    chats.mkdir(parents=True)
    (chats / "session-2026-0123abcd.jsonl").write_text("history")
    pattern = ".gemini/tmp/*/chats/session-*-{id8}.jsonl"

    async def load() -> None:
        async with kept(tmp_path, [pattern], "0123abcd-ffff"):
            (chats / "session-2026-0123abcd.jsonl").unlink()
            raise StartFailed("it did not load")

    with pytest.raises(StartFailed):
        await load()
    assert (chats / "session-2026-0123abcd.jsonl").read_text() == "history"


def left_by_sandboxes(world: World) -> list[Path]:
    stand_in = world.repository / ".git" / "commondir"
    return [*(world.directory / "sandboxes" / "tmp").glob("*"), *([stand_in] if stand_in.exists() else [])]


async def killed_server(world: World) -> tuple[dict[str, Any], QuestionSet]:
    """A server that was killed: what it told of its session, and the question that was open."""
    await world.repo()
    server = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.agents.server", str(world.directory)),
        stdout=asyncio.subprocess.PIPE,
        cwd=Path(__file__).parents[2],
    )
    assert server.stdout is not None
    async with asyncio.timeout(SECONDS):
        told = msgspec.json.decode(await server.stdout.readline())
    (question,) = await until(lambda: world.box.list({QuestionStatus.PENDING}))
    server.send_signal(signal.SIGKILL)
    await server.wait()
    return told, question


async def has_status(world: World, session_id: str, status: SessionStatus) -> bool:
    return (await world.store.get_session(session_id)).status is status


@asynccontextmanager
async def resuming(world: World) -> AsyncIterator[tuple[Supervisor, Session, asyncio.Future[Session]]]:
    """A session whose agent is being started again, and waits to be released."""
    gate = f"""
while not os.path.exists({str(world.directory / "released")!r}):
    time.sleep(0.02)
if os.path.exists({str(world.directory / "broken")!r}):
    sys.exit(1)
os.execv(sys.executable, [sys.executable, *{world.demo.args!r}])
"""
    command, *args = script(world.directory, gate)
    seen = (*world.demo.sees, str(world.directory))
    world.agents["gated"] = msgspec.structs.replace(world.demo, command=command, args=tuple(args), sees=seen)
    async with world.supervisor() as supervisor:
        release(world)
        session = await world.open(supervisor, "gated")
        await supervisor.complete(world.store, session.id)
        (world.directory / "released").unlink()
        starting = asyncio.ensure_future(supervisor.resume(world.store, session.id))
        await until(lambda: has_status(world, session.id, SessionStatus.ACTIVE))
        yield supervisor, session, starting


def release(world: World, *, broken: bool = False) -> None:
    if broken:
        (world.directory / "broken").touch()
    (world.directory / "released").touch()


def forgetful(directory: Path) -> AgentEntry:
    """An agent that can neither load nor resume, and says what it was told."""
    body = """
for line in lines():
    answer = {"initialize": {"protocolVersion": 1}, "session/new": {"sessionId": "s"}}.get(line["method"])
    if line["method"] == "session/prompt":
        text = "".join(block["text"] for block in line["params"]["prompt"])
        chunk = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}
        send({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s", "update": chunk}})
        answer = {"stopReason": "end_turn"}
    if "id" in line:
        send({"jsonrpc": "2.0", "id": line["id"], "result": answer})
"""
    command, *args = script(directory, body)
    return AgentEntry(command=command, args=tuple(args))
