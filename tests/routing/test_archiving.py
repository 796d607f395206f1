"""What nobody has used for long is archived, and never deleted."""

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from holdfast import Message, SessionPatch, SessionStatus, Store, open_store
from holdfast.model.ids import SessionId
from holdfast.model.session import NewSession
from holdfast.model.times import from_ms
from holdfast.model.turn import NewTurn
from holdfast.routing.archiving import UnusedSession, archive, plan_archiving
from tests.cli.command import Cli
from tests.routing.gateways import events, gateway, remembers, text_of
from tests.routing.messages import said
from tests.store.conftest import Clock, clock

__all__ = ["clock"]

DAY = 24 * 60 * 60 * 1000


@pytest.fixture
async def aging(store_url: str, clock: Clock) -> AsyncIterator[Store]:
    """A store that is as old as a test wants."""
    async with open_store(store_url, clock=clock) as opened:
        yield opened


async def asked(store: Store, title: str, **fields: object) -> SessionId:
    """A session in which somebody asked something."""
    session = await store.create_session(NewSession(title=title, **fields))  # type: ignore[arg-type]
    await store.append_messages(session.id, [Message.user("how?"), Message.agent("so")])
    return session.id


async def planned(store: Store, clock: Clock, days: int = 30) -> list[UnusedSession]:
    return await plan_archiving(store, timedelta(days=days), from_ms(clock.now))


async def test_what_nobody_used_for_long_is_archived_and_keeps_all_that_was_said(
    aging: Store, clock: Clock
) -> None:
    old = await asked(aging, "old")
    clock.now += 31 * DAY
    new = await asked(aging, "new")
    plan = await planned(aging, clock)
    assert [(each.session.id, each.kept) for each in plan] == [(old, None)]
    assert (await aging.get_session(old)).status is SessionStatus.ACTIVE
    assert [session.id for session in await archive(aging, plan)] == [old]
    session = await aging.get_session(old)
    assert (session.status, session.status_reason) == (SessionStatus.ARCHIVED, "unused")
    assert [message.text for message in await aging.get_history(old)] == ["how?", "so"]
    assert (await aging.get_session(new)).status is SessionStatus.ACTIVE
    assert [(entry.action, entry.subject) for entry in await aging.list_audit()] == [("session.archive", old)]
    assert await planned(aging, clock) == []


async def test_what_programs_write_is_no_use_and_what_people_say_is(aging: Store, clock: Clock) -> None:
    touched, spoken_to, prompted = [
        await asked(aging, title) for title in ("touched", "spoken to", "prompted")
    ]
    clock.now += 31 * DAY
    await aging.append_messages(touched, [Message.agent("still here"), Message.system("so it is")])
    await aging.patch(touched, SessionPatch(title="renamed"))
    await aging.append_messages(spoken_to, [Message.user("and now?"), *[Message.agent("well")] * 1500])
    turn = await aging.add_turn(prompted, NewTurn(instruction_summary="go on"))
    assert turn is not None
    assert [each.session.id for each in await planned(aging, clock)] == [touched]


async def test_pinned_and_running_sessions_are_kept_and_named(aging: Store, clock: Clock) -> None:
    pinned = await asked(aging, "pinned", custom={"pinned": True})
    pending, held, served = [await asked(aging, title) for title in ("pending", "held", "served")]
    await aging.add_turn(pending, NewTurn(instruction_summary="go on"))
    await aging.record_process(served, 4711, 1.0)
    clock.now += 31 * DAY
    assert await aging.take_lease(held, 60)
    plan = await planned(aging, clock)
    assert {each.session.id: each.kept for each in plan} == {
        pinned: "it is pinned",
        **dict.fromkeys((pending, held, served), "it is running"),
    }
    assert await archive(aging, plan) == []
    assert (await aging.list()).total == 4


async def test_a_session_that_is_used_after_it_was_planned_stays(aging: Store, clock: Clock) -> None:
    old = await asked(aging, "old")
    clock.now += 31 * DAY
    plan = await planned(aging, clock)
    await aging.append_messages(old, [Message.user("wait")])
    assert await archive(aging, plan) == []
    assert (await aging.get_session(old)).status is SessionStatus.ACTIVE


async def test_an_archived_chat_begins_another_at_its_next_message(store: Store, clock: Clock) -> None:
    door = gateway(store, remembers)
    await events(door, said("group:g1"))
    (session,) = await store.list()
    clock.now = int(session.updated_at.timestamp() * 1000) + 31 * DAY
    await archive(store, await planned(store, clock))
    assert text_of(await events(door, said("group:g1"))) == "main: 0 before this"
    assert (await store.get_session(session.id)).message_count == 2


def test_sessions_are_archived_by_hand(cli: Cli) -> None:
    async def begin() -> SessionId:
        long_ago = Clock(1_000_000_000_000)
        async with open_store(f"sqlite:///{cli.home}/data/holdfast.db", clock=long_ago) as store:
            return await asked(store, "old")

    (cli.home / "data").mkdir()
    old = asyncio.run(begin())
    command = ("sessions", "archive", "--idle-days", "30")
    assert cli(*command, "--plan").stdout.splitlines() == [
        f"archive   {old}  old",
        "1 sessions can be archived. Nothing was changed.",
    ]
    (done,) = json.loads(cli(*command, "--apply", "--json").stdout)
    assert done == {"sessionId": old, "name": "old", "kept": None, "archived": True}
    assert cli(*command, "--apply").stdout == "0 sessions were archived.\n"
    assert cli(*command).stderr == "holdfast: Say what to do: one of --plan and --apply.\n"
