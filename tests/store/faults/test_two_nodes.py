"""Two programs that change the same session at the same moment: one after the other, whichever comes first.

What another program holds is held here by a plain connection, so that both calls have begun, and wait at
the same place, before either may go on. On PostgreSQL that is the moment when a decision made from an old
state would be carried out; SQLite lets one writer in at a time, and must give the same answers.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import apsw
import asyncpg
import pytest

from holdfast import (
    HoldfastError,
    Message,
    NewTurn,
    SessionKey,
    SessionPatch,
    SessionStatus,
    Store,
    TextContent,
    TokenUsage,
    ToolContent,
    TurnAnswer,
    TurnFailure,
    TurnStatus,
    open_store,
)
from holdfast.errors import MessageFinal, RevisionConflict, SessionNotFound, TurnEnded
from holdfast.store import dialect, sqlite_path
from tests.store.faults.contents import history, rows
from tests.waiting import until


@pytest.fixture
async def nodes(store_url: str, key: SessionKey) -> AsyncIterator[tuple[Store, Store]]:
    """The same store, opened twice, with one session in it."""
    async with open_store(store_url) as one, open_store(store_url) as other:
        await one.get_or_create(key)
        yield one, other
        assert await one.problems() == []


Nodes = tuple[Store, Store]


async def test_of_two_appends_at_one_revision_one_is_stored(
    nodes: Nodes, store_url: str, key: SessionKey
) -> None:
    session = await nodes[0].get_session(key)
    outcomes = await at_once(
        store_url,
        *(node.append_messages(key, [Message.user("mine")], expected_revision=session.rev) for node in nodes),
    )
    assert [type(outcome) for outcome in outcomes if isinstance(outcome, Exception)] == [RevisionConflict]
    assert len(await history(nodes[0], key)) == 1


async def test_of_two_patches_at_one_revision_one_is_stored(
    nodes: Nodes, store_url: str, key: SessionKey
) -> None:
    session = await nodes[0].get_session(key)
    patches = [SessionPatch(title="one"), SessionPatch(title="other")]
    outcomes = await at_once(
        store_url,
        *(
            node.patch(key, patch, expected_revision=session.rev)
            for node, patch in zip(nodes, patches, strict=True)
        ),
    )
    assert [type(outcome) for outcome in outcomes if isinstance(outcome, Exception)] == [RevisionConflict]


async def test_two_patches_of_different_fields_both_hold(
    nodes: Nodes, store_url: str, key: SessionKey
) -> None:
    await at_once(
        store_url,
        nodes[0].patch(key, SessionPatch(custom={"one": 1}, add_usage=TokenUsage(1, 0))),
        nodes[1].patch(key, SessionPatch(custom={"other": 2}, add_usage=TokenUsage(2, 0))),
    )
    session = await nodes[0].get_session(key)
    assert session.custom == {"one": 1, "other": 2}
    assert session.token_usage.input == 3


async def test_a_session_that_one_node_ended_in_error_is_not_revived_by_another(
    nodes: Nodes, store_url: str, key: SessionKey
) -> None:
    await at_once(
        store_url,
        nodes[0].patch(key, SessionPatch(status=SessionStatus.ERROR)),
        nodes[1].patch(key, SessionPatch(status=SessionStatus.IDLE)),
    )
    assert (await nodes[0].get_session(key)).status is SessionStatus.ERROR


async def test_a_turn_that_two_nodes_end_is_ended_once_and_counted_once(
    nodes: Nodes, store_url: str, key: SessionKey
) -> None:
    turn = await nodes[0].add_turn(key, NewTurn(instruction_summary="go"))
    answer = TurnAnswer(agent_answer_summary="done", usage=TokenUsage(10, 1))
    failure = TurnFailure(errors=("lost",), usage=TokenUsage(10, 1))
    outcomes = await at_once(
        store_url, nodes[0].complete_turn(key, turn.id, answer), nodes[1].fail_turn(key, turn.id, failure)
    )
    (won,) = (outcome for outcome in outcomes if not isinstance(outcome, Exception))
    (lost,) = (outcome for outcome in outcomes if isinstance(outcome, Exception))
    assert isinstance(lost, TurnEnded)
    kept = await nodes[0].get_turn(key, turn.id)
    assert kept == won
    assert kept.status in (TurnStatus.COMPLETED, TurnStatus.FAILED)
    assert (await nodes[0].get_session(key)).token_usage.input == 10


async def test_an_open_message_that_two_nodes_finish_is_final_after_the_first(
    nodes: Nodes, store_url: str, key: SessionKey
) -> None:
    (opened,) = await nodes[0].append_messages(
        key, [Message.of("system", ToolContent(tool="sh", args={}, status="pending"))]
    )
    assert opened.id is not None
    outcomes = await at_once(
        store_url,
        *(
            node.revise_message(key, opened.id, ToolContent(tool="sh", args={}, result=number))
            for number, node in enumerate(nodes)
        ),
    )
    (won,) = (outcome for outcome in outcomes if not isinstance(outcome, Exception))
    (lost,) = (outcome for outcome in outcomes if isinstance(outcome, Exception))
    assert isinstance(lost, MessageFinal)
    assert await nodes[0].get_message(key, opened.id) == won


async def test_a_stream_that_one_node_ends_and_another_finishes_is_final_after_the_first(
    nodes: Nodes, store_url: str, key: SessionKey
) -> None:
    stream = await nodes[0].open_stream(key, Message.agent("", partial=True))
    stream.write("the whole ")
    await stream.drain()
    stream.write("text")
    assert stream.message.id is not None
    outcomes = await at_once(
        store_url,
        stream.end(),
        nodes[1].revise_message(key, stream.message.id, TextContent(text="replaced", partial=False)),
    )
    (won,) = (outcome for outcome in outcomes if not isinstance(outcome, Exception))
    (lost,) = (outcome for outcome in outcomes if isinstance(outcome, Exception))
    assert isinstance(lost, MessageFinal)
    assert await nodes[0].get_message(key, stream.message.id) == won
    assert won.text in ("the whole text", "replaced")


async def test_text_that_arrives_while_another_node_finishes_the_message_leaves_no_chunk_behind(
    nodes: Nodes, store_url: str, key: SessionKey
) -> None:
    stream = await nodes[0].open_stream(key, Message.agent("", partial=True))
    stream.write("late")
    assert stream.message.id is not None
    await at_once(
        store_url,
        stream.drain(),
        nodes[1].revise_message(key, stream.message.id, TextContent(text="replaced", partial=False)),
    )
    assert not (await nodes[0].get_message(key, stream.message.id)).open
    assert await rows(store_url, "SELECT text FROM chunks") == []


async def test_two_nodes_that_open_after_a_crash_fold_its_streams_once_and_whole(
    store_url: str, key: SessionKey
) -> None:
    async with open_store(store_url) as dead:
        await dead.get_or_create(key)
        for number in range(3):
            stream = await dead.open_stream(key, Message.agent("", partial=True))
            stream.write(f"text {number}")
            await stream.drain()
    before = (await rows(store_url, "SELECT rev FROM session_heads"))[0][0]

    async def opened() -> list[str]:
        async with open_store(store_url) as node:
            return [message.text for message in await history(node, key)]

    await at_once(store_url, opened(), opened())
    async with open_store(store_url) as store:
        messages = await history(store, key)
        assert [message.text for message in messages] == ["text 0", "text 1", "text 2"]
        assert [message.open for message in messages] == [False, False, False]
        assert (await store.get_session(key)).rev == before + 3
        assert await store.problems() == []


async def test_an_append_to_a_session_that_another_node_deletes_fails_alone(
    nodes: Nodes, store_url: str, key: SessionKey
) -> None:
    kept = SessionKey("main", "irc", "bot", key.peer_kind, "#kept")
    await nodes[0].get_or_create(kept)
    doomed, *others = await at_once(
        store_url,
        nodes[0].append_messages(key, [Message.user("too late")]),
        *(nodes[0].append_messages(kept, [Message.user(str(number))]) for number in range(5)),
        writers=1,
        release=f"DELETE FROM sessions WHERE key = '{key}'",
    )
    assert isinstance(doomed, SessionNotFound)
    assert [type(outcome) for outcome in others if isinstance(outcome, Exception)] == []
    assert sorted(message.text for message in await history(nodes[0], kept)) == list("01234")


async def at_once(url: str, *calls: Awaitable[Any], writers: int = 2, release: str = "") -> list[Any]:
    """What became of calls that were all made while a third program held every session.

    `writers` of them then wait for that program, which runs `release` before it lets go.
    """
    holding = _holding_postgres if dialect(url) == "postgresql" else _holding_sqlite
    async with holding(url, writers, release) as they_wait:
        tasks = [asyncio.ensure_future(call) for call in calls]
        await they_wait()
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    for outcome in outcomes:
        if isinstance(outcome, BaseException) and not isinstance(outcome, HoldfastError):
            raise outcome
    return outcomes


Wait = Callable[[], Awaitable[object]]


@asynccontextmanager
async def _holding_postgres(url: str, writers: int, release: str) -> AsyncIterator[Wait]:
    connection = await asyncpg.connect(url)
    watcher = await asyncpg.connect(url)

    async def waiting() -> bool:
        count = await watcher.fetchval(
            "SELECT count(*) FROM pg_stat_activity "
            "WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )
        return bool(count == writers)

    try:
        async with connection.transaction():
            await connection.execute("SELECT session_pk FROM session_heads FOR UPDATE")
            yield lambda: until(waiting)
            if release:
                await connection.execute(release)
    finally:
        await connection.close()
        await watcher.close()


@asynccontextmanager
async def _holding_sqlite(url: str, writers: int, release: str) -> AsyncIterator[Wait]:
    connection = apsw.Connection(str(sqlite_path(url)))
    try:
        connection.execute("PRAGMA foreign_keys = 1; BEGIN IMMEDIATE")
        # No writer gets further than its first statement, so there is nothing to wait for.
        yield lambda: asyncio.sleep(0)
        if release:
            connection.execute(release)
        connection.execute("COMMIT")
    finally:
        connection.close()
