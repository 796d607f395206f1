"""A model answers a chat, through the orchestrator and the gateway."""

import asyncio

import pytest

from holdfast import Role, TurnStatus
from holdfast.compaction.background import BackgroundCompaction
from holdfast.compaction.policy import policies_of
from holdfast.execution.chat import ModelRunner
from holdfast.execution.orchestrator import Orchestrator
from holdfast.model.ids import MessageId
from holdfast.routing.bindings import Bindings
from holdfast.routing.events import MessageEnded, Outgoing, TextAdded, TurnEnded, TurnStarted
from holdfast.routing.gateway import Busy, Gateway
from holdfast.routing.incoming import Incoming, Peer
from holdfast.store.ids import new_id
from tests.execution.worlds import World
from tests.waiting import until


def message(text: str, message_id: str | None = None) -> Incoming:
    given = MessageId(message_id) if message_id else None
    return Incoming(channel="irc", peer=Peer.parse("group:#dev"), sender="ada", text=text, id=given)


def door(world: World, orchestrator: Orchestrator, busy: Busy = Busy.WAIT) -> Gateway:
    runner = ModelRunner(orchestrator)
    return Gateway(world.store, Bindings(agents=["helper"]), {"helper": runner}, busy=busy)


async def told(gateway: Gateway, incoming: Incoming) -> list[Outgoing]:
    return [event async for event in gateway.receive(incoming)]


def said(events: list[Outgoing]) -> str:
    return "".join(event.text for event in events if isinstance(event, TextAdded))


@pytest.mark.req("STO-19")
async def test_a_model_answers_a_chat_and_goes_on_from_what_was_said(world: World) -> None:
    async with world.orchestrator() as orchestrator:
        gateway = door(world, orchestrator)
        first = await told(gateway, message("Hello"))
        second = await told(gateway, message("And now?"))
    assert [type(event) for event in (first[0], *first[-2:])] == [TurnStarted, MessageEnded, TurnEnded]
    assert said(first) == said(second) == "I was given no file and no chunk to look at. "
    (session,) = await world.store.list()
    assert str(session.key) == "helper:irc:default:group:#dev"
    turns = await world.store.list_turns(session.id)
    assert [turn.status for turn in turns] == [TurnStatus.COMPLETED] * 2
    assert turns[1].previous_openai_response_id == turns[0].openai_response_id
    asked = [each for each in await world.store.get_history(session.id) if each.role is Role.USER]
    assert [(each.text, each.metadata["sender"]) for each in asked] == [("Hello", "ada"), ("And now?", "ada")]


@pytest.mark.req("STO-16")
async def test_a_chat_with_a_model_is_compacted_as_its_context_says(world: World) -> None:
    policy = {"messages": 4, "share": None, "strategy": {"name": "hard_clear", "keep_recent": 2}}
    policies = policies_of({"helper": {"compaction": {}}}, {"default": {"compaction": policy}})
    async with (
        BackgroundCompaction(world.store.as_system(), policies) as compaction,
        world.orchestrator(compaction=compaction) as orchestrator,
    ):
        gateway = door(world, orchestrator)
        for text in ("Hello", "And now?"):
            await told(gateway, message(text))
        (session,) = await world.store.list()
        folded = await compaction.settled(session.id) or (await world.store.list_compactions(session.id))[0]
    assert (session.agent, session.agent_context_id, folded.strategy) == ("helper", "default", "hard_clear")


async def test_a_repeated_delivery_is_answered_once(world: World) -> None:
    async with world.orchestrator() as orchestrator:
        gateway = door(world, orchestrator)
        delivered = message("Hello", new_id())
        await told(gateway, delivered)
        (again,) = await told(gateway, delivered)
    assert isinstance(again, TurnEnded)
    assert len(world.model.requests) == 1


async def test_a_later_message_interrupts_a_model(world: World) -> None:
    async with world.orchestrator() as orchestrator:
        gateway = door(world, orchestrator, Busy.INTERRUPT)
        hanging = asyncio.create_task(told(gateway, message("HANG")))
        await until(lambda: bool(world.model.requests))
        answered = await told(gateway, message("Something else"))
        last = (await hanging)[-1]
    assert isinstance(last, TurnEnded)
    assert (last.turn.status, last.turn.stop_reason) == (TurnStatus.FAILED, "interrupted")
    assert said(answered).startswith("I was given")


async def test_a_model_that_fails_is_told_as_an_ended_turn(world: World) -> None:
    async with world.orchestrator() as orchestrator:
        last = (await told(door(world, orchestrator), message("ERR500")))[-1]
    assert isinstance(last, TurnEnded)
    assert last.turn.errors == ("The model's server refused the request (500): The model is out of order.",)


async def test_a_chat_that_is_given_up_while_its_turn_is_opened_leaves_none_pending(world: World) -> None:
    async with world.orchestrator() as orchestrator:
        gateway = door(world, orchestrator)
        for wait in range(40):
            receiving = asyncio.create_task(told(gateway, message("SLOW")))
            await asyncio.sleep(wait / 2000)
            receiving.cancel()
            await asyncio.wait([receiving])
            assert await world.store.as_system().pending_turns() == []
