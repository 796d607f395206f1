"""The provider's chain is used while it holds, and rebuilt from our own history when it does not."""

from collections.abc import Iterator
from datetime import timedelta

import msgspec
import pytest

from holdfast import Message
from holdfast.compaction.background import BackgroundCompaction
from holdfast.compaction.on_demand import compact_on_demand
from holdfast.compaction.policy import CompactionPolicy, policies_of
from holdfast.compaction.standing import SessionStanding
from holdfast.compaction.tokens import EstimatingCounter
from holdfast.execution.answer import AnswerKind, ExecuteResponse
from holdfast.execution.chain import MARGIN
from holdfast.execution.demo import DemoModel
from holdfast.execution.orchestrator import Orchestrator
from holdfast.execution.replay import replay
from holdfast.execution.reported import counted_tokens
from holdfast.model.ids import SessionId
from tests.execution.worlds import World, asked, file, said

NOTES = file("notes.md", "the notes")


@pytest.fixture(params=[400, 404])
def model(request: pytest.FixtureRequest) -> Iterator[DemoModel]:
    """Servers differ in how they refuse a response that they do not have."""
    with DemoModel(unknown_status=request.param) as serving:
        yield serving


async def two_turns(world: World, orchestrator: Orchestrator) -> ExecuteResponse:
    first = await orchestrator.execute(world.store, asked("One", active_files=(NOTES,)))
    return await orchestrator.execute(world.store, asked("Two", session_id=first.session_id))


async def third(world: World, orchestrator: Orchestrator, earlier: ExecuteResponse) -> ExecuteResponse:
    again = asked("Three", session_id=earlier.session_id, active_files=(NOTES,))
    return await orchestrator.execute(world.store, again)


def holds_everything(world: World) -> bool:
    """Whether the last request has what was said in every earlier turn, each once, and its files."""
    texts = "\n".join(said(world.model.requests[-1]))
    return all(texts.count(f"[INSTRUCTION]\n{word}") == 1 for word in ("One", "Two", "Three")) and (
        texts.count("the notes") == 1 and texts.count("assistant: ") == 2
    )


@pytest.mark.req("EXE-08")
async def test_a_chain_that_the_provider_lost_is_rebuilt_once_with_a_warning(world: World) -> None:
    async with world.orchestrator() as orchestrator:
        earlier = await two_turns(world, orchestrator)
        world.model.forget()
        answer = await third(world, orchestrator, earlier)
        following = await orchestrator.execute(world.store, asked("Four", session_id=answer.session_id))
    assert answer.kind is AnswerKind.ANSWER
    assert [warning.partition(":")[0] for warning in answer.warnings] == ["CHAIN_REBUILT"]
    assert len(world.model.requests) == 5  # one was refused
    turns = await world.store.list_turns(answer.session_id)
    assert turns[2].previous_openai_response_id is None
    assert turns[2].conversation_id == turns[2].id
    assert following.warnings == ()
    assert world.model.requests[4]["previous_response_id"] == turns[2].openai_response_id
    world.model.requests[3:] = world.model.requests[3:4]
    assert holds_everything(world)
    assert "previous_response_id" not in world.model.requests[3]


@pytest.mark.req("EXE-08")
@pytest.mark.parametrize("early", [True, False])
async def test_a_chain_is_used_until_shortly_before_it_expires(world: World, early: bool) -> None:
    async with world.orchestrator() as orchestrator:
        earlier = await two_turns(world, orchestrator)
        world.now += timedelta(days=30) - MARGIN - timedelta(microseconds=1000 if early else 0)
        answer = await third(world, orchestrator, earlier)
    assert ("previous_response_id" in world.model.requests[-1]) is early
    assert [warning.partition(":")[0] for warning in answer.warnings] == ([] if early else ["CHAIN_REBUILT"])
    if not early:
        assert holds_everything(world)


async def test_a_response_that_asked_for_a_tool_is_not_gone_on_from(world: World) -> None:
    async with world.orchestrator() as orchestrator:
        first = await orchestrator.execute(world.store, asked("TOOL"))
        assert "asked to call the tool 'look'" in first.warnings[0]
        second = await orchestrator.execute(world.store, asked("Two", session_id=first.session_id))
        third = await orchestrator.execute(world.store, asked("Three", session_id=first.session_id))
    assert [each.kind for each in (second, third)] == [AnswerKind.ANSWER] * 2
    assert "waits for what a tool says" in second.warnings[0]
    assert third.warnings == ()
    assert [len(request["input"]) for request in world.model.requests] == [1, 3, 1]


async def test_what_was_said_between_turns_reaches_the_model(world: World) -> None:
    async with world.orchestrator() as orchestrator:
        earlier = await two_turns(world, orchestrator)
        between = [Message.system("A note."), Message.user("Remember 42.")]
        await world.store.append_messages(earlier.session_id, between)
        answer = await third(world, orchestrator, earlier)
        following = await orchestrator.execute(world.store, asked("Four", session_id=earlier.session_id))
    assert "Something was said since the last turn" in answer.warnings[0]
    assert following.warnings == ()
    assert said(world.model.requests[-2]).count("user: Remember 42.") == 1
    assert len(world.model.requests[-1]["input"]) == 1
    del world.model.requests[-1]
    assert holds_everything(world)


async def test_another_model_is_told_everything(world: World) -> None:
    async with world.orchestrator() as orchestrator:
        earlier = await two_turns(world, orchestrator)
    async with world.orchestrator(model="another") as orchestrator:
        answer = await third(world, orchestrator, earlier)
    assert holds_everything(world)
    assert "others than before" in answer.warnings[0]


async def test_a_provider_without_chains_is_told_everything_each_time(world: World) -> None:
    async with world.orchestrator(chains=False) as orchestrator:
        answer = await third(world, orchestrator, await two_turns(world, orchestrator))
    assert answer.warnings == ()
    assert holds_everything(world)
    assert [(request["store"], "previous_response_id" in request) for request in world.model.requests] == [
        (False, False)
    ] * 3
    for turn in await world.store.list_turns(answer.session_id):
        assert turn.openai_chain_expires_at is None
        assert (await replay(world.store, world.blobs, answer.session_id, turn.id)).identical


async def test_a_compacted_session_goes_on_from_what_is_left(world: World) -> None:
    async with world.orchestrator() as orchestrator:
        first = await orchestrator.execute(world.store, asked("One " + "word " * 3000))
        for number in range(6):
            await orchestrator.execute(world.store, asked(f"Step {number}", session_id=first.session_id))
        session = await world.store.get_session(first.session_id)
        folded = await compact_on_demand(world.store, session, CompactionPolicy(target=0.01))
        assert folded is not None
        answer = await orchestrator.execute(world.store, asked("Last", session_id=first.session_id))
    assert "compacted" in answer.warnings[0]
    texts = said(world.model.requests[-1])
    assert texts[0].startswith("user: [SUMMARY OF WHAT WAS SAID BEFORE]\n")
    assert sum(map(len, texts)) < 2000
    assert texts[-1] == "user: [MODE: ask]\n\n[INSTRUCTION]\nLast"
    assert (await replay(world.store, world.blobs, answer.session_id, answer.turn_id)).identical
    assert folded.first_seq == 1


async def test_files_that_are_sent_again_with_every_request_count_as_long_as_they_are(world: World) -> None:
    policy = {"window": 8_000, "reserve": 0, "strategy": {"name": "summarize", "keep_recent_turns": 1}}
    policies = policies_of({}, {"default": {"compaction": policy}})
    async with (
        BackgroundCompaction(world.store.as_system(), policies, counter=EstimatingCounter()) as compaction,
        world.orchestrator(chains=False, compaction=compaction) as orchestrator,
    ):
        session_id: SessionId | None = None
        for number in range(3):
            sent = file(f"part_{number}.md", f"line {number} of a long file\n" * 400)
            look = asked("Look", session_id=session_id, active_files=(sent,))
            session_id = (await orchestrator.execute(world.store, look)).session_id
            await compaction.settled(session_id)
        assert session_id is not None
        (folded, *_) = await world.store.list_compactions(session_id)
        await orchestrator.execute(world.store, asked("Last", session_id=session_id))
    whole = counted_tokens(msgspec.json.encode(world.model.requests[2]), EstimatingCounter())
    assert folded.tokens_before is not None
    assert whole is not None
    assert folded.tokens_before >= whole  # with the answer, too
    assert "line 0 of a long file" not in "\n".join(said(world.model.requests[-1]))


@pytest.mark.parametrize("chains", [True, False])
async def test_what_a_model_reports_of_its_tokens_is_learned_from_whole_requests(
    world: World, chains: bool
) -> None:
    policies = policies_of({}, {"default": {"compaction": {}}})
    async with (
        BackgroundCompaction(world.store.as_system(), policies, counter=EstimatingCounter()) as compaction,
        world.orchestrator(chains=chains, compaction=compaction) as orchestrator,
    ):
        ratios = []
        session_id: SessionId | None = None
        for number in range(3):
            words = " ".join(f"number {each} of the {number}th list" for each in range(100))
            answer = await orchestrator.execute(world.store, asked(words, session_id=session_id))
            session_id = answer.session_id
            await compaction.settled(session_id)
            ratios.append(SessionStanding.of(await world.store.get_session(session_id)).token_ratio)
    # The demo model reports words. Of a chain it is sent the new part alone, which says nothing.
    assert 1 > ratios[0] > 0.5
    assert (ratios[0] > ratios[1] > ratios[2]) is not chains
    assert (ratios[0] == ratios[2]) is chains


async def test_a_failed_turn_is_not_part_of_what_was_said(world: World) -> None:
    async with world.orchestrator() as orchestrator:
        first = await orchestrator.execute(world.store, asked("One"))
        failed = await orchestrator.execute(world.store, asked("ERR500", session_id=first.session_id))
        assert failed.kind is AnswerKind.ERROR
        world.model.forget()
        await orchestrator.execute(world.store, asked("Three", session_id=first.session_id))
    texts = "\n".join(said(world.model.requests[-1]))
    assert "One" in texts
    assert "ERR500" not in texts
