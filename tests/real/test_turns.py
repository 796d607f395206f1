"""Turns of real agents: said, allowed, asked and cancelled, one after the other in one session."""

import subprocess
from collections.abc import AsyncIterator

import psutil
import pytest
import pytest_asyncio

from holdfast import Role, Store, open_store
from holdfast.model.question import QuestionKind
from tests.real.agents import NAMES, RealAgent
from tests.real.model_server import ANSWER, QUESTION, WRITTEN_NAME, WRITTEN_TEXT, ModelServer
from tests.real.overheard import Overheard
from tests.real.serving import Served, question_box, store_url, supervising
from tests.waiting import until

# The first test with an agent installs it. All of one agent run in one process, which starts it once.
pytestmark = pytest.mark.asyncio(loop_scope="module")

EACH = [pytest.param(name, marks=pytest.mark.xdist_group(f"turns of {name}")) for name in NAMES]


class Talk:
    """A session that each test leaves active, with nothing running in it."""

    def __init__(
        self, served: Served, agent: RealAgent, store: Store, model: ModelServer, heard: Overheard
    ) -> None:
        self.served = served
        self.agent = agent
        self.store = store
        self.model = model
        self.heard = heard
        self.repository = agent.home.parent / "work" / "repository"


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=EACH)
async def talk(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Talk]:
    directory = tmp_path_factory.mktemp("talk")
    subprocess.run(["git", "init", "--quiet", str(directory / "work" / "repository")], check=True)
    with pytest.MonkeyPatch.context() as monkeypatch, ModelServer() as model:
        heard = Overheard(monkeypatch)
        agent = RealAgent(request.param, directory / "home", model.url)
        try:
            async with (
                open_store(store_url(directory)) as store,
                supervising(agent, store, directory) as supervisor,
            ):
                served = await Served.create(supervisor, store, question_box(directory))
                yield Talk(served, agent, store, model, heard)
                assert await store.problems() == []
            await agent.is_gone()
        finally:
            agent.kill()
    assert heard.mistakes() == []


@pytest.mark.req("ACP-01", "ACP-03", "ACP-06", "SES-04", "SES-12")
async def test_what_an_agent_says_is_stored_as_it_says_it(talk: Talk) -> None:
    served = talk.served
    assert (await served.session()).status == "active"
    [process] = await talk.store.as_system().processes(served.id)
    assert psutil.Process(process.process_group).cwd() == str(talk.repository)
    assert talk.heard.sent("session/new")[0]["cwd"] == str(talk.repository)

    turn = await served.answered("What is the answer?")
    assert (turn.status, turn.stop_reason) == ("completed", "end_turn")
    assert (await served.said())[-1].endswith("".join(ANSWER))
    assert (await served.said(Role.USER))[-1] == "What is the answer?"

    await served.answered("FLOOD:500")
    assert (await served.said())[-1].endswith("".join(f"{number} " for number in range(500)))


@pytest.mark.req("ACP-10")
async def test_a_tool_call_waits_for_a_person(talk: Talk) -> None:
    served, written = talk.served, talk.repository / WRITTEN_NAME
    turn = await served.prompt("TOOLWRITE, please")
    question = await served.question()
    assert WRITTEN_NAME in question.questions[0].prompt
    assert not written.exists()

    await served.allow(question)
    assert (await served.ended(turn)).status == "completed"
    assert written.read_text() == WRITTEN_TEXT
    assert "The tool said: " in (await served.said())[-1]
    tools = await served.tools()
    assert WRITTEN_NAME in str(tools)
    assert not any(tool.open for tool in tools)
    decision = next(entry for entry in await talk.store.list_audit() if entry.action == "agent.permission")
    assert (decision.outcome, decision.detail["person"]) == ("allowed", "tester")


@pytest.mark.req("SEC-01", "SEC-04")
async def test_an_agent_commits_from_its_sandbox(talk: Talk) -> None:
    served = talk.served
    sandbox = (await served.session()).agent_state["sandbox"]
    assert (sandbox["kind"], sandbox["lacks"]) == ("bubblewrap", [])
    assert (talk.agent.name == "codex") is ("own sandbox is switched off" in sandbox["summary"])
    turn = await served.prompt("TOOLCOMMIT, please")
    if talk.agent.name != "hermes":  # which asks for files only
        await served.allow(await served.question())
    assert (await served.ended(turn)).status == "completed"
    log = ["git", "log", "-1", "--format=%s"]
    done = subprocess.run(log, cwd=talk.repository, capture_output=True, text=True, check=True)
    assert done.stdout == "committed\n"


async def test_an_agent_asks_its_person_through_the_mcp_server_it_is_given(talk: Talk) -> None:
    served = talk.served
    turn = await served.prompt("TOOLASK, please")
    if talk.agent.name != "hermes":  # the others ask whether they may ask
        await served.allow(await served.question())
    question = await served.question(QuestionKind.QUESTION)
    assert (question.session_id, question.agent) == (served.id, talk.agent.name)
    assert question.questions[0].prompt == QUESTION["prompt"]
    await served.choose(question, "Blue")
    assert (await served.ended(turn)).status == "completed"
    assert "Blue" in (await served.said())[-1]


async def test_a_turn_in_which_the_model_hangs_can_be_cancelled_and_the_next_is_answered(talk: Talk) -> None:
    served, before = talk.served, len(talk.model.asked)
    turn = await served.prompt("HANG, please")

    async def is_asked() -> bool:
        return len(talk.model.asked) > before

    await until(is_asked)
    await served.cancel_turn()
    ended = await served.ended(turn)
    assert (ended.status, ended.stop_reason) == ("completed", "cancelled")
    assert (await served.answered("FLOOD:3")).status == "completed"
    assert "0 1 2 " in (await served.said())[-1]
