"""Sessions that real agents serve: said, allowed, cancelled, killed, shut down and resumed."""

import os
import signal
from pathlib import Path

import psutil
import pytest

from holdfast import Role, Store
from holdfast.errors import Conflict
from holdfast.model.question import QuestionKind, QuestionStatus
from holdfast.questions import QuestionBox
from tests.real.agents import RealAgent
from tests.real.model_server import (
    ANSWER,
    QUESTION,
    SHELL_NAME,
    SHELL_TEXT,
    WRITTEN_NAME,
    WRITTEN_TEXT,
    ModelServer,
)
from tests.real.overheard import Overheard
from tests.real.serving import Served, supervising
from tests.real.waiting import until

pytestmark = pytest.mark.timeout(600)  # the first test with an agent installs it

# What each is asked to do so that it asks for permission, and the file that is there afterwards. hermes
# runs a command like this one without asking.
WRITES = ("TOOLWRITE", WRITTEN_NAME, WRITTEN_TEXT)
RUNS = ("TOOLSHELL", SHELL_NAME, SHELL_TEXT)
NEEDS_PERMISSION = {"gemini": WRITES, "codex": WRITES, "hermes": WRITES}


@pytest.mark.req("ACP-01", "ACP-03", "ACP-06", "ACP-08", "SES-04", "SES-05", "SES-12")
async def test_what_an_agent_says_is_stored_as_it_says_it(
    served: Served, agent: RealAgent, repository: Path, store: Store, overheard: Overheard
) -> None:
    assert (await served.session()).status == "active"
    [process] = await store.as_system().processes(served.id)
    assert psutil.Process(process.process_group).cwd() == str(repository)
    assert overheard.sent("session/new")[0]["cwd"] == str(repository)

    turn = await served.answered("What is the answer?")
    assert (turn.status, turn.stop_reason) == ("completed", "end_turn")
    assert (await served.said())[-1].endswith("".join(ANSWER))
    assert await served.said(Role.USER) == ["What is the answer?"]

    await served.answered("FLOOD:500")
    assert (await served.said())[-1].endswith("".join(f"{number} " for number in range(500)))

    await served.complete()
    assert (await served.session()).status == "completed"
    await agent.is_gone()
    with pytest.raises(Conflict):
        await served.prompt("more")


@pytest.mark.req("ACP-10")
async def test_a_tool_call_waits_for_a_person(
    served: Served, agent: RealAgent, repository: Path, store: Store
) -> None:
    order, name, content = NEEDS_PERMISSION[agent.name]
    turn = await served.prompt(f"{order}, please")
    question = await served.question()
    assert name in question.questions[0].prompt
    assert not (repository / name).exists()

    await served.allow(question)
    assert (await served.ended(turn)).status == "completed"
    assert (repository / name).read_text() == content
    assert "The tool said: " in (await served.said())[-1]
    tools = await served.tools()
    assert name in str(tools)
    assert not any(tool.open for tool in tools)
    decision = next(entry for entry in await store.list_audit() if entry.action == "agent.permission")
    assert (decision.outcome, decision.detail["person"]) == ("allowed", "tester")


async def test_an_agent_asks_its_person_through_the_mcp_server_it_is_given(
    served: Served, agent: RealAgent
) -> None:
    turn = await served.prompt("TOOLASK, please")
    if agent.name != "hermes":  # the others ask whether they may ask
        await served.allow(await served.question())
    question = await served.question(QuestionKind.QUESTION)
    assert (question.session_id, question.agent) == (served.id, agent.name)
    assert question.questions[0].prompt == QUESTION["prompt"]
    await served.choose(question, "Blue")
    assert (await served.ended(turn)).status == "completed"
    assert "Blue" in (await served.said())[-1]


@pytest.mark.req("ACP-11", "SES-06")
async def test_a_cancel_while_a_permission_is_pending_ends_the_turn(
    served: Served, agent: RealAgent, repository: Path, store: Store, box: QuestionBox
) -> None:
    order, name, _ = NEEDS_PERMISSION[agent.name]
    turn = await served.prompt(f"{order}, please")
    question = await served.question()
    await served.cancel_turn()
    ended = await served.ended(turn)
    # hermes fails a turn that is cancelled at this point.
    assert (ended.status, ended.stop_reason) in {("completed", "cancelled"), ("failed", "error")}
    assert (await box.get(question.id)).status is QuestionStatus.ABANDONED
    assert not (repository / name).exists()
    assert (await served.session()).status == "active"

    await served.cancel()
    assert (await served.session()).status == "cancelled"
    assert (await served.said(Role.SYSTEM))[-1].startswith("The session was cancelled")
    assert await store.as_system().processes(served.id) == []


async def test_a_turn_in_which_the_model_hangs_can_be_cancelled_and_the_next_is_answered(
    served: Served, model: ModelServer
) -> None:
    turn = await served.prompt("HANG, please")

    async def is_asked() -> bool:
        return model.asked != []

    await until(is_asked)
    await served.cancel_turn()
    ended = await served.ended(turn)
    assert (ended.status, ended.stop_reason) == ("completed", "cancelled")
    assert (await served.answered("FLOOD:3")).status == "completed"
    assert "0 1 2 " in (await served.said())[-1]


# hermes reports the failure as its answer, and Gemini CLI tries again for more than a minute.
@pytest.mark.parametrize("agent", ["codex"], indirect=True)
async def test_a_model_that_fails_fails_the_turn_and_not_the_session(served: Served) -> None:
    turn = await served.answered("ERR500, please")
    assert (turn.status, turn.stop_reason) == ("failed", "error")
    assert turn.errors[0] in await served.said(Role.SYSTEM)
    assert (await served.answered("What is the answer?")).status == "completed"


@pytest.mark.req("ACP-12", "ACP-14", "SES-07")
async def test_an_agent_that_is_killed_leaves_a_report_and_what_it_had_said(
    served: Served, agent: RealAgent, store: Store
) -> None:
    turn = await served.prompt("SLOW, please")
    await served.until_it_says("slow1 ")
    os.killpg(served.process_group, signal.SIGKILL)
    assert (await served.ended(turn)).status == "failed"
    await served.until_status("error")
    assert "SIGKILL" in (await served.said(Role.SYSTEM))[-1]
    assert "slow0 slow1 " in (await served.said())[-1]
    assert await store.as_system().processes(served.id) == []
    with pytest.raises(Conflict):
        await served.resume()


@pytest.mark.req("ACP-13")
async def test_a_shutdown_in_the_middle_of_a_turn_leaves_nothing_running_and_can_be_resumed(
    served: Served, agent: RealAgent, model: ModelServer, store: Store, tmp_path: Path
) -> None:
    await served.answered("What is the answer?")
    turn = await served.prompt("SLOW, please")
    await served.until_it_says("slow1 ")
    await served.supervisor.close()
    await agent.is_gone()
    session = await served.session()
    assert (session.status, session.status_reason) == ("cancelled", "shutdown")
    assert (await served.ended(turn)).status != "pending"
    before = await served.messages()

    async with supervising(agent, store, tmp_path) as later:
        again = served.under(later)
        await again.resume()
        assert (await again.session()).status == "active"
        assert (await again.answered("Where were we?")).status == "completed"
        for earlier in ("What is the answer?", "".join(ANSWER)):
            assert model.asked[-1].contains(earlier)
    assert (await served.messages())[: len(before)] == before
    assert (await served.said(Role.USER)).count("What is the answer?") == 1
