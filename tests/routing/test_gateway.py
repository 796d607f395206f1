"""A message's whole life: routed, answered, stored, one turn at a time."""

import asyncio
from contextlib import aclosing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from holdfast import Message, SessionPatch, SessionStatus, Store, TokenUsage, ToolCall, TurnStatus
from holdfast.errors import NotFound
from holdfast.model.ids import MessageId, SessionId
from holdfast.model.lease import LeaseLost
from holdfast.routing.bindings import Bindings
from holdfast.routing.events import Outgoing, TextAdded, TurnEnded, TurnJoined, TurnStarted
from holdfast.routing.gateway import Busy, Gateway
from holdfast.routing.hold import take_hold
from holdfast.routing.policy import RoutingPolicy
from holdfast.routing.runner import Exchange
from holdfast.routing.scope import Reset, ResetMode, main_key
from holdfast.store.ids import new_id
from tests.routing.gateways import (
    Slow,
    echo,
    end_of,
    events,
    gateway,
    messages_of,
    remembers,
    text_of,
    until_heard,
)
from tests.routing.messages import said

GROUP = said("group:g1", "hello", channel="irc")


def key_of(bindings: Bindings, message: Any = GROUP) -> Any:
    return bindings.decide(message).key


async def texts(store: Store, key: Any) -> list[tuple[str, str]]:
    return [(message.role.value, message.text) for message in await store.get_history(key)]


@pytest.mark.req("STO-19")
async def test_a_message_goes_the_whole_way(store: Store) -> None:
    ended: list[SessionId] = []

    async def after_turn(session_id: SessionId) -> None:
        assert await store.lease_seconds(session_id) == 0
        ended.append(session_id)

    door = gateway(store, echo, after_turn=after_turn)
    told = await events(door, GROUP)
    started = told[0]
    assert isinstance(started, TurnStarted)
    assert (started.decision.agent, started.turn.sequence_number) == ("main", 1)
    assert text_of(told) == "you said hello"
    assert [message.text for message in messages_of(told)] == ["you said hello"]
    assert end_of(told).turn.status is TurnStatus.COMPLETED
    session = await store.get_session(key_of(door.bindings))
    assert session.id == started.session.id
    assert (session.message_count, session.turn_count, session.token_usage) == (2, 1, TokenUsage(10, 2))
    assert await texts(store, session.id) == [("user", "hello"), ("agent", "you said hello")]
    assert ended == [session.id]


@pytest.mark.req("STO-19")
async def test_the_next_message_finds_the_same_session_and_its_history(store: Store) -> None:
    door = gateway(store, remembers)
    assert text_of(await events(door, GROUP)) == "main: 0 before this"
    assert text_of(await events(door, GROUP)) == "main: 2 before this"
    assert (await store.list()).total == 1


async def test_tool_calls_and_results_are_stored_between_the_texts(store: Store) -> None:
    async def looks(_: Exchange) -> Any:
        yield "let me look"
        yield Message.agent("", tool_calls=(ToolCall(id="c1", name="look"),))
        yield Message.of("tool", Message.user("a cat").content, tool_call_id="c1")
        yield "it is a cat"

    door = gateway(store, looks)
    told = await events(door, GROUP)
    assert [message.text for message in messages_of(told)] == ["let me look", "", "a cat", "it is a cat"]
    assert {message.turn_id for message in messages_of(told)} == {end_of(told).turn.id}


async def test_a_runner_that_fails_is_a_failed_turn_and_what_it_said_is_kept(store: Store) -> None:
    async def breaks(_: Exchange) -> Any:
        yield "so far"
        raise RuntimeError("out of luck")

    door = gateway(store, breaks)
    turn = end_of(await events(door, GROUP)).turn
    assert (turn.status, turn.errors) == (TurnStatus.FAILED, ("RuntimeError: out of luck",))
    assert await texts(store, key_of(door.bindings)) == [("user", "hello"), ("agent", "so far")]
    assert await store.lease_seconds(key_of(door.bindings)) == 0


async def test_a_delivery_that_is_repeated_is_answered_once(store: Store) -> None:
    door = gateway(store, echo)
    message = said("group:g1", "hello", id=MessageId(new_id()))
    first, second = await events(door, message), await events(door, message)
    assert second == [TurnEnded(end_of(first).turn)]
    assert len(await texts(store, key_of(door.bindings, message))) == 2


async def test_an_agent_without_a_runner_is_named(store: Store) -> None:
    door = Gateway(store, Bindings(policy=RoutingPolicy(default_agent="ghost")), {"main": echo})
    with pytest.raises(NotFound, match="No runner is there for agent 'ghost'; there are: main"):
        await events(door, GROUP)


async def test_a_second_message_waits_and_the_order_is_kept(store: Store) -> None:
    slow = Slow()
    door = gateway(store, slow)
    asked = [asyncio.create_task(events(door, said("group:g1", f"q{n}"))) for n in range(4)]
    await slow.begun.wait()
    slow.go_on.set()
    told = await asyncio.gather(*asked)
    assert [text_of(each) for each in told] == [f"well (q{n})" for n in range(4)]
    assert (slow.asked, slow.most_at_once) == (["q0", "q1", "q2", "q3"], 1)


async def test_two_gateways_on_one_session_take_turns(store: Store) -> None:
    slow = Slow()
    doors = [gateway(store, slow) for _ in range(3)]
    asked = [asyncio.create_task(events(door, said("group:g1", "q"))) for door in doors]
    await slow.begun.wait()
    slow.go_on.set()
    await asyncio.gather(*asked)
    assert (len(slow.asked), slow.most_at_once) == (3, 1)


async def test_other_sessions_do_not_wait(store: Store) -> None:
    slow = Slow()
    door = gateway(store, slow)
    waiting = asyncio.create_task(events(door, said("group:g1", "q")))
    await slow.begun.wait()
    other = asyncio.create_task(events(door, said("group:g2", "q")))
    while slow.at_once < 2:  # noqa: ASYNC110  # a condition, not an event
        await asyncio.sleep(0.01)
    slow.go_on.set()
    await asyncio.gather(waiting, other)
    assert slow.most_at_once == 2


async def test_a_message_may_join_the_turn_that_runs(store: Store) -> None:
    slow = Slow()
    door, other_door = (gateway(store, slow, busy=Busy.JOIN) for _ in range(2))
    first = asyncio.create_task(events(door, said("group:g1", "q1")))
    await slow.begun.wait()
    for number, each in ((2, door), (3, other_door)):
        (joined,) = await events(each, said("group:g1", f"q{number}"))
        assert isinstance(joined, TurnJoined)
    slow.go_on.set()
    assert text_of(await first) == "well (q1)well (q2\n\nq3)"
    assert slow.histories[1] == ["q1", "well (q1)"]
    assert slow.asked == ["q1", "q2\n\nq3"]
    assert [event for event in await events(door, said("group:g1", "q4")) if isinstance(event, TurnStarted)]


async def test_a_message_may_interrupt_the_turn_that_runs(store: Store) -> None:
    slow = Slow()
    door, other_door = (gateway(store, slow, busy=Busy.INTERRUPT, lease_seconds=5) for _ in range(2))
    for interrupter in (door, other_door):
        slow.go_on.clear()
        told: list[Outgoing] = []
        first = asyncio.create_task(events(door, said("group:g1", "stop me"), told))
        await until_heard(told)
        second = asyncio.create_task(events(interrupter, said("group:g1", "me first")))
        turn = end_of(await first).turn
        assert (turn.status, turn.stop_reason) == (TurnStatus.FAILED, "interrupted")
        slow.go_on.set()
        assert text_of(await second) == "well (me first)"
    said_before = [text for _, text in await texts(store, key_of(door.bindings, said("group:g1")))]
    assert said_before[:4] == ["stop me", "well ", "me first", "well (me first)"]


async def test_closing_the_iterator_ends_the_turn_and_frees_the_session(store: Store) -> None:
    slow = Slow()
    door = gateway(store, slow)
    async with aclosing(door.receive(GROUP)) as told:
        async for event in told:
            if isinstance(event, TextAdded):
                break
    key = key_of(door.bindings)
    last = await store.last_turn(key)
    assert last is not None
    assert (last.status, last.stop_reason) == (TurnStatus.FAILED, "interrupted")
    assert await store.lease_seconds(key) == 0
    slow.go_on.set()
    assert text_of(await events(door, GROUP)) == "well (hello)"


async def test_a_holder_that_was_given_up_cannot_write_any_more(store: Store) -> None:
    session = await store.get_or_create(main_key("main"))
    slow_holder = await take_hold(store, session.id, 0.001)
    next_holder = await take_hold(store, session.id)
    with pytest.raises(LeaseLost):
        await slow_holder.store.append_messages(session.id, [Message.user("too late")])
    with pytest.raises(LeaseLost):
        await slow_holder.store.patch(session.id, SessionPatch(title="too late"))
    with pytest.raises(LeaseLost):
        await slow_holder.release()
    await next_holder.store.append_messages(session.id, [Message.user("in time")])
    assert await next_holder.release()
    assert await texts(store, session.id) == [("user", "in time")]


async def test_an_interruption_at_any_moment_leaves_no_message_open(store: Store) -> None:
    door = gateway(store, echo)
    await events(door, said("group:g1", "stop me"))
    for milliseconds in range(0, 60, 3):
        asked = asyncio.create_task(events(door, said("group:g1", "stop me")))
        await asyncio.wait([asked], timeout=milliseconds / 1000)
        asked.cancel()
        await asyncio.wait([asked])
    key = key_of(door.bindings, said("group:g1"))
    assert await store.lease_seconds(key) == 0
    assert [message for message in await store.get_history(key) if message.open] == []
    assert await store.pending_turns() == []


@pytest.mark.req("STO-08")
async def test_several_senders_in_one_main_session_are_warned_of_once(store: Store) -> None:
    door = gateway(store, echo)
    for sender in ("dm:ada", "dm:ada", "dm:bob", "dm:ada", "dm:bob"):
        await events(door, said(sender))
    assert (await store.list()).total == 1
    (entry,) = await store.list_audit()
    assert (entry.action, entry.outcome) == ("session.main_shared", "warned")
    assert entry.detail == {"senders": ["slack:ada", "slack:bob"]}


async def test_a_chat_that_was_idle_begins_afresh_and_keeps_its_past(store: Store) -> None:
    policy = RoutingPolicy(reset_by_channel={"irc": Reset(mode=ResetMode.IDLE, idle_minutes=1e-9)})
    door = Gateway(store, Bindings((), policy, agents=["main"]), {"main": remembers})
    for _ in range(2):
        assert text_of(await events(door, GROUP)) == "main: 0 before this"
    assert text_of(await events(door, said("group:g1"))) == "main: 0 before this"
    assert text_of(await events(door, said("group:g1"))) == "main: 2 before this"
    statuses = sorted((each.status.value, each.message_count) for each in await store.list())
    assert statuses == [("active", 2), ("active", 4), ("archived", 2)]


async def test_an_archived_chat_begins_afresh_and_a_completed_one_goes_on(store: Store) -> None:
    door = gateway(store, remembers)
    await events(door, GROUP)
    key = key_of(door.bindings)
    await store.patch(key, SessionPatch(status=SessionStatus.COMPLETED))
    assert text_of(await events(door, GROUP)) == "main: 2 before this"
    await store.patch(key, SessionPatch(status=SessionStatus.ARCHIVED))
    assert text_of(await events(door, GROUP)) == "main: 0 before this"


async def test_the_example_of_the_documentation_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    document = (Path(__file__).parents[2] / "docs" / "routing.md").read_text()
    names: dict[str, Any] = {}
    exec(document.split("```python\n")[1].split("```")[0], names)
    monkeypatch.chdir(tmp_path)
    await names["bot"]()
    assert capsys.readouterr().out == "You asked 'how?', and 0 messages came before it."


@pytest.mark.parametrize(
    ("reset", "age", "quiet", "due"),
    [
        (Reset(), 1000, 1000, False),
        (Reset(mode=ResetMode.IDLE, idle_minutes=60), 1000, 0.5, False),
        (Reset(mode=ResetMode.IDLE, idle_minutes=60), 1000, 2, True),
        (Reset(mode=ResetMode.DAILY, at_hour=4), 7, 0, False),
        (Reset(mode=ResetMode.DAILY, at_hour=4), 9, 0, True),
        (Reset(mode=ResetMode.DAILY, at_hour=13), 22, 0, False),
        (Reset(mode=ResetMode.DAILY, at_hour=13), 24, 0, True),
    ],
)
def test_a_reset_is_due_by_the_hour_or_by_silence(reset: Reset, age: float, quiet: float, due: bool) -> None:
    now = datetime(2026, 5, 4, 12, tzinfo=UTC)
    times = {"started": now - timedelta(hours=age), "last_asked": now - timedelta(hours=quiet)}
    assert reset.is_due(now=now, **times) is due
