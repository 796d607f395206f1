"""Turns that a model answers, as the store keeps them: owners, keys, recipes, contexts."""

import asyncio
import subprocess
import sys

import pytest

from holdfast import (
    NewTurn,
    Principal,
    PrincipalRole,
    SessionFilter,
    SessionKey,
    Store,
    TurnAnswer,
    TurnProgress,
    open_store,
)
from holdfast.errors import AccessDenied, NotFound
from holdfast.model.ids import CompactionId
from holdfast.model.records import ContextKind, ExecutionKey
from holdfast.model.turn import Recipe
from holdfast.store.executions import KeyTaken

ADA = Principal("acme", "ada", PrincipalRole.ADMIN)
BOB = Principal("acme", "bob")
EVE = Principal("evil", "ada", PrincipalRole.ADMIN)


@pytest.mark.usefixtures("process")
async def test_pending_turns_of_a_killed_process_are_claimed_once(store_url: str, key: SessionKey) -> None:
    async with open_store(store_url) as store:
        session = await store.get_or_create(key)
    code = f"""
import asyncio, os, signal
from holdfast import NewTurn, TurnAnswer, open_store
async def main():
    async with open_store({store_url!r}) as store:
        ended = await store.add_turn({session.id!r}, NewTurn(instruction_summary="ended"), owned=True)
        await store.complete_turn({session.id!r}, ended.id, TurnAnswer(agent_answer_summary="done"))
        await store.add_turn({session.id!r}, NewTurn(instruction_summary="left"), owned=True)
        await store.add_turn({session.id!r}, NewTurn(instruction_summary="an agent's"))
        os.kill(os.getpid(), signal.SIGKILL)
asyncio.run(main())
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == -9
    async with open_store(store_url) as one, open_store(store_url) as other:
        claims = await asyncio.gather(one.claim_abandoned_turns(), other.claim_abandoned_turns())
        ((session_id, turn_id),) = [*claims[0], *claims[1]]
        assert (await one.get_turn(session_id, turn_id)).instruction_summary == "left"
        assert await one.claim_abandoned_turns() == []


async def test_turns_of_a_running_process_are_left_to_it(
    store: Store, store_url: str, key: SessionKey
) -> None:
    await store.get_or_create(key)
    await store.add_turn(key, NewTurn(instruction_summary="running"), owned=True)
    async with open_store(store_url) as other:
        assert await other.claim_abandoned_turns() == []


async def test_a_key_opens_one_turn_however_many_callers_race(
    store: Store, store_url: str, key: SessionKey
) -> None:
    session = await store.get_or_create(key)
    once = ExecutionKey("once", "hash")

    async def call(caller: Store) -> bool:
        try:
            await caller.add_turn(session.id, NewTurn(instruction_summary="asked"), owned=True, key=once)
        except KeyTaken:
            return False
        return True

    async with open_store(store_url) as other:
        opened = await asyncio.gather(*(call(each) for each in (store, other) * 8))
    assert opened.count(True) == 1
    (turn,) = await store.list_turns(session.id)
    keyed = await store.keyed_turn("once")
    assert keyed is not None
    assert (keyed.request_hash, keyed.session_id, keyed.turn_id) == ("hash", session.id, turn.id)
    assert (await store.get_session(session.id)).turn_count == 1


async def test_a_key_is_its_callers_own(store: Store, key: SessionKey) -> None:
    ada, eve = store.as_principal(ADA), store.as_principal(EVE)
    session = await ada.get_or_create(key)
    asked = NewTurn(instruction_summary="asked")
    await ada.add_turn(session.id, asked, owned=True, key=ExecutionKey("k", "h"))
    assert await eve.keyed_turn("k") is None
    assert await store.as_principal(BOB).keyed_turn("k") is None


async def test_a_recipe_is_kept_with_its_turn(store: Store, key: SessionKey) -> None:
    session = await store.get_or_create(key)
    turn = await store.add_turn(session.id, NewTurn(instruction_summary="asked"))
    assert turn.recipe is None
    fold = CompactionId("01a1e2ed-5995-71fd-92b8-f0ee51793149")
    recipe = Recipe(parameters="ab" * 32, provider="cd" * 8, previous="resp_1", compaction=fold)
    await store.progress_turn(session.id, turn.id, TurnProgress(recipe=recipe, conversation_id="chain-1"))
    ended = await store.complete_turn(session.id, turn.id, TurnAnswer(agent_answer_summary="answered"))
    assert (ended.recipe, ended.conversation_id) == (recipe, "chain-1")


@pytest.mark.req("EXE-22")
async def test_a_users_sessions_are_those_they_own_or_took_part_in(store: Store, key: SessionKey) -> None:
    ada, bob, eve = (store.as_principal(each) for each in (ADA, BOB, EVE))
    for view, peer in ((ada, "ada's"), (bob, "bob's"), (bob, "shared"), (eve, "eve's")):
        await view.get_or_create(SessionKey("main", "irc", "bot", key.peer_kind, peer))
    shared = SessionKey("main", "irc", "bot", key.peer_kind, "shared")
    await ada.add_turn(shared, NewTurn(instruction_summary="by ada"))
    mine = await ada.list(SessionFilter(participant="ada"))
    assert {session.key.peer_id for session in mine} == {"ada's", "shared"}
    assert mine.total == 2
    assert {session.key.peer_id for session in await ada.list(SessionFilter(participant="bob"))} == {
        "bob's",
        "shared",
    }
    assert (await bob.list(SessionFilter(participant="ada"))).total == 1  # of his own, the one ada spoke in


@pytest.mark.req("EXE-20")
async def test_a_context_is_replaced_under_its_name_and_keeps_its_id(store: Store) -> None:
    ada = store.as_principal(ADA)
    first = await ada.save_context(ContextKind.AGENT, "reviewer", {"model": "small"})
    again = await ada.save_context(ContextKind.AGENT, "reviewer", {"model": "large"})
    await ada.save_context(ContextKind.CONVERSATION, "reviewer", {"repository": "holdfast"})
    assert again.id == first.id
    kept = await store.as_principal(BOB).list_contexts()
    assert [(each.kind, each.definition) for each in kept] == [
        ("agent", {"model": "large"}),
        ("conversation", {"repository": "holdfast"}),
    ]
    assert await store.as_principal(EVE).list_contexts() == []
    with pytest.raises(AccessDenied):
        await store.as_principal(BOB).save_context(ContextKind.AGENT, "mine", {})
    assert (await ada.remove_context(ContextKind.AGENT, "reviewer")).definition == {"model": "large"}
    with pytest.raises(NotFound):
        await ada.remove_context(ContextKind.AGENT, "reviewer")
