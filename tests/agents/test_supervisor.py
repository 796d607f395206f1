"""Sessions with an agent, from their start to their end: a real child process, a real store."""

import asyncio
import resource
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest

from holdfast import (
    NewSession,
    PlanContent,
    Principal,
    SessionPatch,
    SessionStatus,
    TextContent,
    ToolContent,
    TurnStatus,
)
from holdfast.agents.catalogue import AgentEntry, AgentNotInstalled
from holdfast.agents.live import AgentNotRunning, Limits
from holdfast.agents.supervisor import StartFailed, Supervisor, TooManySessions
from holdfast.agents.wire import AgentError
from holdfast.agents.workspace import OutsideWorkspace
from holdfast.errors import InvalidInput, InvalidTransition, NotFound, SessionEnded, SessionNotFound
from holdfast.model.ids import RepoId
from holdfast.model.question import NewQuestionSet, Option, Question
from holdfast.model.records import Repo
from holdfast.store.ids import new_id
from tests.agents.scripts import members, script
from tests.agents.worlds import PYTHON, World, working
from tests.waiting import until


@pytest.mark.req("ACP-01", "ACP-03", "SES-04", "SES-12")
async def test_a_session_is_active_with_an_agent_in_its_repository(world: World) -> None:
    world.trust()
    async with working(world) as (supervisor, session):
        stored = await world.store.get_session(session.id)
        assert (stored.status, stored.agent) == (SessionStatus.ACTIVE, "demo")
        assert stored.repo_id == (await world.repo()).id
        assert stored.agent_session_id
        assert stored.agent_state["agent"]["name"] == "holdfast-demo"
        process = psutil.Process(supervisor.agents[session.id].process.pid)
        assert process.cwd() == str(world.repository)
        (record,) = await world.store.processes(session.id)
        assert record.process_group == process.pid
        turn = await world.ask(supervisor, session, "run pwd")
        assert turn.agent_answer_summary == f"It said: {world.repository} "


@pytest.mark.req("SES-12")
async def test_a_workspace_flag_is_passed_with_the_absolute_path(world: World, tmp_path: Path) -> None:
    show = "open('arguments', 'w').write(' '.join(sys.argv[1:])); sys.exit(3)"
    command, *args = script(tmp_path, show)
    world.agents["flagged"] = AgentEntry(command=command, args=tuple(args), workspace_flag="--workspace")
    async with world.supervisor() as supervisor:
        with pytest.raises(StartFailed):
            await world.open(supervisor, "flagged")
    assert (world.repository / "arguments").read_text() == f"--workspace {world.repository}"


async def test_a_relative_command_is_ours_and_not_one_in_the_repository(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.repo()
    ours, theirs = tmp_path / "tools", world.repository / "tools"
    for directory, body in ((ours, shlex.join([sys.executable, *world.demo.args])), (theirs, "false")):
        directory.mkdir()
        (directory / "agent").write_text(f"#!/bin/sh\nexec {body}\n")
        (directory / "agent").chmod(0o755)
    monkeypatch.chdir(tmp_path)
    world.agents["mine"] = msgspec.structs.replace(world.demo, command="tools/agent", args=(), sees=PYTHON)
    async with world.supervisor() as supervisor:
        assert (await world.open(supervisor, "mine")).status is SessionStatus.ACTIVE


@pytest.mark.req("ACP-02")
async def test_a_missing_program_is_named_and_makes_no_session(world: World, tmp_path: Path) -> None:
    world.agents["gemini"] = AgentEntry(command=str(tmp_path / "bin" / "gemini"), install="npm install it")
    async with world.supervisor() as supervisor:
        with pytest.raises(AgentNotInstalled, match=r"bin/gemini' was not found.* npm install it"):
            await world.open(supervisor, "gemini")
    assert (await world.store.list()).total == 0


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("sys.stderr.write('no such flag'); sys.exit(2)", "exit code 2.\nno such flag"),
        ("send({'jsonrpc': '2.0', 'id': 1, 'error': {'code': 1, 'message': 'sign in first'}})\nlist(lines())",
         "refused initialize: sign in first"),
        ("os.close(1); time.sleep(60)", "closed its output"),
    ],
)  # fmt: skip
async def test_an_agent_that_does_not_start_says_why_and_leaves_no_session(
    world: World, tmp_path: Path, body: str, why: str
) -> None:
    command, *args = script(tmp_path, body)
    world.agents["odd"] = AgentEntry(command=command, args=tuple(args))
    async with world.supervisor() as supervisor:
        with pytest.raises(StartFailed) as failed:
            await world.open(supervisor, "odd")
        assert not supervisor.agents
    assert why in str(failed.value)
    assert (await world.store.list()).total == 0


async def test_an_agent_that_did_not_start_is_ended_though_its_caller_is_gone(
    world: World, tmp_path: Path
) -> None:
    body = """
signal.signal(signal.SIGTERM, signal.SIG_IGN)
send({"jsonrpc": "2.0", "id": 1, "error": {"code": 1, "message": "sign in first"}})
list(lines())
open("told to end", "w").write(str(os.getpid()))
time.sleep(600)"""
    command, *args = script(tmp_path, body)
    world.agents["stubborn"] = AgentEntry(command=command, args=tuple(args))
    async with world.supervisor() as supervisor:
        opening = asyncio.create_task(world.open(supervisor, "stubborn"))
        told = world.repository / "told to end"

        async def is_told() -> bool:
            return told.exists() and bool(told.read_text())

        await until(is_told)
        opening.cancel()
        await asyncio.wait([opening])
        assert opening.cancelled()
        assert members(int(told.read_text())) == []
    assert (await world.store.list()).total == 0


async def test_a_session_is_not_left_behind_by_a_caller_who_is_cancelled(world: World) -> None:
    repo = await world.repo()
    assert repo.id is not None
    async with world.supervisor() as supervisor:
        for steps in range(0, 90, 2):
            creating = asyncio.create_task(supervisor.create(world.store, repo.id, agent="demo"))
            for _ in range(steps):
                await asyncio.sleep(0)
            creating.cancel()
            await asyncio.wait([creating])
            assert creating.cancelled()
        assert not supervisor.agents
    assert (await world.store.list()).total == 0


async def test_an_agent_that_never_answers_is_given_up(world: World, tmp_path: Path) -> None:
    command, *args = script(tmp_path, "list(lines())")
    world.agents["mute"] = AgentEntry(command=command, args=tuple(args))
    async with world.supervisor(limits=Limits(answer=0.2)) as supervisor:
        with pytest.raises(StartFailed, match=r"did not answer initialize within 0\.2 seconds"):
            await world.open(supervisor, "mute")
    assert (await world.store.list()).total == 0


@pytest.mark.req("ACP-04", "SES-11")
async def test_an_unknown_repository_starts_nothing(world: World) -> None:
    async with world.supervisor() as supervisor:
        with pytest.raises(NotFound):
            await supervisor.create(world.store, RepoId(new_id()), agent="demo")
    assert (await world.store.list()).total == 0


@pytest.mark.req("ACP-05", "SES-11", "SES-13")
@pytest.mark.parametrize("way", ["absolute", "dots", "link"])
async def test_a_repository_outside_the_root_is_refused_and_audited(
    world: World, tmp_path: Path, way: str
) -> None:
    await world.repo()
    outside = tmp_path / "outside"
    outside.mkdir()
    (world.root / "link").symlink_to(outside)
    path = {"absolute": outside, "dots": world.root / ".." / "outside", "link": world.root / "link"}[way]
    (repo,) = await world.store.save_repos([Repo(name="escape", path=str(path))])
    assert repo.id is not None
    async with world.supervisor() as supervisor:
        with pytest.raises(OutsideWorkspace):
            await supervisor.create(world.store, repo.id, agent="demo")
    (entry,) = await world.store.list_audit()
    assert (entry.action, entry.outcome, entry.subject) == ("repository.use", "denied", str(path))
    assert (await world.store.list()).total == 0


@pytest.mark.req("ACP-06", "ACP-08", "ACP-09", "ACP-10")
async def test_a_prompt_is_a_turn_with_everything_the_agent_did(world: World) -> None:
    async with working(world) as (supervisor, session):
        turn = await world.ask(supervisor, session, "hello")
        assert (turn.status, turn.stop_reason) == (TurnStatus.COMPLETED, "end_turn")
        assert (turn.usage.input, turn.usage.output > 10) == (1, True)
        messages = await world.messages(session)
    assert {each.turn_id for each in messages} == {turn.id}
    assert (messages[0].role, messages[0].text) == ("user", "hello")
    kinds = [type(each.content) for each in messages]
    assert PlanContent in kinds
    (tool,) = [each.content for each in messages if isinstance(each.content, ToolContent)]
    assert (tool.tool, tool.status, tool.result) == ("List files", "completed", {"files": ["README.md"]})
    assert messages[-1].content == TextContent(text=turn.agent_answer_summary or "", partial=False)
    stored = await world.store.get_session(session.id)
    assert (stored.title, stored.token_usage) == ("hello", turn.usage)


async def test_what_a_turn_used_is_what_the_session_used_since(world: World) -> None:
    async with working(world) as (supervisor, session):
        turns = [await world.ask(supervisor, session, "say one two three") for _ in range(2)]
        assert [(turn.usage.input, turn.usage.output) for turn in turns] == [(4, 3), (4, 3)]
        used = (await world.store.get_session(session.id)).token_usage
        assert (used.input, used.output) == (8, 6)


async def test_prompts_are_taken_in_order_and_each_is_stored_at_once(world: World) -> None:
    async with working(world) as (supervisor, session):
        prompts = ["slow 3", "say two", "say three"]
        turns = [await supervisor.prompt(world.store, session.id, prompt) for prompt in prompts]
        assert [turn.sequence_number for turn in turns] == [1, 2, 3]
        users = [text for role, text in await world.texts(session) if role == "user"]
        assert users == prompts
        ended = [await world.ended(session, turn) for turn in turns]
        assert [turn.agent_answer_summary for turn in ended] == ["0 1 2 ", "two ", "three "]


async def test_prompts_at_once_are_answered_in_the_order_in_which_they_are_stored(world: World) -> None:
    async with working(world) as (supervisor, session):
        calls = (supervisor.prompt(world.store, session.id, f"say {number}") for number in range(50))
        turns = sorted(await asyncio.gather(*calls), key=lambda turn: turn.sequence_number)
        assert [turn.sequence_number for turn in turns] == list(range(1, 51))
        await world.ended(session, turns[-1])
        asked = [text for role, text in await world.texts(session) if role == "user"]
        answered = [text for role, text in await world.texts(session) if role == "agent"]
        assert sorted(asked) == sorted(f"say {number}" for number in range(50))
        assert answered == [f"{text.removeprefix('say ')} " for text in asked]


async def test_a_prompt_that_is_stored_runs_though_its_caller_is_gone(world: World) -> None:
    async with working(world) as (supervisor, session):
        for steps in range(0, 90, 2):
            calling = asyncio.create_task(supervisor.prompt(world.store, session.id, f"say {steps}"))
            for _ in range(steps):
                await asyncio.sleep(0)
            calling.cancel()
            await asyncio.wait([calling])
        last = await world.ask(supervisor, session, "say last")
        turns = await world.store.list_turns(session.id)
        assert {turn.status for turn in turns} == {TurnStatus.COMPLETED}
        assert 1 < len(turns) == last.sequence_number


async def test_what_an_agent_refuses_fails_its_turn_and_no_other(world: World) -> None:
    async with working(world) as (supervisor, session):
        failed = await world.ask(supervisor, session, "fail out of tokens")
        assert (failed.status, failed.stop_reason) == (TurnStatus.FAILED, "error")
        assert failed.errors == ("The agent refused session/prompt: out of tokens",)
        assert ("system", failed.errors[0]) in await world.texts(session)
        assert (await world.ask(supervisor, session, "say on")).agent_answer_summary == "on "


@pytest.mark.req("ACP-07", "SES-05")
async def test_a_completed_session_takes_no_prompt(world: World) -> None:
    async with working(world) as (supervisor, session):
        ended = await supervisor.complete(world.store, session.id)
        assert ended.status is SessionStatus.COMPLETED
        with pytest.raises(SessionEnded) as refused:
            await supervisor.prompt(world.store, session.id, "more")
        assert refused.value.session_status == "completed"
        with pytest.raises(InvalidInput):
            await supervisor.prompt(world.store, session.id, "  ")
    assert (await world.store.list_turns(session.id)) == []


@pytest.mark.req("ACP-11", "SES-06")
async def test_a_cancelled_session_says_by_whom_and_its_agent_is_gone(world: World) -> None:
    async with working(world) as (supervisor, session):
        running = await supervisor.prompt(world.store, session.id, "wait")
        queued = await supervisor.prompt(world.store, session.id, "say never")
        pid = supervisor.agents[session.id].process.pid
        ended = await supervisor.cancel(world.store, session.id)
        assert (ended.status, ended.status_reason) == (SessionStatus.CANCELLED, None)
        assert not supervisor.agents
        assert not psutil.pid_exists(pid)
        assert (await world.store.get_turn(session.id, running.id)).stop_reason == "cancelled"
        never = await world.store.get_turn(session.id, queued.id)
        assert (never.status, never.errors) == (
            TurnStatus.FAILED,
            ("The session ended before this prompt was sent to the agent.",),
        )
        assert (await world.texts(session))[-1] == ("system", "The session was cancelled by local.")
        assert await world.store.processes(session.id) == []


async def test_an_agent_that_ignores_a_cancel_is_ended_all_the_same(world: World, tmp_path: Path) -> None:
    world.agents["deaf"] = deaf_agent(tmp_path)
    async with world.supervisor(limits=Limits(cancel=0.2)) as supervisor:
        session = await world.open(supervisor, "deaf")
        turn = await supervisor.prompt(world.store, session.id, "anything")
        ended = await supervisor.cancel(world.store, session.id)
        assert ended.status is SessionStatus.CANCELLED
        assert (await world.store.get_turn(session.id, turn.id)).status is TurnStatus.FAILED


@contextmanager
def full_disk() -> Iterator[None]:
    """No file of this process can be written to."""
    room = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, room[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, room)


async def test_an_agent_is_ended_on_a_full_disk_and_its_end_is_stored_when_there_is_room(
    world: World,
) -> None:
    world.trust()
    async with working(world, limits=Limits(cancel=0.2)) as (supervisor, session):
        agent = supervisor.agents[session.id]
        turn = await supervisor.prompt(world.store, session.id, "run sleep 600")

        async def a_command_runs() -> bool:
            return len(await world.store.processes(session.id)) == 2

        await until(a_command_runs)
        with full_disk():
            cancelling = asyncio.create_task(supervisor.cancel(world.store, session.id))
            endings: list[asyncio.Future[Any]] = [agent.process.exited, cancelling]
            await asyncio.wait(endings, return_when=asyncio.FIRST_COMPLETED)
            assert agent.process.exited.done()
        assert (await cancelling).status is SessionStatus.CANCELLED
        assert (await world.store.get_turn(session.id, turn.id)).status is TurnStatus.FAILED
        assert await world.store.processes(session.id) == []
        assert (await supervisor.resume(world.store, session.id)).status is SessionStatus.ACTIVE


async def test_cancelling_a_turn_leaves_the_session_active(world: World) -> None:
    async with working(world) as (supervisor, session):
        turn = await supervisor.prompt(world.store, session.id, "wait")
        await supervisor.cancel_turn(world.store, session.id)
        ended = await world.ended(session, turn)
        assert (ended.status, ended.stop_reason) == (TurnStatus.COMPLETED, "cancelled")
        assert await world.status(session) == ("active", None)
        assert (await world.ask(supervisor, session, "say on")).agent_answer_summary == "on "
        await supervisor.cancel_turn(world.store, session.id)


@pytest.mark.req("ACP-12", "SES-07")
async def test_a_crash_is_an_error_with_what_the_agent_left_behind(world: World) -> None:
    async with working(world) as (supervisor, session):
        turn = await world.ask(supervisor, session, "crash 7")
        assert (turn.status, turn.stop_reason) == (TurnStatus.FAILED, "agent_crashed")
        assert turn.errors == ("The agent is lost. It ended with exit code 7.",)
        await until(lambda: is_in(world, session.id, SessionStatus.ERROR))
        await until(lambda: nobody_runs(supervisor))
        *_, said, report = await world.messages(session)
        assert said.content == TextContent(text="I am goi", partial=False)
        assert (
            report.text == "The agent is lost. It ended with exit code 7.\nthe demo agent was told to crash"
        )
        assert report.metadata["exitCode"] == 7
        assert "I am goi" in report.metadata["lastLines"][-1]
        with pytest.raises(InvalidTransition):
            await supervisor.resume(world.store, session.id)


async def test_an_agent_that_is_killed_is_reported_with_its_signal(world: World) -> None:
    async with working(world) as (supervisor, session):
        supervisor.agents[session.id].process.kill()
        await until(lambda: is_in(world, session.id, SessionStatus.ERROR))
        assert (await world.texts(session))[-1][1] == "The agent is lost. It was ended by SIGKILL."


@pytest.mark.req("ACP-19")
async def test_an_agent_that_closes_its_pipes_and_lives_is_ended(world: World, tmp_path: Path) -> None:
    world.agents["closing"] = answering(tmp_path, "os.close(1); time.sleep(60)")
    async with world.supervisor() as supervisor:
        session = await world.open(supervisor, "closing")
        turn = await world.ask(supervisor, session, "go")
        assert (turn.status, turn.stop_reason) == (TurnStatus.FAILED, "pipe_broken")
        await until(lambda: is_in(world, session.id, SessionStatus.ERROR))
        await until(lambda: nobody_runs(supervisor))


async def test_an_agent_that_leaves_in_peace_completes_its_session(world: World, tmp_path: Path) -> None:
    world.agents["brief"] = answering(
        tmp_path,
        "send({'jsonrpc': '2.0', 'id': line['id'], 'result': {'stopReason': 'end_turn'}}); sys.exit(0)",
    )
    async with world.supervisor() as supervisor:
        session = await world.open(supervisor, "brief")
        assert (await world.ask(supervisor, session, "bye")).status is TurnStatus.COMPLETED
        await until(lambda: is_in(world, session.id, SessionStatus.COMPLETED))
        assert await world.status(session) == ("completed", "agent_exited")


@pytest.mark.req("ACP-13")
async def test_a_shutdown_cancels_every_session_and_leaves_no_process(world: World) -> None:
    async with world.supervisor() as supervisor:
        sessions = [await world.open(supervisor) for _ in range(2)]
        await supervisor.prompt(world.store, sessions[0].id, "wait")
        pids = [agent.process.pid for agent in supervisor.agents.values()]
    assert [await world.status(session) for session in sessions] == [("cancelled", "shutdown")] * 2
    assert not any(psutil.pid_exists(pid) for pid in pids)


@pytest.mark.req("ACP-14")
async def test_a_running_process_is_looked_at_again_and_again(world: World) -> None:
    assert Limits().heartbeat == 30
    async with working(world, limits=Limits(heartbeat=0.05)) as (supervisor, session):
        agent = supervisor.agents[session.id]

        async def seen_after(moment: float) -> float | None:
            return agent.last_heartbeat if (agent.last_heartbeat or 0) > moment else None

        first = await until(lambda: seen_after(0))
        assert await until(lambda: seen_after(first)) > first


@pytest.mark.req("ACP-15", "SES-24", "SES-25")
async def test_one_agent_too_many_is_refused_until_another_has_ended(world: World) -> None:
    async with world.supervisor(limit=2) as supervisor:
        first, _ = [await world.open(supervisor) for _ in range(2)]
        with pytest.raises(TooManySessions, match="2 agents are running, which is the limit") as refused:
            await world.open(supervisor)
        assert (refused.value.status, refused.value.retry_after) == (429, 60)
        assert (await world.store.list()).total == 2
        await supervisor.complete(world.store, first.id)
        await world.open(supervisor)
        assert len(supervisor.agents) == 2


async def test_agents_that_are_being_started_count_too(world: World) -> None:
    await world.repo()
    async with world.supervisor(limit=2) as supervisor:
        opened = await asyncio.gather(*(world.open(supervisor) for _ in range(4)), return_exceptions=True)
        assert [type(each).__name__ for each in opened].count("TooManySessions") == 2
        assert len(supervisor.agents) == 2


@pytest.mark.req("ACP-16", "SES-26")
async def test_a_session_in_which_nothing_happens_is_completed(world: World) -> None:
    async with working(world, limits=Limits(idle=0.3)) as (supervisor, session):
        await until(lambda: is_in(world, session.id, SessionStatus.COMPLETED))
        assert await world.status(session) == ("completed", "idle_timeout")
        await until(lambda: nobody_runs(supervisor))


@pytest.mark.req("SES-27")
async def test_what_an_agent_says_keeps_its_session_active(world: World) -> None:
    async with working(world, limits=Limits(idle=2)) as (supervisor, session):
        turn = await world.ask(supervisor, session, "slow 25")  # longer than that, in many words
        assert turn.stop_reason == "end_turn"
        assert (await world.store.get_session(session.id)).updated_at > session.updated_at
        assert (await world.store.get_session(session.id)).status is SessionStatus.ACTIVE


async def test_a_session_that_waits_for_a_person_is_not_idle(world: World) -> None:
    async with working(world, limits=Limits(idle=2, heartbeat=0.05)) as (supervisor, session):
        turn = await supervisor.prompt(world.store, session.id, "write a.txt: hello")
        (asked,) = await until(world.box.list)
        heartbeat = supervisor.agents[session.id].last_heartbeat or 0

        async def much_later() -> bool:
            return (supervisor.agents[session.id].last_heartbeat or 0) > heartbeat + 2.5

        await until(much_later)
        await world.box.reject(asked.id, by="ada", door="test")
        assert (await world.ended(session, turn)).stop_reason == "end_turn"


async def test_a_session_is_not_idle_while_a_question_is_open_that_came_through_mcp(world: World) -> None:
    async with working(world, limits=Limits(idle=1, heartbeat=0.05)) as (supervisor, session):
        question = Question(title="Way", prompt="Which way?", options=(Option("Left"), Option("Right")))
        asked = await world.box.ask(NewQuestionSet(questions=(question,), session_id=session.id))
        agent = supervisor.agents[session.id]
        began = asyncio.get_running_loop().time()

        async def much_later() -> bool:
            return (agent.last_heartbeat or 0) > began + 2 or agent.is_ending

        await until(much_later)
        assert not agent.is_ending
        await world.box.reject(asked.id, by="ada", door="test")
        await until(lambda: is_in(world, session.id, SessionStatus.COMPLETED))
        assert await world.status(session) == ("completed", "idle_timeout")


@pytest.mark.req("ACP-18")
async def test_silence_is_warned_of_once_and_the_late_answer_is_stored(world: World) -> None:
    async with working(world, limits=Limits(silence=0.2)) as (supervisor, session):
        turn = await supervisor.prompt(world.store, session.id, "wait\nsay late")

        async def warned() -> list[str]:
            said = await world.texts(session)
            return [text for role, text in said if role == "system" and "has not answered" in text]

        await until(warned)
        assert await world.status(session) == ("active", None)
        assert (await world.store.get_turn(session.id, turn.id)).status is TurnStatus.PENDING
        await supervisor.cancel_turn(world.store, session.id)
        assert (await world.ended(session, turn)).status is TurnStatus.COMPLETED
        assert len(await warned()) == 1


async def test_a_mode_is_set_by_the_agent_that_knows_it(world: World) -> None:
    async with working(world) as (supervisor, session):
        changed = await supervisor.set_mode(world.store, session.id, "plan")
        assert changed.agent_state["modes"]["currentModeId"] == "plan"
        with pytest.raises(AgentError):
            await supervisor.set_mode(world.store, session.id, "no such mode")


async def test_a_model_is_set_by_the_agent_that_offers_it(world: World) -> None:
    async with working(world) as (supervisor, session):
        offered = session.agent_state["models"]["availableModels"]
        changed = await supervisor.set_model(world.store, session.id, "obedient-mini")
        assert changed.agent_state["models"] == {
            "availableModels": offered,
            "currentModelId": "obedient-mini",
        }
        with pytest.raises(AgentError, match="no model"):
            await supervisor.set_model(world.store, session.id, "no such model")
        kept = await world.store.get_session(session.id)
        assert kept.agent_state["models"]["currentModelId"] == "obedient-mini"


async def test_nobody_else_can_reach_a_session(world: World) -> None:
    async with working(world) as (supervisor, session):
        stranger = world.store.as_principal(Principal("elsewhere", "eve"))
        for call in (supervisor.prompt(stranger, session.id, "hi"), supervisor.cancel(stranger, session.id)):
            with pytest.raises(SessionNotFound):
                await call


async def test_a_session_without_an_agent_cannot_be_prompted_but_ended(world: World) -> None:
    plain = await world.store.create_session(NewSession(agent="demo"))
    async with world.supervisor() as supervisor:
        with pytest.raises(AgentNotRunning):
            await supervisor.prompt(world.store, plain.id, "hi")
        assert (await supervisor.cancel(world.store, plain.id)).status is SessionStatus.CANCELLED
        await world.store.patch(plain.id, SessionPatch(status=SessionStatus.ARCHIVED))
        with pytest.raises(InvalidTransition):
            await supervisor.complete(world.store, plain.id)


async def nobody_runs(supervisor: Supervisor) -> bool:
    return not supervisor.agents


async def is_in(world: World, session_id: str, status: SessionStatus) -> bool:
    return (await world.store.get_session(session_id)).status is status


def answering(directory: Path, to_prompt: str) -> AgentEntry:
    """An agent that opens a session, and does something of its own with a prompt."""
    body = f"""
for line in lines():
    if line.get("method") == "initialize":
        send({{"jsonrpc": "2.0", "id": line["id"], "result": {{"protocolVersion": 1}}}})
    elif line.get("method") == "session/new":
        send({{"jsonrpc": "2.0", "id": line["id"], "result": {{"sessionId": "s"}}}})
    elif line.get("method") == "session/prompt":
        {to_prompt}
"""
    command, *args = script(directory, body)
    return AgentEntry(command=command, args=tuple(args))


def deaf_agent(directory: Path) -> AgentEntry:
    return answering(directory, "signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(60)")
