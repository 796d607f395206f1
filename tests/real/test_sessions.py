"""Sessions that real agents serve: cancelled, killed, shut down, resumed and completed."""

import os
import signal
from pathlib import Path

import pytest

from holdfast import Role, Store
from holdfast.errors import Conflict
from holdfast.model.question import QuestionStatus
from holdfast.questions import QuestionBox
from tests.real.agents import RealAgent
from tests.real.model_server import ANSWER, WRITTEN_NAME, ModelServer
from tests.real.serving import Served, supervising
from tests.waiting import until


@pytest.mark.req("ACP-11", "SES-06")
async def test_a_cancel_while_a_permission_is_pending_ends_the_turn(
    served: Served, repository: Path, store: Store, box: QuestionBox
) -> None:
    turn = await served.prompt("TOOLWRITE, please")
    question = await served.question()
    await served.cancel_turn()
    ended = await served.ended(turn)
    # hermes fails a turn that is cancelled at this point.
    assert (ended.status, ended.stop_reason) in {("completed", "cancelled"), ("failed", "error")}

    async def is_withdrawn() -> bool:
        return (await box.get(question.id)).status is QuestionStatus.REJECTED

    await until(is_withdrawn)
    assert not (repository / WRITTEN_NAME).exists()
    assert (await served.session()).status == "active"

    await served.cancel()
    assert (await served.session()).status == "cancelled"
    assert (await served.said(Role.SYSTEM))[-1].startswith("The session was cancelled")
    assert await store.as_system().processes(served.id) == []


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


@pytest.mark.req("ACP-08", "ACP-13", "SES-05")
async def test_a_shutdown_leaves_nothing_running_and_its_session_can_be_resumed_and_completed(
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
        await again.complete()
        assert (await again.session()).status == "completed"
        await agent.is_gone()
        with pytest.raises(Conflict):
            await again.prompt("more")
    assert (await served.messages())[: len(before)] == before
    assert (await served.said(Role.USER)).count("What is the answer?") == 1
