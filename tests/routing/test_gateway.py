"""A message's whole life: routed, answered, stored, one turn at a time."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import aclosing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from holdfast import Message, SessionPatch, SessionStatus, Store, TokenUsage, ToolCall, TurnStatus, open_store
from holdfast.errors import Conflict, InvalidInput, NotFound
from holdfast.model.ids import MessageId, SessionId
from holdfast.model.lease import LeaseLost
from holdfast.routing.binding import Binding
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
from tests.waiting import returned, until

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


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ValueError("x\ud800y"), "ValueError: x?y"),
        (ValueError("x\0y"), "ValueError: x\ufffdy"),
        (Unspeakable(), "Unspeakable"),
        (NotFound("No such book."), "NotFound: No such book."),
    ],
    ids=["half a surrogate pair", "a NUL", "no text", "one of ours"],
)
async def test_whatever_a_runner_raises_its_turn_is_told_as_failed(
    store: Store, caplog: pytest.LogCaptureFixture, error: Exception, told: str
) -> None:
    caplog.set_level("ERROR", "holdfast.routing")  # a log with half a pair cannot be sent between processes

    async def breaks(_: Exchange) -> Any:
        yield "so far"
        raise error

    door = gateway(store, breaks)
    turn = end_of(await events(door, GROUP)).turn
    assert (turn.status, turn.stop_reason, turn.errors) == (TurnStatus.FAILED, "error", (told,))
    assert await texts(store, key_of(door.bindings)) == [("user", "hello"), ("agent", "so far")]


@pytest.mark.parametrize("given", [None, 7, "half \ud800", b"bytes"], ids=repr)
async def test_an_answer_that_is_none_is_a_failed_turn(store: Store, given: Any) -> None:
    async def answers(_: Exchange) -> Any:
        return given

    door = gateway(store, answers)
    turn = end_of(await events(door, GROUP)).turn
    assert (turn.status, turn.stop_reason) == (TurnStatus.FAILED, "error")
    assert turn.errors[0].startswith("InvalidInput: ")
    assert (await store.get_turn(turn.session_id, turn.id)).status is TurnStatus.FAILED


async def test_an_answer_stands_when_what_follows_it_fails(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    async def breaks(_: SessionId) -> None:
        raise RuntimeError("out of luck")

    told = await events(gateway(store, echo, after_turn=breaks), GROUP)
    assert end_of(told).turn.status is TurnStatus.COMPLETED
    assert "what follows its turn failed" in caplog.text
    assert "out of luck" in caplog.text


async def test_an_answer_with_a_nul_is_told_and_kept_whole(store: Store) -> None:
    async def binary(_: Exchange) -> str:
        return "a\0b"

    told = await events(gateway(store, binary), GROUP)
    assert (text_of(told), messages_of(told)[0].text) == ("a\0b", "a\0b")
    turn = end_of(told).turn
    assert (turn.status, turn.agent_answer_summary) == (TurnStatus.COMPLETED, "a\ufffdb")


async def test_a_question_with_a_nul_is_refused_before_anything_happens(store: Store) -> None:
    with pytest.raises(InvalidInput, match="The message contains a NUL character, which cannot be stored"):
        await events(gateway(store, echo), said("group:g1", "a\0b"))
    assert (await store.list()).total == 0


async def test_a_delivery_that_is_repeated_is_answered_once(store: Store) -> None:
    door = gateway(store, echo)
    message = said("group:g1", "hello", id=MessageId(new_id()))
    first, second = await events(door, message), await events(door, message)
    assert second == [TurnEnded(end_of(first).turn)]
    assert len(await texts(store, key_of(door.bindings, message))) == 2


async def test_a_delivery_that_is_repeated_does_not_interrupt_its_own_turn(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = Slow()
    door, other_door = (gateway(store, slow, busy=Busy.INTERRUPT, lease_seconds=5) for _ in range(2))
    message = said("group:g1", "hello", id=MessageId(new_id()))
    first = asyncio.create_task(events(door, message))
    await slow.begun.wait()
    found, seconds_left = (returned(monkeypatch, Store, each) for each in ("turn_of", "lease_seconds"))
    repeated = [asyncio.create_task(events(each, message)) for each in (door, other_door)]
    await until(lambda: len(found) == 2 and any(seconds_left))
    renewed = returned(monkeypatch, Store, "renew_lease")
    await until(lambda: bool(renewed))
    assert not any(each.done() for each in (first, *repeated))
    slow.go_on.set()
    turn = end_of(await first).turn
    assert (turn.status, slow.asked) == (TurnStatus.COMPLETED, ["hello"])
    assert await asyncio.gather(*repeated) == [[TurnEnded(turn)]] * 2


async def test_a_delivery_that_is_repeated_after_a_reset_is_answered_once(store: Store) -> None:
    door = gateway(store, echo)
    message = said("group:g1", "hello", id=MessageId(new_id()))
    first = await events(door, message)
    await store.retire(key_of(door.bindings, message))
    assert await events(door, message) == [TurnEnded(end_of(first).turn)]
    assert text_of(await events(door, said("group:g1", "again"))) == "you said again"
    assert await events(door, message) == [TurnEnded(end_of(first).turn)]


HANDED_OVER = Bindings([Binding(agent="other", channel="slack", peer="group:g1")])


@pytest.mark.parametrize("busy", list(Busy))
async def test_a_delivery_that_is_repeated_is_answered_once_whichever_agent_answers_now(
    store: Store, busy: Busy
) -> None:
    door = Gateway(store, Bindings(agents=["main"]), {"main": echo, "other": echo}, busy=busy)
    message = said("group:g1", "hello", id=MessageId(new_id()))
    first = await events(door, message)
    door.bindings = HANDED_OVER
    assert await events(door, message) == [TurnEnded(end_of(first).turn)]
    assert [session.agent for session in await store.list()] == ["main"]
    assert text_of(await events(door, said("group:g1", "again"))) == "you said again"


@pytest.mark.parametrize("busy", list(Busy))
async def test_a_repeated_delivery_waits_for_the_agent_that_had_it_before(
    store: Store, busy: Busy, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = Slow()
    door = Gateway(store, Bindings(agents=["main"]), {"main": slow, "other": echo}, busy=busy)
    message = said("group:g1", "hello", id=MessageId(new_id()))
    first = asyncio.create_task(events(door, message))
    await slow.begun.wait()
    door.bindings = HANDED_OVER
    seconds_left = returned(monkeypatch, Store, "lease_seconds")
    repeated = asyncio.create_task(events(door, message))
    await until(lambda: any(seconds_left))
    assert not first.done()
    assert not repeated.done()
    slow.go_on.set()
    turn = end_of(await first).turn
    assert (turn.status, await repeated) == (TurnStatus.COMPLETED, [TurnEnded(turn)])
    assert [session.agent for session in await store.list()] == ["main"]


async def test_an_id_that_another_message_has_is_refused(store: Store) -> None:
    door = gateway(store, echo)
    taken = MessageId(new_id())
    await events(door, said("group:g1", "hello", id=taken))
    with pytest.raises(Conflict, match="Another message already has the id"):
        await events(door, said("group:g1", "something else", id=taken))


async def test_an_agent_without_a_runner_is_named(store: Store) -> None:
    door = Gateway(store, Bindings(policy=RoutingPolicy(default_agent="ghost")), {"main": echo})
    with pytest.raises(NotFound, match="No runner is there for agent 'ghost'; there are: main"):
        await events(door, GROUP)


async def test_runners_are_named_as_agents_are(store: Store) -> None:
    bindings = Bindings(policy=RoutingPolicy(default_agent="Clerk"))
    assert text_of(await events(Gateway(store, bindings, {" Clerk": echo}), GROUP)) == "you said hello"
    with pytest.raises(InvalidInput, match="Two runners are for one agent: Clerk, clerk"):
        Gateway(store, bindings, {"Clerk": echo, "clerk": echo})


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


async def test_a_history_that_takes_longer_than_a_lease_is_read_to_its_end(store: Store) -> None:
    async def slow_history(view: Store, session_id: SessionId) -> list[Message]:
        run_out = time.monotonic() + await view.lease_seconds(session_id)
        while time.monotonic() <= run_out:  # noqa: ASYNC110  # a condition, not an event
            await asyncio.sleep(0.01)
        assert await view.lease_seconds(session_id), "the lease was not renewed"
        return []

    told = await events(gateway(store, echo, history=slow_history, lease_seconds=3), GROUP)
    assert text_of(told) == "you said hello"


async def test_of_messages_that_come_at_once_each_interrupts_the_one_before(store: Store) -> None:
    slow = Slow()
    door = gateway(store, slow, busy=Busy.INTERRUPT, lease_seconds=5)
    twice = said("group:g1", "q1", id=MessageId(new_id()))
    asked = [asyncio.create_task(events(door, each)) for each in (said("group:g1", "q0"), twice, twice)]
    first = end_of(await asked[0]).turn
    assert (first.status, first.stop_reason) == (TurnStatus.FAILED, "interrupted")
    while "q1" not in slow.asked:  # noqa: ASYNC110  # a condition, not an event
        await asyncio.sleep(0.01)
    slow.go_on.set()
    told, told_again = await asyncio.gather(*asked[1:])
    assert text_of(told) == "well (q1)"
    assert told_again == [TurnEnded(end_of(told).turn)]


async def test_what_is_interrupted_before_it_has_begun_is_stored(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    reading, go_on = asyncio.Event(), asyncio.Event()

    async def slow_history(view: Store, session_id: SessionId) -> list[Message]:
        reading.set()
        await go_on.wait()
        return []

    slow = Slow()
    door, other_door = (
        gateway(store, slow, busy=Busy.INTERRUPT, lease_seconds=5, history=slow_history) for _ in range(2)
    )
    first = asyncio.create_task(events(door, said("group:g1", "stop me")))
    await reading.wait()
    (session,) = await store.list()
    interrupted = returned(monkeypatch, Store, "renew_lease")
    second = asyncio.create_task(events(other_door, said("group:g1", "me first")))
    await until(lambda: any(interrupted))
    assert not first.done()
    go_on.set()
    assert end_of(await first).turn.stop_reason == "interrupted"
    slow.go_on.set()
    assert text_of(await second) == "well (me first)"
    asked = [text for role, text in await texts(store, session.id) if role == "user"]
    assert asked == ["stop me", "me first"]


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


async def test_a_person_on_several_channels_shares_the_main_session_with_nobody(store: Store) -> None:
    policy = RoutingPolicy(links={"ada": ("irc:Ada", "slack:U1")})
    door = Gateway(store, Bindings((), policy, agents=["main"]), {"main": echo})
    for sender, channel in (("dm:ada", "irc"), ("dm:U1", "slack")):
        await events(door, said(sender, channel=channel))
    assert await store.list_audit() == []
    await events(door, said("dm:U2"))
    (entry,) = await store.list_audit()
    assert entry.detail == {"senders": ["irc:ada", "slack:U1", "slack:U2"]}


async def test_a_chat_that_was_idle_begins_afresh_and_keeps_its_past(store: Store) -> None:
    policy = RoutingPolicy(reset_by_channel={"IRC": Reset(mode=ResetMode.IDLE, idle_minutes=1e-9)})
    door = Gateway(store, Bindings((), policy, agents=["main"]), {"main": remembers})
    for _ in range(2):
        assert text_of(await events(door, GROUP)) == "main: 0 before this"
    assert text_of(await events(door, said("group:g1"))) == "main: 0 before this"
    assert text_of(await events(door, said("group:g1"))) == "main: 2 before this"
    statuses = sorted((each.status.value, each.message_count) for each in await store.list())
    assert statuses == [("active", 2), ("active", 4), ("archived", 2)]


async def test_a_thread_of_a_direct_message_resets_nothing_where_all_share_main(store: Store) -> None:
    soon = Reset(mode=ResetMode.IDLE, idle_minutes=1e-9)
    door = gateway(store, remembers)
    door.bindings = Bindings(policy=RoutingPolicy(default_agent="main", reset_by_kind={"thread": soon}))
    await events(door, said("dm:ada"))
    assert text_of(await events(door, said("dm:ada", thread="t1"))) == "main: 2 before this"
    assert text_of(await events(door, said("group:g1", thread="t1"))) == "main: 0 before this"
    assert text_of(await events(door, said("group:g1", thread="t1"))) == "main: 0 before this"


@pytest.mark.parametrize("written", [7, "x", ["slack:ada"], {"slack:ada": True}])
async def test_whatever_people_write_beside_main_it_is_answered(store: Store, written: object) -> None:
    door = gateway(store, echo)
    await events(door, said("dm:ada"))
    await store.patch(main_key("main"), SessionPatch(custom={"senders": written}))
    assert text_of(await events(door, said("dm:ada"))) == "you said hello"
    assert (await store.get_session(main_key("main"))).senders == ["slack:ada"]


def test_a_reset_of_something_that_is_no_channel_is_refused_at_the_start() -> None:
    with pytest.raises(InvalidInput, match="My Slack"):
        RoutingPolicy.from_settings({"reset_by_channel": {"My Slack": {"mode": "daily"}}})


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
    now = datetime(2026, 5, 4, 12).astimezone()
    times = {"started": now - timedelta(hours=age), "quiet_since": now - timedelta(hours=quiet)}
    assert reset.is_due(now=now, **times) is due


@pytest.fixture
def in_berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "Europe/Berlin")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("in_berlin")
@pytest.mark.parametrize(
    ("at_hour", "started", "now", "due"),
    [
        # The clocks go forward on 29 March at 2.
        (1, "2026-03-29 00:30+01:00", "2026-03-29 12:00+02:00", True),
        (1, "2026-03-29 01:30+01:00", "2026-03-29 12:00+02:00", False),
        (4, "2026-03-28 03:30+01:00", "2026-03-29 03:30+02:00", True),
        (2, "2026-03-29 01:59+01:00", "2026-03-29 03:01+02:00", True),
        # They go back on 25 October at 3.
        (1, "2026-10-25 01:30+02:00", "2026-10-25 12:00+01:00", False),
        (4, "2026-10-24 04:30+02:00", "2026-10-25 03:30+01:00", False),
        (2, "2026-10-25 02:30+02:00", "2026-10-25 02:30+01:00", False),
        (2, "2026-10-25 01:30+02:00", "2026-10-25 02:30+01:00", True),
    ],
)
def test_a_day_begins_when_the_clocks_show_its_hour(at_hour: int, started: str, now: str, due: bool) -> None:
    reset = Reset(mode=ResetMode.DAILY, at_hour=at_hour)
    began, asked = datetime.fromisoformat(started), datetime.fromisoformat(now)
    assert reset.is_due(started=began, quiet_since=asked, now=asked) is due


async def test_a_chat_is_not_idle_while_it_is_answered(store_url: str) -> None:
    ago = timedelta(hours=2)

    async def takes_long(exchange: Exchange) -> str:
        nonlocal ago
        ago = timedelta(0)
        return f"{len(exchange.history)} before this"

    def clock() -> int:
        return int((datetime.now(UTC) - ago).timestamp() * 1000)

    idle = RoutingPolicy(reset=Reset(mode=ResetMode.IDLE, idle_minutes=60))
    async with open_store(store_url, clock=clock) as store:
        door = Gateway(store, Bindings((), idle, agents=["main"]), {"main": takes_long})
        assert text_of(await events(door, GROUP)) == "0 before this"
        assert text_of(await events(door, GROUP)) == "2 before this"
        ago = timedelta(hours=-2)
        assert text_of(await events(door, GROUP)) == "4 before this"
