"""A clock that jumps backwards: the order of things is their `seq` and `rev`, and does not notice."""

import asyncio
import random

import pytest

from holdfast import (
    HistoryOptions,
    Message,
    NewTurn,
    SessionFilter,
    SessionKey,
    SessionOrder,
    Store,
    TurnAnswer,
    open_store,
)
from holdfast.model.times import from_ms
from holdfast.store import migrate
from tests.long_plugin import Trials
from tests.store.conftest import Clock
from tests.store.faults.contents import assert_counts_are_true, history, turns

DAY = 86_400_000


@pytest.mark.req("STO-03")
async def test_order_revisions_and_the_change_feed_hold_while_the_clock_jumps(
    store_url: str, key: SessionKey, clock: Clock, trials: Trials
) -> None:
    chance = trials.chance()
    said: list[str] = []
    shown = 0.0
    async with open_store(store_url, clock=clock) as store:
        await store.get_or_create(key)
        for number in range(40):
            clock.now += chance.choice([-3 * DAY, -1, 0, 1, DAY])
            match number % 4:
                case 0:
                    turn = await store.add_turn(key, NewTurn(instruction_summary=f"turn {number}"))
                    clock.now -= DAY
                    await store.complete_turn(key, turn.id, TurnAnswer(agent_answer_summary="done"))
                case 1:
                    stream = await store.open_stream(key, Message.agent("", partial=True))
                    clock.now -= DAY
                    stream.write(f"message {number}")
                    await stream.drain()
                    clock.now -= DAY
                    await stream.end()
                    said.append(f"message {number}")
                case _:
                    await store.append_messages(key, [Message.user(f"message {number}")])
                    said.append(f"message {number}")
            session = await store.get_session(key)
            assert session.updated_at.timestamp() >= shown
            shown = session.updated_at.timestamp()
        messages = await history(store, key)
        assert [message.text for message in messages] == said
        assert len({message.rev for message in messages}) == len(messages)
        await assert_counts_are_true(store, key)
        followed: dict[str, str] = {}
        since, more = 0, True
        while more:
            changes = await store.changes(key, since, limit=3)
            assert changes.rev >= since
            since, more = changes.rev, changes.more
            followed |= {str(message.id): message.text for message in changes.messages}
            followed |= {str(turn.id): turn.instruction_summary for turn in changes.turns}
        assert followed == {str(message.id): message.text for message in messages} | {
            str(turn.id): turn.instruction_summary for turn in await turns(store, key)
        }
        assert since == session.rev
        assert await store.problems() == []


@pytest.mark.req("STO-03", "SES-31")
async def test_time_windows_are_exact_whatever_the_clock_does(
    store_url: str, key: SessionKey, clock: Clock, trials: Trials
) -> None:
    """Also those of messages that bring their own time, and of a database that was migrated to and fro."""
    chance = trials.chance()
    async with open_store(store_url, clock=clock) as store:
        await store.get_or_create(key)
        for _ in range(40):
            clock.now += chance.choice([-3 * DAY, -5, -1, 0, 1, 5, 5, 5, DAY])
            own_times = [clock.now + chance.randint(-9, 9) for _ in range(chance.randint(0, 3))]
            said = [Message.user("then", timestamp=from_ms(at)) for at in own_times]
            await store.append_messages(key, [*said, Message.user("now")])
        await assert_windows_are_exact(store, key, chance)
        assert await store.problems() == []
    await migrate(store_url, "0006")
    async with open_store(store_url, clock=clock) as store:
        await assert_windows_are_exact(store, key, chance)
        assert await store.problems() == []


async def assert_windows_are_exact(store: Store, key: SessionKey, chance: random.Random) -> None:
    messages = await history(store, key)
    moments = sorted({message.timestamp for message in messages if message.timestamp})
    for _ in range(60):
        since, until = sorted(chance.choices(moments, k=2))
        wanted = [each.seq for each in messages if each.timestamp and since < each.timestamp < until]
        cursor, limit = chance.randrange(len(messages)), chance.randint(1, 30)
        page = await store.get_history(key, HistoryOptions(since=since, until=until, limit=1000))
        assert [message.seq for message in page] == wanted
        page = await store.get_history(
            key, HistoryOptions(since=since, until=until, after=cursor, limit=limit)
        )
        assert [message.seq for message in page] == [seq for seq in wanted if seq > cursor][:limit]
        page = await store.get_history(key, HistoryOptions(since=since, before=cursor, limit=limit))
        late = [
            each.seq for each in messages[: max(cursor - 1, 0)] if each.timestamp and each.timestamp > since
        ]
        assert [message.seq for message in page] == late[-limit:]


async def test_listings_catch_up_although_the_clock_went_back(
    store_url: str, key: SessionKey, clock: Clock
) -> None:
    other = SessionKey("main", "irc", "bot", key.peer_kind, "#other")
    async with open_store(store_url, clock=clock) as store:
        for each in (key, other):
            await store.get_or_create(each)
        clock.now -= DAY
        await asyncio.gather(*(store.append_messages(key, [Message.user("late")]) for _ in range(10)))
    async with open_store(store_url, clock=clock) as store:
        page = await store.list(SessionFilter(order=SessionOrder.UPDATED))
        assert page.total == 2
        for session in page.sessions:
            assert session.updated_at >= session.created_at
        assert await store.problems() == []
