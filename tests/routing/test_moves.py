"""Sessions follow a changed binding: planned, applied, undone, and nothing is lost."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast import Message, NewSession, PeerKind, Principal, SessionKey, Store, TokenUsage, open_store
from holdfast.errors import AccessDenied, Conflict, NotFound, SessionNotFound
from holdfast.model.records import MoveAction, MoveStep
from holdfast.model.session import SessionPatch
from holdfast.routing.binding import Binding
from holdfast.routing.bindings import Bindings
from holdfast.routing.gateway import Gateway
from holdfast.routing.moves import apply_moves, plan_moves
from holdfast.routing.origin import Origin
from holdfast.routing.policy import RoutingPolicy
from holdfast.routing.scope import DmScope, main_key
from holdfast.store.options import SessionFilter
from tests.cli.command import Cli
from tests.routing.gateways import echo, events, gateway
from tests.routing.messages import said
from tests.settings import configure

POLICY = RoutingPolicy(default_agent="old")
BEFORE = Bindings((), POLICY)
AFTER = Bindings([Binding(agent="new", channel="irc", peer="group:#a*")], POLICY)


def keys(peer: str) -> tuple[SessionKey, SessionKey]:
    """The key of a chat before and after the bindings changed."""
    message = said(f"group:{peer}", channel="irc")
    return BEFORE.decide(message).key, AFTER.decide(message).key


async def chat(store: Store, key: SessionKey, *texts: str, **origin: Any) -> None:
    """A session as the gateway makes it."""
    await store.get_or_create(key, NewSession(custom=Origin(**{"roles": (), **origin}).kept()))
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
async def test_several_chats_are_merged_into_one_and_parted_again(store: Store) -> None:
    olds = [keys(f"#b{number}")[0] for number in range(3)]
    _, new = keys("#a1")
    for number, old in enumerate(olds):
        await chat(store, old, f"said {number}")
    before = await state(store)
    steps = [
        MoveStep(
            action=MoveAction.MERGE if number else MoveAction.MOVE,
            session_id=(await store.get_session(old)).id,
            from_key=str(old),
            to_key=str(new),
        )
        for number, old in enumerate(olds)
    ]
    await store.move_sessions(steps)
    assert sorted(await texts(store, new)) == ["said 0", "said 1", "said 2"]
    await store.undo_moves()
    assert await state(store) == before


@pytest.mark.req("STO-22")
async def test_a_copy_leaves_the_original_and_is_not_undone_once_it_was_used(store: Store) -> None:
    old, new = keys("#a1")
    await chat(store, old, "one")
    before = await state(store)
    await apply_moves(store, await plan_moves(store, AFTER, copy=True))
    assert (await texts(store, old), await texts(store, new)) == (["one"], ["one"])
    assert await plan_moves(store, AFTER) == []
    (twice,) = await plan_moves(store, AFTER, merge=True)
    assert (twice.action, "would be there twice" in (twice.reason or "")) == (MoveAction.CONFLICT, True)
    await store.undo_moves()
    assert await state(store) == before
    await apply_moves(store, await plan_moves(store, AFTER, copy=True))
    await store.append_messages(new, [Message.user("two")])
    with pytest.raises(Conflict, match="was used since"):
        await store.undo_moves()
    assert await texts(store, new) == ["one", "two"]


@pytest.mark.parametrize("how", [{}, {"copy": True}, {"merge": True}])
async def test_nothing_is_undone_while_a_turn_runs(store: Store, how: dict[str, bool]) -> None:
    old, new = keys("#a1")
    await chat(store, old, "one")
    if "merge" in how:
        await chat(store, new, "two")
    await apply_moves(store, await plan_moves(store, AFTER, **how))
    assert await store.take_lease(new, 60)
    before = await state(store)
    with pytest.raises(Conflict, match="is running; try again when it has ended"):
        await store.undo_moves()
    assert await state(store) == before


@pytest.mark.parametrize("how", [{}, {"copy": True}])
async def test_a_session_that_was_deleted_since_does_not_hinder_undoing(
    store: Store, how: dict[str, bool]
) -> None:
    (old, new), (other, other_new) = keys("#a1"), keys("#a2")
    await chat(store, old, "one")
    await chat(store, other, "two")
    await apply_moves(store, await plan_moves(store, AFTER, **how))
    deleted = (await store.get_session(new)).id
    await store.delete(deleted)
    assert (await store.undo_moves()).gone == (deleted,)
    assert await texts(store, other) == ["two"]
    with pytest.raises(SessionNotFound):
        await store.get_session(other_new)


@pytest.mark.parametrize("begun", ["new", "older"])
@pytest.mark.parametrize("deleted", [0, 1])
async def test_a_merge_stays_that_alone_has_what_was_said(store: Store, begun: str, deleted: int) -> None:
    old, new = keys("#a1")
    await chat(store, msgspec.structs.replace(old, agent_id=begun), "two")
    await chat(store, old, "one")
    await apply_moves(store, await plan_moves(store, AFTER, merge=True))
    original = (await store.get_session(new)).copied_from[deleted]
    await store.delete(original)
    before = await state(store)
    assert (await store.undo_moves()).gone == (original,)
    assert await state(store) == before
    with pytest.raises(NotFound):
        await store.undo_moves()


@pytest.mark.parametrize("written", ["x", ["x"], {"sessions": "x"}, {"sessions": [1, None]}])
async def test_whatever_people_write_beside_a_session_it_can_be_planned_for(
    store: Store, written: object
) -> None:
    old, new = keys("#a1")
    await chat(store, old, "one")
    await chat(store, new, "two")
    await store.patch(new, SessionPatch(custom={"copiedFrom": written}))
    (step,) = await plan_moves(store, AFTER)
    assert step.action is MoveAction.CONFLICT


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


APART = RoutingPolicy(default_agent="old", dm_scope=DmScope.PER_ACCOUNT_CHANNEL_PEER)
TOGETHER = Bindings((), POLICY)
MAIN = str(main_key("old"))


async def shared_by(store: Store) -> list[list[str]]:
    """The people of whom the audit log warns."""
    entries = await store.list_audit()
    return [entry.detail["senders"] for entry in entries if entry.action == "session.main_shared"]


@pytest.mark.req("STO-08", "STO-22")
async def test_a_second_person_comes_into_main_only_when_that_is_asked_for(store: Store) -> None:
    apart = Gateway(store, Bindings((), APART), {"old": echo})
    for person in ("ada", "bob"):
        await events(apart, said(f"dm:{person}", f"I am {person}"))
    before = await state(store)
    conflict, move = await plan_moves(store, TOGETHER, merge=True)
    assert (conflict.action, conflict.from_key) == (MoveAction.CONFLICT, "old:slack:default:dm:bob")
    assert conflict.reason == "people would share one session; --share-main allows that"
    assert (move.action, move.from_key, move.to_key) == (MoveAction.MOVE, "old:slack:default:dm:ada", MAIN)
    await apply_moves(store, [conflict, move])
    assert (await store.get_session(main_key("old"))).senders == ["slack:ada"]
    (again,) = await plan_moves(store, TOGETHER, merge=True)
    assert (again.action, again.reason) == (conflict.action, conflict.reason)
    await store.undo_moves()
    assert await state(store) == before
    await apply_moves(store, await plan_moves(store, TOGETHER, merge=True, share_main=True))
    assert await shared_by(store) == [["slack:ada", "slack:bob"]]
    assert (await store.get_session(main_key("old"))).senders == ["slack:ada", "slack:bob"]
    await store.undo_moves()
    assert await state(store) == before


@pytest.mark.req("STO-08")
async def test_a_second_person_who_moves_into_a_main_that_goes_on_is_warned_of(store: Store) -> None:
    await events(Gateway(store, TOGETHER, {"old": echo}), said("dm:ada", "I am ada"))
    await events(Gateway(store, Bindings((), APART), {"old": echo}), said("dm:bob", "I am bob"))
    before = await state(store)
    (step,) = await plan_moves(store, TOGETHER, merge=True)
    assert step.action is MoveAction.CONFLICT
    await apply_moves(store, await plan_moves(store, TOGETHER, merge=True, share_main=True))
    assert await shared_by(store) == [["slack:ada", "slack:bob"]]
    await events(Gateway(store, TOGETHER, {"old": echo}), said("dm:bob", "and again"))
    assert len(await shared_by(store)) == 1
    with pytest.raises(Conflict):
        await store.undo_moves()
    assert before.keys() < (await state(store)).keys()


async def test_a_person_of_two_names_moves_into_main_alone(store: Store) -> None:
    apart = Gateway(store, Bindings((), APART), {"old": echo})
    for person in ("ada", "countess"):
        await events(apart, said(f"dm:{person}", f"I am {person}"))
    linked = msgspec.structs.replace(POLICY, links={"ada": ("slack:ada", "slack:countess")})
    steps = await plan_moves(store, Bindings((), linked), merge=True)
    assert [step.action for step in steps] == [MoveAction.MOVE, MoveAction.MERGE]
    await apply_moves(store, steps)
    assert await shared_by(store) == []


@pytest.mark.req("STO-22")
async def test_the_guild_of_a_chat_is_remembered_for_its_move(store: Store) -> None:
    await events(gateway(store, echo), said("channel:c", channel="discord", guild="g1"))
    by_guild = Bindings([Binding(agent="new", channel="discord", guild="g1")], POLICY)
    (step,) = await plan_moves(store, by_guild)
    assert step.to_key == "new:discord:default:channel:c"


MODERATED = [Binding(agent="moderator", channel="discord", guild="g1", roles=("mod",))]


@pytest.mark.req("STO-22")
async def test_the_roles_of_a_chat_are_remembered_for_its_move(store: Store) -> None:
    bindings = Bindings(MODERATED, POLICY)
    door = Gateway(store, bindings, {"moderator": echo, "old": echo})
    moderated = said("channel:c", channel="discord", guild="g1", roles=("mod",))
    await events(door, moderated)
    await events(door, said("channel:c", channel="discord", guild="g1"))
    assert await plan_moves(store, bindings) == []
    (step,) = await plan_moves(store, BEFORE)
    assert step.from_key == str(bindings.decide(moderated).key)


async def test_where_roles_decide_and_nobody_noted_them_a_session_stays(store: Store) -> None:
    moderated = SessionKey("moderator", "discord", "default", PeerKind.CHANNEL, "c")
    await chat(store, moderated, "one", guild="g1", roles=None)
    elsewhere = SessionKey("gone", "discord", "default", PeerKind.CHANNEL, "d")
    await chat(store, elsewhere, "two", guild="g2", roles=None)
    assert [step.from_key for step in await plan_moves(store, Bindings(MODERATED, POLICY))] == [
        str(elsewhere)
    ]


async def test_a_session_that_no_gateway_made_stays_until_its_chat_goes_on(store: Store) -> None:
    await store.get_or_create(SessionKey("coder", "claude", "home", PeerKind.GROUP, "7"))
    message = said("group:#a1", channel="irc")
    door = gateway(store, echo)
    chat_of_before = door.bindings.decide(message).key
    await store.get_or_create(chat_of_before)
    assert await plan_moves(store, AFTER) == []
    await events(door, message)
    assert [step.from_key for step in await plan_moves(store, AFTER)] == [str(chat_of_before)]


@pytest.mark.parametrize("written", ["x", {"guild": 1}, {"parent": "x", "roles": []}])
async def test_a_session_stays_whose_origin_makes_no_sense(store: Store, written: object) -> None:
    await store.get_or_create(keys("#a1")[0], NewSession(custom={"origin": written}))
    assert await plan_moves(store, AFTER) == []


async def test_only_admins_move_sessions(store: Store) -> None:
    member = store.as_principal(Principal("local", "ada"))
    await chat(member, keys("#a1")[0], "one")
    with pytest.raises(AccessDenied, match="Only an admin may move sessions"):
        await apply_moves(member, await plan_moves(member, AFTER))


KILLED_MIDWAY = """
import asyncio, os, sys
from holdfast import open_store
from holdfast.store import records
from holdfast.routing.gateway import Gateway
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


@pytest.mark.usefixtures("process")
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
    configure(cli.home, '[routing]\ndefault_agent = "old"\n')
    (old, new) = keys("#a1")

    async def begin() -> None:
        async with open_store(f"sqlite:///{cli.home}/data/holdfast.db") as store:
            await chat(store, old, "one")

    async def delete() -> None:
        async with open_store(f"sqlite:///{cli.home}/data/holdfast.db") as store:
            await store.delete(new)

    (cli.home / "data").mkdir()
    asyncio.run(begin())
    migrate = ("sessions", "migrate")
    assert cli(*migrate, "--plan").stdout.startswith("Every session is where its bindings say")
    cli("bindings", "add", "new", "--channel", "irc", "--peer", "group:#a*")
    assert cli(*migrate, "--plan").stdout.splitlines() == [
        f"move      {old} → {new}",
        "1 of 1 sessions can move. Nothing was changed.",
    ]
    assert "Migration 1 is done: 1 moved." in cli(*migrate, "--apply").stdout
    undone = json.loads(cli(*migrate, "--undo", "--json").stdout)
    assert (undone["migration"], undone["undone"], len(undone["steps"])) == (1, True, 1)
    assert (undone["steps"][0]["fromKey"], undone["gone"]) == (str(old), [])
    cli(*migrate, "--apply")
    asyncio.run(delete())
    assert "Deleted since" in cli(*migrate, "--undo").stdout
    nothing = "holdfast: There is nothing to take back: no migration is in effect.\n"
    assert cli(*migrate, "--undo").stderr == nothing
    assert "say how to move" in cli(*migrate, "--undo", "--copy").stderr
    assert cli(*migrate).stderr == "holdfast: Say what to do: one of --plan, --apply and --undo.\n"
