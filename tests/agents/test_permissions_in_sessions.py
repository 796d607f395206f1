"""What an agent asks for while it works: permissions, answers, files and commands, through the supervisor."""

from pathlib import Path

import msgspec
import pytest

from holdfast import PlanContent, QuestionContent, ToolContent
from holdfast.agents.permissions import Decision, Rule, ToolKind
from holdfast.model.question import Answer, QuestionKind, QuestionSet, QuestionStatus
from holdfast.model.times import iso
from holdfast.server.export import Format, exported
from tests.agents.worlds import World, working
from tests.waiting import until


def choose(label: str) -> list[Answer]:
    return [Answer(question_index=0, selected_option=label)]


async def asked(world: World) -> QuestionSet:
    (question_set,) = await until(lambda: world.box.list({QuestionStatus.PENDING}))
    return question_set


async def test_a_person_allows_a_write_and_everything_about_it_is_kept(world: World) -> None:
    async with working(world) as (supervisor, session):
        turn = await supervisor.prompt(world.store, session.id, "write a.txt: hello")
        question = await asked(world)
        assert (question.kind, question.session_id) == (QuestionKind.PERMISSION, session.id)
        assert question.tool is not None
        assert question.tool["content"][0]["newText"] == "hello\n"
        await world.box.answer(question.id, choose("Allow"), by="ada", door="test")
        assert (await world.ended(session, turn)).agent_answer_summary == "I wrote a.txt. "
        assert (world.repository / "a.txt").read_text() == "hello\n"
        contents = [message.content for message in await world.messages(session)]
        (tool,) = [content for content in contents if isinstance(content, ToolContent)]
        assert (tool.status, tool.result) == ("completed", {"bytes": 6})
        (noted,) = [content for content in contents if isinstance(content, QuestionContent)]
        assert (noted.question_set_id, noted.kind, noted.status) == (question.id, "permission", "completed")
        assert noted.answers == ({"questionIndex": 0, "selectedOption": "Allow"},)
        assert (noted.answered_by, noted.answered_from) == ("ada", "test")
        settled = await world.box.get(question.id)
        assert settled.answered_at is not None
        assert noted.answered_at == iso(settled.answered_at)
        document = "".join([piece async for piece in exported(world.store, session.id, Format.MARKDOWN)])
        assert f"Allow, answered by ada through test at {noted.answered_at}" in document
    (entry,) = await world.store.list_audit()
    assert (entry.action, entry.outcome, entry.subject) == ("agent.permission", "allowed", session.id)
    assert (entry.detail["person"], entry.detail["door"]) == ("ada", "test")


async def test_a_step_of_the_demo_agents_plan_is_ticked_off_when_it_is_done(world: World) -> None:
    async with working(world) as (supervisor, session):

        async def steps() -> list[str]:
            contents = [message.content for message in await world.messages(session)]
            plans = [content for content in contents if isinstance(content, PlanContent)]
            return [step["status"] for step in plans[-1].steps]

        prompt = "plan One; Two; Three\nwrite a.txt: hello\nsay ok"
        turn = await supervisor.prompt(world.store, session.id, prompt)
        question = await asked(world)
        assert await steps() == ["in_progress", "pending", "pending"]
        await world.box.answer(question.id, choose("Allow"), by="ada", door="test")
        await world.ended(session, turn)
        assert await steps() == ["completed"] * 3


async def test_a_refused_write_is_not_made(world: World) -> None:
    async with working(world) as (supervisor, session):
        turn = await supervisor.prompt(world.store, session.id, "write a.txt: hello")
        await world.box.reject((await asked(world)).id, "not now", by="ada", door="test")
        assert (await world.ended(session, turn)).agent_answer_summary == "Then I leave it. "
    assert not (world.repository / "a.txt").exists()


@pytest.mark.parametrize(
    ("rules", "written"),
    [
        ((Rule(decision=Decision.ALLOW, kind=ToolKind.EDIT, path="docs/**"),), True),
        ((Rule(decision=Decision.DENY, path="docs/**"),), False),
    ],
)
async def test_a_policy_decides_without_a_person_and_is_audited(
    world: World, rules: tuple[Rule, ...], written: bool
) -> None:
    world.agents["demo"] = msgspec.structs.replace(world.demo, rules=rules)
    async with working(world) as (supervisor, session):
        await world.ask(supervisor, session, "write docs/a.txt: hello")
    assert (world.repository / "docs" / "a.txt").exists() is written
    assert await world.box.list() == ()
    (entry,) = await world.store.list_audit()
    assert entry.outcome == ("allowed" if written else "denied")
    assert entry.detail["rule"].startswith("rule 1: ")


async def test_cancelling_a_turn_withdraws_its_question(world: World) -> None:
    async with working(world) as (supervisor, session):
        turn = await supervisor.prompt(world.store, session.id, "write a.txt: hello")
        question = await asked(world)
        await supervisor.cancel_turn(world.store, session.id)
        assert (await world.ended(session, turn)).stop_reason == "cancelled"
        (noted,) = [
            m.content for m in await world.messages(session) if isinstance(m.content, QuestionContent)
        ]
        assert (noted.status, noted.answered_from) == ("rejected", "its withdrawal")
        assert (await world.box.get(question.id)).status is QuestionStatus.REJECTED


async def test_ending_a_session_withdraws_its_question(world: World) -> None:
    async with working(world) as (supervisor, session):
        await supervisor.prompt(world.store, session.id, "write a.txt: hello")
        question = await asked(world)
        await supervisor.cancel(world.store, session.id)
    assert (await world.box.get(question.id)).status is QuestionStatus.REJECTED


async def test_a_question_of_the_agents_own_is_put_to_a_person(world: World) -> None:
    async with working(world) as (supervisor, session):
        turn = await supervisor.prompt(world.store, session.id, "ask Which colour? red | blue")
        question = await asked(world)
        assert question.kind is QuestionKind.ELICITATION
        await world.box.answer(question.id, choose("blue"), by="ada", door="test")
        assert (await world.ended(session, turn)).agent_answer_summary == "You chose blue. "


async def test_an_agent_asks_through_the_mcp_server_it_was_handed(world: World) -> None:
    async with working(world) as (supervisor, session):
        turn = await supervisor.prompt(world.store, session.id, "consult Which colour? red | blue")
        question = await asked(world)
        assert (question.agent, question.session_id) == ("demo", session.id)
        await world.box.answer(question.id, choose("blue"), by="ada", door="test")
        answer = (await world.ended(session, turn)).agent_answer_summary or ""
        assert answer.endswith("Here are the user's answers:\n\n1. Which colour?\n→ blue ")


async def test_a_read_outside_the_repository_is_refused_and_audited(world: World, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("s3cret")
    async with working(world) as (supervisor, session):
        turn = await world.ask(supervisor, session, "read ../../secret")
        assert turn.agent_answer_summary == "I could not read ../../secret. "
        (tool,) = [m.content for m in await world.messages(session) if isinstance(m.content, ToolContent)]
        assert (tool.status, "s3cret" in str(tool.result)) == ("failed", False)
    (entry,) = await world.store.list_audit()
    assert (entry.action, entry.outcome) == ("agent.path", "denied")


async def test_a_command_runs_in_the_repository_and_is_recorded_while_it_runs(world: World) -> None:
    world.trust()
    async with working(world) as (supervisor, session):
        turn = await supervisor.prompt(
            world.store, session.id, "run cat README.md; read line < fifo || sleep 60"
        )

        async def two_processes() -> bool:
            return len(await world.store.processes(session.id)) == 2

        await until(two_processes)
        await supervisor.cancel(world.store, session.id)
        assert await world.store.processes(session.id) == []
        assert (await world.store.get_turn(session.id, turn.id)).status != "pending"
