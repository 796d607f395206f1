"""The Python client against a real server."""

import asyncio
from collections.abc import Iterator
from contextlib import aclosing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from holdfast.client import Client, Refused, SessionCopy, Unreachable
from holdfast.model.question import Answer, NewQuestionSet, Option, Question
from holdfast.questions import QuestionBox
from holdfast.server.presence import Presence
from holdfast.server.shapes import ChangedSessions
from tests.server.servers import Served
from tests.waiting import SECONDS


@pytest.fixture
def served(tmp_path: Path, process: None) -> Iterator[Served]:
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
        (found,) = (await client.sessions(text="hello")).sessions
        assert found.match is not None
        assert "hello" in [piece.text.lower() for piece in found.match.snippet if piece.hit]
        resumed = await client.resume_session(session.id)
        assert resumed.status == "active"
        assert (await client.cancel_session(session.id)).status == "cancelled"
        with pytest.raises(Refused) as refused:
            await client.prompt(session.id, "more")
        assert (refused.value.problem.status, refused.value.problem.session_status) == (409, "cancelled")
        await client.purge_session(session.id)
        with pytest.raises(Refused, match="No session"):
            await anext(client.follow(session.id))


async def test_a_mode_and_a_model_are_chosen_from_those_that_the_agent_offers(served: Served) -> None:
    async with Client(served.url, served.presence.token) as client:
        (repo,) = await client.scan_repos()
        session = await client.create_session(repo.id, agent="demo")
        assert (await client.set_mode(session.id, "plan")).agent_state["modes"]["currentModeId"] == "plan"
        changed = await client.set_model(session.id, "obedient-mini")
        assert changed.agent_state["models"]["currentModelId"] == "obedient-mini"
        with pytest.raises(Refused, match="has no model 'oracle'") as refused:
            await client.set_model(session.id, "oracle")
        assert refused.value.problem.status == 502
        kept = await client.session(session.id)
        assert kept.agent_state["models"] == changed.agent_state["models"]


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


@pytest.mark.usefixtures("process")
async def test_who_calls_too_often_is_heard_later(tmp_path: Path) -> None:
    """A refusal that says it is for a while does not end a feed."""
    served = Served(tmp_path, HOLDFAST_SERVER_REQUESTS_PER_SECOND="2")
    served.start()
    try:
        async with Client(served.url, served.presence.token) as client:
            outcomes = await asyncio.gather(*(client.me() for _ in range(30)), return_exceptions=True)
            assert any(isinstance(outcome, Refused) for outcome in outcomes)
            async with asyncio.timeout(SECONDS), aclosing(client.follow_all()) as items:
                assert isinstance(await anext(items), ChangedSessions)
    finally:
        served.stop()


async def test_what_is_said_is_exported_shortened_and_taken_back(served: Served) -> None:
    async with Client(served.url, served.presence.token) as client:
        repo = await client.create_repo("fresh")
        assert repo.name == "fresh"
        session = await client.create_session(repo.id, agent="demo")
        for _ in range(3):
            turn = await client.prompt(session.id, "Say hello")
            async with asyncio.timeout(SECONDS), aclosing(client.follow(session.id)) as items:
                while (await client.last_turn(session.id)).status == "pending":
                    await anext(items)
        assert (await client.turn_summary(session.id, turn.id)).id == turn.id
        assert [each.id for each in (await client.summaries()).sessions] == [session.id]
        document = b"".join([piece async for piece in client.export(session.id)])
        assert b"Say hello" in document
        with pytest.raises(Refused, match="No session"):
            await anext(client.export(turn.id))
        compaction = await client.compact_session(session.id, "hard_clear")
        assert compaction is not None
        kept = await client.compactions(session.id)
        assert (kept.in_effect, kept.compactions) == ((compaction.id,), (compaction,))
        assert (await client.undo_compaction(session.id, compaction.id)).undone_at is not None
        assert (await client.compactions(session.id)).in_effect == ()
        assert await client.render_markdown(["*a*"]) == ("<p><em>a</em></p>\n",)


async def test_a_token_is_made_used_and_revoked(served: Served) -> None:
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    async with Client(served.url, served.presence.token) as admin:
        made = await admin.create_token("ada", label="laptop", expires_at=tomorrow)
        assert (made.token.user, made.token.role, made.token.label) == ("ada", "member", "laptop")
        async with Client(served.url, made.secret) as ada:
            assert (await ada.me()).user == "ada"
            assert (await ada.ready()).status == "ok"
            with pytest.raises(Refused) as refused:
                await ada.tokens()
            assert refused.value.problem.status == 403
            assert made.token.id in [token.id for token in await admin.tokens()]
            assert (await admin.revoke_token(made.token.id)).revoked_at is not None
            with pytest.raises(Refused) as refused:
                await ada.me()
            assert refused.value.problem.status == 401
