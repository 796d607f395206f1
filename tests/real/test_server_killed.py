"""A server that is killed with `kill -9` in the middle of a streamed turn, and the server after it."""

import asyncio
import sys
from pathlib import Path

import pytest

from holdfast import Role, open_store
from holdfast.model.ids import SessionId
from tests.real.agents import RealAgent
from tests.real.model_server import ANSWER, ModelServer
from tests.real.serving import Served, question_box, store_url, supervising

ROOT = Path(__file__).parents[2]


async def killed_in_the_middle_of_a_turn(directory: Path, agent: RealAgent, model: ModelServer) -> SessionId:
    """The session of a server that ran until now."""
    server = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.real.server", str(directory), agent.name, model.url),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
    )
    assert server.stdout is not None
    session_id = (await server.stdout.readline()).decode().strip()
    assert agent.processes() != []
    server.kill()
    await server.wait()
    return SessionId(session_id)


@pytest.mark.req("SES-02")
@pytest.mark.parametrize("agent", ["gemini"], indirect=True)
async def test_the_next_server_ends_the_agent_and_resumes_the_session_with_its_history(
    agent: RealAgent, model: ModelServer, repository: Path, tmp_path: Path
) -> None:
    session_id = await killed_in_the_middle_of_a_turn(tmp_path, agent, model)
    async with (
        open_store(store_url(tmp_path)) as store,
        supervising(agent, store, tmp_path) as supervisor,
    ):
        await agent.is_gone()
        served = Served(supervisor, store, question_box(tmp_path), session_id)
        session = await served.session()
        assert (session.status, session.status_reason) == ("cancelled", "server_restart")
        turns = await store.list_turns(session_id)
        assert [turn.status for turn in turns] == ["completed", "failed"]
        assert "slow0 slow1 " in (await served.said())[-1]

        await served.resume()
        assert (await served.answered("Where were we?")).status == "completed"
        for earlier in ("What is the answer?", "".join(ANSWER), "SLOW, please"):
            assert model.asked[-1].contains(earlier)
        assert await served.said(Role.USER) == ["What is the answer?", "SLOW, please", "Where were we?"]
        assert await store.problems() == []
