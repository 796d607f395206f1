"""Sessions follow a changed binding: planned, applied, undone, and nothing is lost."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from holdfast import Message, Principal, SessionKey, Store, TokenUsage, open_store
from holdfast.errors import AccessDenied, Conflict, NotFound
from holdfast.model.records import MoveAction
from holdfast.model.session import SessionPatch
from holdfast.routing.binding import Binding
from holdfast.routing.bindings import Bindings
from holdfast.routing.moves import apply_moves, plan_moves
from holdfast.routing.policy import RoutingPolicy
from holdfast.store.options import SessionFilter
from tests.cli.command import Cli
from tests.routing.gateways import echo, events, gateway
from tests.routing.messages import said

POLICY = RoutingPolicy(default_agent="old")
BEFORE = Bindings((), POLICY)
AFTER = Bindings([Binding(agent="new", channel="irc", peer="group:#a*")], POLICY)


def keys(peer: str) -> tuple[SessionKey, SessionKey]:
    """The key of a chat before and after the bindings changed."""
    message = said(f"group:{peer}", channel="irc")
    return BEFORE.decide(message).key, AFTER.decide(message).key


async def chat(store: Store, key: SessionKey, *texts: str) -> None:
    await store.get_or_create(key)
    await store.append_messages(key, [Message.user(text) for text in texts])
    await store.patch(key, SessionPatch(title=f"about {texts[0]}", add_usage=TokenUsage(1, 2)))


async def state(store: Store) -> dict[str, Any]:
    """Everything a person would miss."""
    sessions = (await store.list(SessionFilter(limit=1000))).sessions
    return {
        session.id: (
            session.key_text,
            session.agent,
            session.status,
            session.archived_from,
            session.title,
            session.custom,
            session.token_usage,
            [*await store.get_history(session.id)],
        )
        for session in sessions
    }


async def texts(store: Store, key: SessionKey) -> list[str]:
    return [message.text for message in await store.get_history(key)]


@pytest.mark.req("STO-22")
async def test_a_move_is_planned_applied_and_undone(store: Store) -> None:
    (old, new), (other, _) = keys("#a1"), keys("#b")
    await chat(store, old, "one", "two")
    await chat(store, other, "stays")
    before = await state(store)
    steps = await plan_moves(store, AFTER)
    assert [(step.action, step.from_key, step.to_key) for step in steps] == [
        (MoveAction.MOVE, str(old), str(new))
    ]
    assert await state(store) == before
    record = await apply_moves(store, steps)
    assert record is not None
    assert tuple(done.step for done in record.steps) == tuple(steps)
    assert await texts(store.as_agent("new"), new) == ["one", "two"]
    assert await plan_moves(store, AFTER) == []
    undone = await store.undo_moves()
    assert (undone.number, undone.undone_at is not None) == (record.number, True)
    assert await state(store) == before
    assert [entry.action for entry in await store.list_audit()] == ["sessions.move.undo", "sessions.move"]
    with pytest.raises(NotFound):
        await store.undo_moves()


@pytest.mark.req("STO-22")
async def test_what_was_said_after_a_move_is_kept_when_it_is_undone(store: Store) -> None:
    old, new = keys("#a1")
    await chat(store, old, "before")
    await apply_moves(store, await plan_moves(store, AFTER))
    await store.append_messages(new, [Message.user("after")])
    await store.undo_moves()
    assert await texts(store, old) == ["before", "after"]


@pytest.mark.req("STO-22")
async def test_a_chat_that_goes_on_under_its_new_key_is_a_conflict_or_a_merge(store: Store) -> None:
    (old, new), (free, _) = keys("#a1"), keys("#a2")
    await chat(store, old, "one", "two")
    await chat(store, free, "alone")
    await chat(store, new, "three")
    before = await state(store)
    conflict, move = await plan_moves(store, AFTER)
    assert (conflict.action, conflict.session_id) == (
        MoveAction.CONFLICT,
        (await store.get_session(old)).id,
    )
    assert move.action is MoveAction.MOVE
    with pytest.raises(Conflict):
        await store.move_sessions([move, conflict])
    assert await state(store) == before
    await apply_moves(store, await plan_moves(store, AFTER, merge=True))
    merged = await store.get_session(new)
    assert (await texts(store, new), merged.token_usage) == (["one", "two", "three"], TokenUsage(2, 4))
    assert sorted(each.status.value for each in await store.list()) == [
        *("active", "active", "archived", "archived"),
    ]
    await store.undo_moves()
    assert await state(store) == before


@pytest.mark.req("STO-22")
async def test_a_copy_leaves_the_original_and_is_not_undone_once_it_was_used(store: Store) -> None:
    old, new = keys("#a1")
    await chat(store, old, "one")
    before = await state(store)
    await apply_moves(store, await plan_moves(store, AFTER, copy=True))
    assert (await texts(store, old), await texts(store, new)) == (["one"], ["one"])
    await store.undo_moves()
    assert await state(store) == before
    await apply_moves(store, await plan_moves(store, AFTER, copy=True))
    await store.append_messages(new, [Message.user("two")])
    with pytest.raises(Conflict, match="was used since"):
        await store.undo_moves()
    assert await texts(store, new) == ["one", "two"]


async def test_a_session_whose_turn_runs_stays(store: Store) -> None:
    old, _ = keys("#a1")
    await chat(store, old, "one")
    steps = await plan_moves(store, AFTER)
    assert await store.take_lease(old, 60)
    (running,) = await plan_moves(store, AFTER)
    assert (running.action, running.reason) == (MoveAction.CONFLICT, "a turn of it is running")
    with pytest.raises(Conflict, match="is running"):
        await store.move_sessions(steps)


async def test_a_plan_that_no_longer_fits_changes_nothing(store: Store) -> None:
    old, new = keys("#a1")
    await chat(store, old, "one")
    steps = await plan_moves(store, AFTER)
    await chat(store, new, "begun meanwhile")
    before = await state(store)
    with pytest.raises(Conflict, match="already a session with the key"):
        await store.move_sessions(steps)
    assert await state(store) == before


async def test_sessions_that_several_chats_share_stay(store: Store) -> None:
    door = gateway(store, echo)
    await events(door, said("dm:ada", channel="irc"))
    everything = Bindings([Binding(agent="new", channel="irc", account="*")], POLICY)
    assert await plan_moves(store, everything) == []


@pytest.mark.req("STO-22")
async def test_the_guild_of_a_chat_is_remembered_for_its_move(store: Store) -> None:
    await events(gateway(store, echo), said("channel:c", channel="discord", guild="g1"))
    by_guild = Bindings([Binding(agent="new", channel="discord", guild="g1")], POLICY)
    (step,) = await plan_moves(store, by_guild)
    assert step.to_key == "new:discord:default:channel:c"


async def test_only_admins_move_sessions(store: Store) -> None:
    member = store.as_principal(Principal("local", "ada"))
    await chat(member, keys("#a1")[0], "one")
    with pytest.raises(AccessDenied, match="Only an admin may move sessions"):
        await apply_moves(member, await plan_moves(member, AFTER))


KILLED_MIDWAY = """
import asyncio, os, sys
from holdfast import open_store
from holdfast.store import records
from holdfast.routing.moves import apply_moves, plan_moves
from tests.routing.test_moves import AFTER

async def die(*_):
    os.kill(os.getpid(), 9)

async def main():
    async with open_store(sys.argv[1]) as store:
        steps = await plan_moves(store, AFTER, merge=True)
        records.add_audit = die  # the last thing that a move writes
        await apply_moves(store, steps)

asyncio.run(main())
"""


@pytest.mark.req("STO-22")
async def test_a_kill_in_the_middle_leaves_nothing_moved(store_url: str) -> None:
    (old, new), (other, _) = keys("#a1"), keys("#a2")
    async with open_store(store_url) as store:
        for key in (old, new, other):
            await chat(store, key, "said")
        before = await state(store)
        command = [sys.executable, "-c", KILLED_MIDWAY, store_url]
        killed = await asyncio.create_subprocess_exec(*command, cwd=Path(__file__).parents[2])
        assert await killed.wait() == -9
        assert await state(store) == before
        assert {step.action for step in await plan_moves(store, AFTER, merge=True)} == {
            MoveAction.MERGE,
            MoveAction.MOVE,
        }


@pytest.mark.req("STO-21", "STO-22")
def test_sessions_are_migrated_by_hand(cli: Cli) -> None:
    (cli.home / "holdfast.toml").write_text('[routing]\ndefault_agent = "old"\n')
    (old, new) = keys("#a1")

    async def begin() -> None:
        async with open_store(f"sqlite:///{cli.home}/data/holdfast.db") as store:
            await chat(store, old, "one")

    (cli.home / "data").mkdir()
    asyncio.run(begin())
    migrate = ("sessions", "migrate")
    assert cli(*migrate, "--plan").stdout.startswith("Every session is where its bindings say")
    cli("bindings", "add", "new", "--channel", "irc", "--peer", "group:#a*")
    assert cli(*migrate, "--plan").stdout.splitlines() == [
        f"move      {old} → {new}",
        "1 of 1 sessions can move. Nothing was changed.",
    ]
    assert "Migration 1: 1 sessions have moved." in cli(*migrate, "--apply").stdout
    undone = json.loads(cli(*migrate, "--undo", "--json").stdout)
    assert (undone["migration"], undone["undone"], len(undone["steps"])) == (1, True, 1)
    assert cli(*migrate, "--undo").stderr == "holdfast: No sessions were moved that are not back already.\n"
    assert cli(*migrate).stderr == "holdfast: Say what to do: one of --plan, --apply and --undo.\n"
