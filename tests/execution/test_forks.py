"""Forks of sessions: whole or not there, and shown to a model as their originals are."""

import asyncio
import json

import pytest

from holdfast import Message, NewSession, NewTurn, Session, SessionStatus, Store, open_store
from holdfast.errors import Conflict, SessionEnded, SessionNotFound
from holdfast.execution.answer import AnswerKind
from holdfast.store.copying import PAGE, UNFINISHED, forked
from holdfast.store.options import HistoryOptions, SessionFilter
from tests.execution.worlds import World, asked, said
from tests.waiting import SECONDS


async def test_what_was_not_answered_is_not_shown_to_the_model_of_a_fork(either_world: World) -> None:
    world = either_world
    async with world.orchestrator(chains=False) as orchestrator:
        first = await orchestrator.execute(world.store, asked("The bird is a heron"))
        failed = await orchestrator.execute(world.store, asked("FAIL", session_id=first.session_id))
        assert failed.kind is AnswerKind.ERROR
        fork = await orchestrator.fork(world.store, first.session_id)
        for session in (first.session_id, fork.id):
            answer = await orchestrator.execute(world.store, asked("Which bird?", session_id=session))
            assert answer.kind is AnswerKind.ANSWER
    to_original, to_fork = (said(request) for request in world.model.requests[-2:])
    assert "FAIL" not in json.dumps(to_fork)
    assert [text.partition(":")[0] for text in to_fork] == [text.partition(":")[0] for text in to_original]
    again = await orchestrator.fork(world.store, fork.id)  # and none of it comes back in a fork of the fork
    assert [message.text for message in await world.store.get_history(again.id)].count("FAIL") == 1
    marked = [message.text for message in await world.store.get_history(again.id) if is_marked(message)]
    assert "FAIL" in marked


def is_marked(message: Message) -> bool:
    return bool(message.metadata.get("unanswered"))


async def being_forked(store: Store) -> Session:
    """A fork that is not whole yet."""
    async with asyncio.timeout(SECONDS):
        while True:
            ended = await store.list(SessionFilter(status={SessionStatus.COMPLETED}))
            if ended.sessions:
                return ended.sessions[0]


@pytest.mark.parametrize("disturbed", [False, True])
async def test_a_fork_takes_no_instruction_before_it_is_whole(either_url: str, disturbed: bool) -> None:
    async with open_store(either_url) as store, open_store(either_url) as other:
        original = await store.create_session(NewSession())
        texts = [f"message {number}" for number in range(6 * PAGE)]
        await store.append_messages(original.id, [Message.user(text) for text in texts])
        forking = asyncio.create_task(forked(store.as_system(), store, original))
        fork = await being_forked(other)
        assert fork.status_reason == UNFINISHED
        with pytest.raises(SessionEnded):
            await other.add_turn(fork.id, NewTurn(instruction_summary="Too early"))
        if not disturbed:
            whole = await forking
            assert (whole.id, whole.status, whole.status_reason) == (fork.id, SessionStatus.ACTIVE, None)
            copies = await store.get_history(fork.id, HistoryOptions(limit=10_000))
            assert [message.text for message in copies] == texts
            return
        await other.append_messages(fork.id, [Message.user("in between")])
        with pytest.raises(Conflict):
            await forking
        with pytest.raises(SessionNotFound):
            await store.get_session(fork.id)
