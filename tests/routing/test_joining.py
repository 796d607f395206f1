"""Messages that join a running turn: each is answered, once, whatever becomes of that turn."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing

import pytest

from holdfast import Message, Store, TurnStatus
from holdfast.errors import Conflict
from holdfast.model.ids import MessageId
from holdfast.routing.events import TextAdded, TurnEnded, TurnJoined
from holdfast.routing.gateway import Busy, Gateway
from holdfast.routing.hold import let_go, take_hold
from holdfast.routing.runner import Exchange, Piece
from holdfast.store.ids import new_id
from tests.routing.gateways import Slow, echo, events, gateway, text_of
from tests.routing.messages import said
from tests.waiting import returned, until


def joining(store: Store, runner: object, **options: object) -> Gateway:
    return gateway(store, runner, busy=Busy.JOIN, **options)


async def join(door: Gateway, text: str) -> Message:
    (joined,) = await events(door, said("group:g1", text))
    assert isinstance(joined, TurnJoined)
    return joined.message


async def test_who_joined_a_turn_that_was_stopped_is_answered_by_the_next_holder(store: Store) -> None:
    slow = Slow()
    door, other_door = joining(store, slow), joining(store, slow)
    async with aclosing(door.receive(said("group:g1", "q1"))) as told:
        async for event in told:
            if isinstance(event, TextAdded):
                break
        joined = [await join(other_door, text) for text in ("q2", "q3")]
    slow.go_on.set()
    assert text_of(await events(other_door, said("group:g1", "q4"))) == "well (q2\n\nq3)well (q4)"
    assert slow.asked == ["q1", "q2\n\nq3", "q4"]
    (session,) = await store.list()
    stopped, answered, _ = await store.list_turns(session.id)
    assert (stopped.stop_reason, answered.status) == ("interrupted", TurnStatus.COMPLETED)
    stored = [await store.get_message(session.id, each.id) for each in joined if each.id]
    assert [each.turn_id for each in stored] == [answered.id, answered.id]
    assert text_of(await events(door, said("group:g1", "q5"))) == "well (q5)"


async def test_who_joined_is_answered_once_however_often_it_is_delivered(store: Store) -> None:
    slow = Slow()
    door = joining(store, slow)
    message = said("group:g1", "q2", id=MessageId(new_id()))
    async with aclosing(door.receive(said("group:g1", "q1"))) as told:
        async for event in told:
            if isinstance(event, TextAdded):
                break
        for _ in range(2):
            assert isinstance((await events(door, message))[0], TurnJoined)
    slow.go_on.set()
    told_again = await events(door, message)
    assert text_of(told_again) == "well (q2)"
    assert len([event for event in told_again if isinstance(event, TurnEnded)]) == 1
    assert await events(door, message) == [told_again[-1]]
    assert slow.asked == ["q1", "q2"]


async def test_who_joined_is_answered_when_the_runner_cannot_answer_the_first(store: Store) -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def refuses_q1(exchange: Exchange) -> str:
        if exchange.text != "q1":
            return f"({exchange.text})"
        begun.set()
        await go_on.wait()
        raise Conflict("not now")

    door = joining(store, refuses_q1)
    first = asyncio.create_task(events(door, said("group:g1", "q1")))
    await begun.wait()
    await join(door, "q2")
    go_on.set()
    ended = [event.turn.errors for event in await first if isinstance(event, TurnEnded)]
    assert ended == [("Conflict: not now",), ()]
    (session,) = await store.list()
    assert [each.agent_answer_summary for each in await store.list_turns(session.id)] == [None, "(q2)"]
    assert await store.lease_seconds(session.id) == 0


async def test_who_cannot_be_answered_holds_up_nobody_else(store: Store) -> None:
    slow, broken = Slow(), True

    async def history(view: Store, _: object) -> list[Message]:
        if broken and slow.asked == ["q1"]:
            raise Conflict("not now")
        return []

    door = joining(store, slow, history=history)
    first = asyncio.create_task(events(door, said("group:g1", "q1")))
    await slow.begun.wait()
    await join(door, "q2")
    slow.go_on.set()
    assert text_of(await first) == "well (q1)"
    broken = False
    assert text_of(await events(door, said("group:g1", "q3"))) == "well (q2)well (q3)"


async def test_who_joined_is_found_behind_thousands_of_messages(store: Store) -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def talks(exchange: Exchange) -> AsyncIterator[Piece]:
        if exchange.text == "q1":
            many = [Message.agent("more")] * 1500
            await exchange.store.append_messages(exchange.session.id, many)
            begun.set()
            await go_on.wait()
            await exchange.store.append_messages(exchange.session.id, many)
        yield f"({exchange.text})"

    door = joining(store, talks)
    first = asyncio.create_task(events(door, said("group:g1", "q1")))
    await begun.wait()
    await join(door, "q2")
    go_on.set()
    assert text_of(await first) == "(q1)(q2)"


async def test_a_holder_that_answers_nobody_who_joins_is_waited_for(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    door = joining(store, echo)
    await events(door, said("group:g1", "q1"))
    (session,) = await store.list()
    hold = await take_hold(store, session.id)
    seconds_left = returned(monkeypatch, Store, "lease_seconds")
    asked = asyncio.create_task(events(door, said("group:g1", "q2")))
    await until(lambda: any(seconds_left))
    assert not asked.done()
    await let_go(hold)
    told = await asked
    assert text_of(told) == "you said q2"
    assert isinstance(told[-1], TurnEnded)
