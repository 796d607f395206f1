"""Calls that share a transaction share nothing else: one that fails, or is cancelled, does so alone."""

import asyncio
from collections.abc import Awaitable, Callable

import msgspec
import pytest

from holdfast import (
    HoldfastError,
    Message,
    NewCompaction,
    NewSession,
    NewTurn,
    Principal,
    Session,
    SessionKey,
    SessionPatch,
    Store,
    TokenUsage,
    Turn,
    TurnAnswer,
    TurnFailure,
    open_store,
)
from holdfast.errors import Conflict, InvalidInput, NotFound, RevisionConflict, SessionNotFound, TurnEnded
from holdfast.model.ids import MessageId
from holdfast.store.ids import new_id
from tests.store.faults.contents import assert_counts_are_true, assert_one_sentence, history

CALLS = 60


class Scene(msgspec.Struct):
    """What is there before the calls are made: two sessions, a message and an ended turn in the first."""

    store: Store
    session: Session
    other: Session
    taken: Message
    ended: Turn


@pytest.fixture
async def scene(store: Store) -> Scene:
    session = await store.create_session(NewSession())
    other = await store.create_session(NewSession())
    (taken,) = await store.append_messages(session.id, [Message.user("first", id=MessageId(new_id()))])
    turn = await store.add_turn(session.id, NewTurn(instruction_summary="done already"))
    ended = await store.complete_turn(session.id, turn.id, TurnAnswer(agent_answer_summary="yes"))
    await store.patch(session.id, SessionPatch(add_usage=TokenUsage(2**62, 0)))
    await store.add_token(Principal("local", "ann"), "hash", "taken")
    return Scene(store, session, other, taken, ended)


async def missing_session(at: Scene) -> object:
    return await at.store.append_messages(new_id(), [Message.user("to nobody")])


async def missing_session_with_own_id(at: Scene) -> object:
    return await at.store.append_messages(new_id(), [Message.user("to nobody", id=MessageId(new_id()))])


async def malformed_session_id(at: Scene) -> object:
    return await at.store.append_messages("no-such-thing", [Message.user("to nobody")])


async def late_revision(at: Scene) -> object:
    return await at.store.append_messages(at.session.id, [Message.user("late")], expected_revision=1)


async def message_id_of_another_text(at: Scene) -> object:
    return await at.store.append_messages(at.session.id, [Message.user("stolen", id=at.taken.id)])


async def message_id_of_another_session(at: Scene) -> object:
    new = [Message.user("fine"), Message.user("first", id=at.taken.id)]
    return await at.store.append_messages(at.other.id, new)


async def turn_id_of_another_session(at: Scene) -> object:
    return await at.store.add_turn(at.other.id, NewTurn(instruction_summary="stolen", id=at.ended.id))


async def session_id_of_another_session(at: Scene) -> object:
    return await at.store.create_session(NewSession(id=at.session.id))


async def key_of_another_session(at: Scene) -> object:
    return await at.store.create_session(NewSession(key=at.session.key))


async def ended_turn(at: Scene) -> object:
    return await at.store.fail_turn(at.session.id, at.ended.id, TurnFailure(errors=("late",)))


async def missing_turn(at: Scene) -> object:
    return await at.store.complete_turn(at.session.id, at.taken.id, TurnAnswer(agent_answer_summary="?"))  # type: ignore[arg-type]


async def fold_beyond_the_last_message(at: Scene) -> object:
    fold = NewCompaction(first_seq=1, last_seq=10**6, strategy="all", summary="too much")
    return await at.store.commit_compaction(at.session.id, fold)


async def sum_that_no_column_holds(at: Scene) -> object:
    return await at.store.patch(at.session.id, SessionPatch(add_usage=TokenUsage(2**62, 0)))


async def token_of_another(at: Scene) -> object:
    return await at.store.add_token(Principal("local", "bob"), "hash", "stolen")


@pytest.mark.req("STO-04")
@pytest.mark.parametrize(
    ("fails", "kind"),
    [
        (missing_session, SessionNotFound),
        (missing_session_with_own_id, SessionNotFound),
        (malformed_session_id, InvalidInput),
        (late_revision, RevisionConflict),
        (message_id_of_another_text, Conflict),
        (message_id_of_another_session, Conflict),
        (turn_id_of_another_session, Conflict),
        (session_id_of_another_session, Conflict),
        (key_of_another_session, Conflict),
        (ended_turn, TurnEnded),
        (missing_turn, NotFound),
        (fold_beyond_the_last_message, InvalidInput),
        (sum_that_no_column_holds, HoldfastError),
        (token_of_another, Conflict),
    ],
)
async def test_a_call_that_fails_among_many_fails_alone(
    scene: Scene, fails: Callable[[Scene], Awaitable[object]], kind: type[HoldfastError]
) -> None:
    store, session = scene.store, scene.session

    async def succeeds(number: int) -> object:
        match number % 4:
            case 0:
                return await store.append_messages(session.id, [Message.user(f"plain {number}")])
            case 1:
                own_id = MessageId(new_id())
                return await store.append_messages(session.id, [Message.user(f"own id {number}", id=own_id)])
            case 2:
                return await store.add_turn(session.id, NewTurn(instruction_summary=f"turn {number}"))
            case _:
                return await store.patch(session.id, SessionPatch(custom={f"patch {number}": number}))

    doomed = range(2, CALLS, 7)
    outcomes = await asyncio.gather(
        *(fails(scene) if number in doomed else succeeds(number) for number in range(CALLS)),
        return_exceptions=True,
    )
    failed = {number: each for number, each in enumerate(outcomes) if isinstance(each, BaseException)}
    assert {number: type(error) for number, error in failed.items() if number not in doomed} == {}
    assert sorted(failed) == [*doomed]
    for error in failed.values():
        assert isinstance(error, kind)
        assert_one_sentence(str(error))
    await _assert_stored(scene, [number for number in range(CALLS) if number not in doomed])


async def _assert_stored(scene: Scene, succeeded: list[int]) -> None:
    """Exactly what succeeded is there."""
    store, session = scene.store, await scene.store.get_session(scene.session.id)
    plain = [f"plain {number}" for number in succeeded if number % 4 == 0]
    own = [f"own id {number}" for number in succeeded if number % 4 == 1]
    texts = [message.text for message in await history(store, session.id)]
    assert sorted(texts) == sorted(["first", *plain, *own])
    instructions = [turn.instruction_summary for turn in await store.list_turns(session.id, limit=1000)]
    turns = [f"turn {number}" for number in succeeded if number % 4 == 2]
    assert sorted(instructions) == sorted(["done already", *turns])
    assert session.custom == {f"patch {number}": number for number in succeeded if number % 4 == 3}
    assert session.compaction_count == 0
    assert await history(store, scene.other.id) == []
    await assert_counts_are_true(store, session.id)


async def test_a_cancelled_append_is_wholly_there_or_not_at_all_and_the_store_goes_on(
    store: Store, key: SessionKey
) -> None:
    await store.get_or_create(key)

    async def say(call: int) -> None:
        await store.append_messages(key, [Message.user(f"{call}.{part}") for part in range(3)])

    for call in range(60):
        task = asyncio.ensure_future(say(call))
        for _ in range(call % 6):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    await say(60)
    texts = [message.text for message in await history(store, key)]
    calls = [int(text.split(".")[0]) for text in texts[::3]]
    assert texts == [f"{call}.{part}" for call in calls for part in range(3)]
    assert len(set(calls)) == len(calls)
    assert calls[-1] == 60
    await assert_counts_are_true(store, key)


async def test_a_stream_whose_caller_was_cancelled_still_says_everything_once(
    store: Store, key: SessionKey
) -> None:
    await store.get_or_create(key)
    stream = await store.open_stream(key, Message.agent("", partial=True))
    text = ""
    for number in range(20):
        stream.write(f"{number} ")
        text += f"{number} "
        task = asyncio.ensure_future(stream.drain())
        for _ in range(number % 4):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    await stream.drain()
    assert (await history(store, key))[0].text == text
    assert (await stream.end()).text == text


@pytest.mark.parametrize("steps", range(4))
async def test_a_stream_whose_end_was_cancelled_can_be_ended_and_says_everything_once(
    store: Store, key: SessionKey, steps: int
) -> None:
    await store.get_or_create(key)
    stream = await store.open_stream(key, Message.agent("", partial=True))
    stream.write("all of it")

    async def speak() -> None:
        async with stream:
            await stream.end()

    task = asyncio.ensure_future(speak())
    for _ in range(steps):
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    if steps == 0:
        await stream.end()  # it had not even begun
    (message,) = await history(store, key)
    assert (message.text, message.open) == ("all of it", False)


async def test_closing_a_store_finishes_the_calls_that_were_under_way(
    store_url: str, key: SessionKey
) -> None:
    async with open_store(store_url) as store:
        await store.get_or_create(key)
        calls = [
            asyncio.ensure_future(store.append_messages(key, [Message.user(str(number))]))
            for number in range(50)
        ]
        await asyncio.sleep(0)  # they have been made, and are not yet answered
    outcomes = await asyncio.gather(*calls, return_exceptions=True)
    stored = {each[0].text for each in outcomes if not isinstance(each, BaseException)}
    async with open_store(store_url) as store:
        assert {message.text for message in await history(store, key)} == stored
    assert stored == {str(number) for number in range(50)}


async def test_what_appends_of_one_transaction_return_is_what_is_read_afterwards(
    store: Store, key: SessionKey
) -> None:
    """They share a session, and each takes its places and revisions after those of the one before."""
    await store.get_or_create(key)
    sizes = [1, 3, 2, 1, 4]
    appends = [store.append_messages(key, [Message.user("x")] * size) for size in sizes]
    returned = [message for messages in await asyncio.gather(*appends) for message in messages]
    read = await history(store, key)
    assert sorted((each.id, each.seq, each.rev) for each in returned) == sorted(
        (each.id, each.seq, each.rev) for each in read
    )
