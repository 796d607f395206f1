"""Turns: opened pending, ended once, never changed again, whoever asks."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import apsw
import asyncpg
import pytest

from holdfast import (
    ActiveFileRef,
    ChunkRef,
    Message,
    NewTurn,
    SessionFilter,
    SessionKey,
    SessionPatch,
    SessionStatus,
    Store,
    TokenUsage,
    Turn,
    TurnAnswer,
    TurnFailure,
    TurnProgress,
    TurnStatus,
    open_store,
)
from holdfast.errors import Conflict, InvalidInput, NotFound, RevisionConflict, SessionEnded, TurnEnded
from holdfast.model.ids import TurnId, id_bytes
from holdfast.store import sqlite_path
from holdfast.store.ids import new_id
from tests.store.conftest import Clock

CHUNK = ChunkRef(chunk_id="c1", path="src/a.py", start_line=1, end_line=9, content_hash="ab")
FILE = ActiveFileRef(path="b.py", content_hash="cd", size_bytes=7, is_touched=True, was_sent_to_llm=True)


@pytest.mark.req("EXE-11", "EXE-12", "EXE-16")
async def test_a_new_turn_is_pending_and_keeps_what_is_known(
    store_url: str, key: SessionKey, clock: Clock
) -> None:
    async with open_store(store_url, clock=clock) as store:
        session = await store.get_or_create(key)
        opened = await store.add_turn(
            key,
            NewTurn(
                instruction_summary="explain",
                full_instruction_url="blob://i",
                created_by="ada",
                mode="edit",
                conversation_id="conv",
                previous_openai_response_id="resp_0",
                openai_model="m-1",
                openai_request_payload_url="blob://r",
                chunk_refs=(CHUNK,),
                active_file_refs=(FILE,),
                warnings=("old index",),
            ),
        )
        now = datetime.fromtimestamp(clock.now / 1000, UTC)
        assert (opened.status, opened.sequence_number, opened.session_id) == (
            TurnStatus.PENDING,
            1,
            session.id,
        )
        assert opened.created_at == opened.status_at == now
        assert (opened.created_by, opened.mode, opened.conversation_id) == ("ada", "edit", "conv")
        assert (opened.previous_openai_response_id, opened.openai_model) == ("resp_0", "m-1")
        assert (opened.openai_response_id, opened.openai_response_received_at) == (None, None)
        assert (opened.instruction_summary, opened.full_instruction_url) == ("explain", "blob://i")
        assert opened.openai_request_payload_url == "blob://r"
        assert (opened.chunk_refs, opened.active_file_refs) == ((CHUNK,), (FILE,))
        assert (opened.warnings, opened.errors) == (("old index",), ())
        assert await store.get_turn(key, opened.id) == opened
        assert (await store.get_session(key)).turn_count == 1


async def test_a_session_says_whether_a_turn_is_pending(store: Store, key: SessionKey) -> None:
    async def pending() -> list[bool]:
        read = [await store.get_session(key), *await store.list(SessionFilter())]
        return [session.has_pending_turn for session in read]

    await store.get_or_create(key)
    assert await pending() == [False, False]
    first = await store.add_turn(key, NewTurn(instruction_summary="first"))
    second = await store.add_turn(key, NewTurn(instruction_summary="second"))
    await store.complete_turn(key, first.id, TurnAnswer(agent_answer_summary="done"))
    assert await pending() == [True, True]
    await store.fail_turn(key, second.id, TurnFailure(errors=("it broke",)))
    assert await pending() == [False, False]


@pytest.mark.req("EXE-11", "EXE-17")
async def test_completing_sets_every_field_of_the_answer(store: Store, key: SessionKey) -> None:
    await store.get_or_create(key)
    turn = await store.add_turn(key, NewTurn(instruction_summary="q", warnings=("first",)))
    received = datetime(2026, 5, 6, 7, 8, 9, 123_000, tzinfo=UTC)
    done = await store.complete_turn(
        key,
        turn.id,
        TurnAnswer(
            agent_answer_summary="because",
            full_agent_answer_url="blob://a",
            openai_response_id="resp_1",
            openai_response_received_at=received,
            openai_chain_expires_at=received + timedelta(days=30),
            openai_response_payload_url="blob://p",
            warnings=("second",),
            usage=TokenUsage(100, 20),
            stop_reason="end_turn",
        ),
    )
    assert done.status is TurnStatus.COMPLETED
    assert done.status_at == done.openai_response_received_at == received
    assert done.openai_chain_expires_at == received + timedelta(days=30)
    assert (done.agent_answer_summary, done.full_agent_answer_url) == ("because", "blob://a")
    assert (done.openai_response_id, done.openai_response_payload_url) == ("resp_1", "blob://p")
    assert (done.warnings, done.errors) == (("first", "second"), ())
    assert (done.usage, done.stop_reason) == (TokenUsage(100, 20), "end_turn")
    assert (await store.get_session(key)).token_usage == TokenUsage(100, 20)
    assert (done.created_at, done.instruction_summary) == (turn.created_at, "q")


@pytest.mark.req("EXE-18")
async def test_a_failed_turn_has_errors_and_no_answer(store_url: str, key: SessionKey, clock: Clock) -> None:
    async with open_store(store_url, clock=clock) as store:
        await store.get_or_create(key)
        turn = await store.add_turn(key, NewTurn(instruction_summary="q"))
        clock.now += 1500
        failed = await store.fail_turn(
            key,
            turn.id,
            TurnFailure(errors=("the provider is down",), warnings=("w",), openai_response_id="resp_9"),
        )
        assert (failed.status, failed.errors, failed.warnings) == (
            TurnStatus.FAILED,
            ("the provider is down",),
            ("w",),
        )
        assert (failed.agent_answer_summary, failed.full_agent_answer_url) == (None, None)
        assert failed.openai_response_id == "resp_9"
        assert failed.status_at - turn.status_at == timedelta(milliseconds=1500)


WHOLE: dict[str, Any] = {
    "openai_response_id": "resp_1",
    "openai_response_received_at": datetime(2026, 11, 16, 12, 0, 0, 123456, tzinfo=UTC),
    "warnings": ("late",),
    "usage": TokenUsage(3, 5),
    "stop_reason": "end",
}


@pytest.mark.req("EXE-17")
@pytest.mark.parametrize(
    ("outcome", "another"),
    [
        (TurnAnswer(agent_answer_summary="yes"), TurnAnswer(agent_answer_summary="no")),
        (TurnAnswer(agent_answer_summary="yes"), TurnFailure(errors=("yes",))),
        (TurnFailure(errors=("no",)), TurnFailure(errors=("no", "no"))),
        (TurnAnswer(agent_answer_summary="yes", **WHOLE), TurnAnswer(agent_answer_summary="yes")),
        (TurnFailure(errors=(), **WHOLE), TurnFailure(errors=(), **WHOLE | {"warnings": ("other",)})),
    ],
)
async def test_ending_a_turn_again_in_the_same_way_is_harmless(
    store: Store, key: SessionKey, outcome: TurnAnswer | TurnFailure, another: TurnAnswer | TurnFailure
) -> None:
    await store.get_or_create(key)
    turn = await store.add_turn(key, NewTurn(instruction_summary="go", warnings=("early",)))
    await store.progress_turn(key, turn.id, TurnProgress(openai_response_id="resp_1"))
    ended = await end(store, key, turn, outcome)
    session = await store.get_session(key)
    assert await end(store, key, turn, outcome) == ended
    with pytest.raises(TurnEnded):
        await end(store, key, turn, another)
    assert await store.get_turn(key, turn.id) == ended
    assert await store.get_session(key) == session


async def end(store: Store, key: SessionKey, turn: Turn, outcome: TurnAnswer | TurnFailure) -> Turn:
    if isinstance(outcome, TurnAnswer):
        return await store.complete_turn(key, turn.id, outcome)
    return await store.fail_turn(key, turn.id, outcome)


@pytest.mark.req("EXE-17", "EXE-18")
async def test_an_ended_turn_is_never_changed(store: Store, key: SessionKey) -> None:
    await store.get_or_create(key)
    completed = await store.add_turn(key, NewTurn(instruction_summary="a"))
    failed = await store.add_turn(key, NewTurn(instruction_summary="b"))
    ended = [
        await store.complete_turn(key, completed.id, TurnAnswer(agent_answer_summary="yes")),
        await store.fail_turn(key, failed.id, TurnFailure(errors=("no",))),
    ]
    for turn in ended:
        for attempt in (
            store.complete_turn(key, turn.id, TurnAnswer(agent_answer_summary="again")),
            store.fail_turn(key, turn.id, TurnFailure(errors=("again",))),
            store.progress_turn(key, turn.id, TurnProgress(openai_model="other")),
        ):
            with pytest.raises(TurnEnded, match=f"is {turn.status}") as refusal:
                await attempt
            assert refusal.value.status == 409
        assert await store.get_turn(key, turn.id) == turn


@pytest.mark.req("EXE-17", "EXE-18")
@pytest.mark.parametrize("change", ["status = 'pending'", "agent_answer_summary = 'other'", "rev = rev + 1"])
async def test_the_database_itself_refuses_to_touch_an_ended_turn(
    store_url: str, key: SessionKey, change: str
) -> None:
    async with open_store(store_url) as store:
        await store.get_or_create(key)
        turn = await store.add_turn(key, NewTurn(instruction_summary="a"))
        done = await store.complete_turn(key, turn.id, TurnAnswer(agent_answer_summary="yes"))
        if store_url.startswith("sqlite"):
            connection = apsw.Connection(str(sqlite_path(store_url)))
            with pytest.raises(apsw.ConstraintError, match="an ended turn is never changed"):
                connection.execute(f"UPDATE turns SET {change} WHERE id = ?", (id_bytes(turn.id),))
            connection.close()
        else:
            raw = await asyncpg.connect(store_url)
            with pytest.raises(asyncpg.RaiseError, match="an ended turn is never changed"):
                await raw.execute(f"UPDATE turns SET {change} WHERE id = $1", turn.id)
            await raw.close()
        assert await store.get_turn(key, turn.id) == done


@pytest.mark.req("EXE-10")
async def test_concurrent_callers_get_sequences_without_gap_or_repeat(store: Store, key: SessionKey) -> None:
    await store.get_or_create(key)
    turns = await asyncio.gather(
        *(store.add_turn(key, NewTurn(instruction_summary=str(number))) for number in range(64))
    )
    assert sorted(turn.sequence_number for turn in turns) == list(range(1, 65))
    assert len({turn.id for turn in turns}) == 64
    listed = await store.list_turns(key)
    assert [turn.sequence_number for turn in listed] == list(range(1, 65))
    assert [turn.sequence_number for turn in await store.list_turns(key, after=60)] == [61, 62, 63, 64]
    last = await store.last_turn(key)
    assert last is not None
    assert last.sequence_number == 64


async def test_what_becomes_known_is_recorded_while_pending(store: Store, key: SessionKey) -> None:
    await store.get_or_create(key)
    turn = await store.add_turn(key, NewTurn(instruction_summary="q", chunk_refs=(CHUNK,)))
    known = await store.progress_turn(
        key, turn.id, TurnProgress(openai_response_id="resp_5", warnings=("slow",))
    )
    assert (known.openai_response_id, known.warnings, known.chunk_refs) == ("resp_5", ("slow",), (CHUNK,))
    assert known.rev > turn.rev
    assert [pending.id for pending in await store.pending_turns()] == [turn.id]
    await store.complete_turn(key, turn.id, TurnAnswer(agent_answer_summary="a"))
    done = await store.get_turn(key, turn.id)
    assert done.openai_response_id == "resp_5"
    assert await store.pending_turns() == []


async def test_a_repeated_turn_with_its_own_id_is_opened_once(store: Store, key: SessionKey) -> None:
    await store.get_or_create(key)
    new = NewTurn(instruction_summary="once", id=TurnId(new_id()))
    first, again = await store.add_turn(key, new), await store.add_turn(key, new)
    assert again == first
    assert (await store.get_session(key)).turn_count == 1


@pytest.mark.parametrize("status", [SessionStatus.COMPLETED, SessionStatus.CANCELLED, SessionStatus.ERROR])
async def test_an_ended_session_takes_no_turn(store: Store, key: SessionKey, status: SessionStatus) -> None:
    await store.get_or_create(key)
    await store.patch(key, SessionPatch(status=status))
    with pytest.raises(SessionEnded, match=f"is {status}"):
        await store.add_turn(key, NewTurn(instruction_summary="too late"))
    assert await store.last_turn(key) is None


async def test_a_turn_makes_an_idle_session_active(store: Store, key: SessionKey) -> None:
    await store.get_or_create(key)
    await store.patch(key, SessionPatch(status=SessionStatus.IDLE))
    await store.add_turn(key, NewTurn(instruction_summary="go on"))
    assert (await store.get_session(key)).status is SessionStatus.ACTIVE


async def test_a_turn_is_opened_at_the_expected_revision_only(store: Store, key: SessionKey) -> None:
    session = await store.get_or_create(key)
    await store.add_turn(key, NewTurn(instruction_summary="a"), expected_revision=session.rev)
    with pytest.raises(RevisionConflict):
        await store.add_turn(key, NewTurn(instruction_summary="b"), expected_revision=session.rev)
    assert len(await store.list_turns(key)) == 1


async def test_an_unknown_turn_is_not_found_and_a_bad_id_is_refused(store: Store, key: SessionKey) -> None:
    await store.get_or_create(key)
    with pytest.raises(NotFound, match="no turn"):
        await store.get_turn(key, TurnId(new_id()))
    with pytest.raises(InvalidInput, match="turn id"):
        await store.get_turn(key, TurnId("nonsense"))
    with pytest.raises(InvalidInput, match="NUL"):
        await store.add_turn(key, NewTurn(instruction_summary="a\0b"))


async def test_what_opens_a_turn_is_stored_with_it(store: Store, key: SessionKey) -> None:
    await store.get_or_create(key)
    turn = await store.add_turn(key, NewTurn(instruction_summary="go"), said=[Message.user("go on")])
    (message,) = await store.get_history(key)
    assert (message.text, message.turn_id) == ("go on", turn.id)


async def test_what_opens_a_turn_is_not_stored_when_the_turn_is_refused(
    store: Store, key: SessionKey
) -> None:
    await store.get_or_create(key)
    await store.patch(key, SessionPatch(status=SessionStatus.COMPLETED))
    with pytest.raises(SessionEnded):
        await store.add_turn(key, NewTurn(instruction_summary="go"), said=[Message.user("go on")])
    assert len(await store.get_history(key)) == 0


async def test_a_repeated_opening_says_nothing_twice(store: Store, key: SessionKey) -> None:
    await store.get_or_create(key)
    new = NewTurn(id=TurnId(new_id()), instruction_summary="do it")
    first = await store.add_turn(key, new, said=[Message.user("do it")])
    assert await store.add_turn(key, new, said=[Message.user("do it")]) == first
    assert [message.text for message in await store.get_history(key)] == ["do it"]
    with pytest.raises(Conflict, match="already has the id"):
        await store.add_turn(key, NewTurn(id=new.id, instruction_summary="something else"))


async def test_a_session_has_a_pending_turn_whichever_ended_first(store: Store, key: SessionKey) -> None:
    await store.get_or_create(key)
    first, second = [await store.add_turn(key, NewTurn(instruction_summary=name)) for name in "ab"]
    await store.fail_turn(key, second.id, TurnFailure(errors=("cancelled",)))
    assert (await store.get_session(key)).has_pending_turn
    await store.fail_turn(key, first.id, TurnFailure(errors=("cancelled",)))
    assert not (await store.get_session(key)).has_pending_turn
