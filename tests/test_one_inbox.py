"""One inbox: what an agent asks through MCP is answered in the terminal, and withdrawn everywhere else."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import pytest

from holdfast.client import Client
from holdfast.server import shapes
from holdfast.server.shapes import ChangedQuestions
from tests.server.servers import Served
from tests.tui.driver import Desk
from tests.tui.test_process import DOWN, ENTER, terminal
from tests.waiting import SECONDS


@asynccontextmanager
async def served(desk: Desk, tmp_path: Path) -> AsyncIterator[Client]:
    """A server whose questions are those on the desk."""
    server = Served(tmp_path, AUQ_SESSION_DIR=str(desk.directory), HOLDFAST_QUESTIONS_SOFT_RETURN_SECONDS="0")
    server.repository()
    server.start()
    try:
        async with Client(server.url, server.presence.token) as client:
            yield client
    finally:
        assert server.stop() == 0


async def until_question(client: Client, status: str) -> shapes.QuestionSet:
    """The first question that the change feed shows in a status."""
    async with asyncio.timeout(SECONDS), aclosing(client.follow_all()) as items:
        async for item in items:
            if isinstance(item, ChangedQuestions):
                for question in item.questions:
                    if question.status == status:
                        return question
    raise AssertionError("the feed ended")


@pytest.mark.usefixtures("process")
async def test_a_question_of_an_agent_is_answered_in_the_terminal_and_withdrawn_over_rest(
    tmp_path: Path,
) -> None:
    desk = Desk(tmp_path)
    async with served(desk, tmp_path) as client, terminal(desk) as screen:
        (repo,) = await client.scan_repos()
        session = await client.create_session(repo.id, agent="demo")
        turn = await client.prompt(session.id, "consult Which colour? red | blue")
        asked = await until_question(client, "pending")
        assert (asked.agent, asked.session_id) == ("demo", session.id)
        withdrawn = asyncio.create_task(until_question(client, "completed"))
        await screen.sees("demo · now · question")
        screen.type(ENTER)
        await screen.sees("Which colour?")
        screen.type(DOWN)
        await screen.sees("› ( ) blue")
        screen.type(ENTER)
        await screen.sees("→ blue")
        screen.type(ENTER)
        gone = await withdrawn
        assert (gone.id, gone.answered_from) == (asked.id, "terminal")
        assert await client.questions(status=["pending"]) == ()
        async with asyncio.timeout(SECONDS):
            while (ended := await client.turn(session.id, turn.id)).status == "pending":  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        assert (ended.agent_answer_summary or "").endswith("→ blue ")
