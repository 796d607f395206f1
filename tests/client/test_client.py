"""The Python client against a real server."""

import asyncio
from collections.abc import Iterator
from contextlib import aclosing
from pathlib import Path

import pytest

from holdfast.client import Client, Refused, SessionCopy, Unreachable
from holdfast.model.question import Answer, NewQuestionSet, Option, Question
from holdfast.questions import QuestionBox
from holdfast.server.presence import Presence
from tests.server.servers import SECONDS, Served


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    served = Served(tmp_path)
    served.repository()
    served.start()
    yield served
    assert served.stop() == 0


async def test_a_session_from_its_start_to_its_end(served: Served) -> None:
    async with Client(served.url, served.presence.token) as client:
        (repo,) = await client.scan_repos()
        assert await client.repos() == (repo,)
        assert "demo" in [agent.name for agent in await client.agents() if agent.installed]
        session = await client.create_session(repo.id, agent="demo")
        turn = await client.prompt(session.id, "Say hello")
        copy = SessionCopy()
        async with asyncio.timeout(SECONDS), aclosing(client.follow(session.id)) as items:
            while turn.id not in copy.turns or copy.turns[turn.id].status == "pending":
                copy.apply(await anext(items))
        whole = await client.session(session.id)
        assert {message.id: message for message in whole.messages or ()} == copy.messages
        assert await client.turn(session.id, turn.id) == copy.turns[turn.id]
        assert (await client.messages(session.id, limit=1)).messages[0].content["text"] == "Say hello"
        assert (await client.patch_session(session.id, title="Greeting")).title == "Greeting"
        assert (await client.complete_session(session.id)).status == "completed"
        assert [each.id for each in (await client.sessions(status=["completed"])).sessions] == [session.id]
        resumed = await client.resume_session(session.id)
        assert resumed.status == "active"
        assert (await client.cancel_session(session.id)).status == "cancelled"
        with pytest.raises(Refused) as refused:
            await client.prompt(session.id, "more")
        assert (refused.value.problem.status, refused.value.problem.session_status) == (409, "cancelled")
        await client.purge_session(session.id)
        with pytest.raises(Refused, match="No session"):
            await anext(client.follow(session.id))


async def test_a_question_is_seen_and_answered(served: Served) -> None:
    question = Question(prompt="Which?", title="Choice", options=(Option("a"), Option("b")))
    async with Client(served.url, served.presence.token) as client:
        asked = await QuestionBox(served.questions).ask(NewQuestionSet(questions=(question,)))
        assert [each.id for each in await client.questions(status=["pending"])] == [asked.id]
        answered = await client.answer(asked.id, [Answer(question_index=0, selected_option="b")])
        assert (answered.status, answered.answered_by) == ("completed", "local")
        with pytest.raises(Refused, match="already answered"):
            await client.reject(asked.id)
        assert [entry.action for entry in (await client.audit()).entries] == ["question.answer"]


async def test_a_running_server_is_found_and_one_that_is_gone_is_not(served: Served, tmp_path: Path) -> None:
    found = await Client.find(served.data)
    assert found is not None
    async with found:
        assert (await found.me()).user == "local"
    served.stop()
    assert await Client.find(served.data) is None
    assert await Client.find(tmp_path / "nowhere") is None
    Presence(served.url, 1, "hf_wrong").write(served.data)  # a process that runs, and is no server
    assert await Client.find(served.data) is None
    async with Client(served.url, "hf_wrong") as client:
        with pytest.raises(Unreachable, match="is it running"):
            await client.me()
