"""Messages: appended atomically, read back exactly, page by page, in one order."""

import asyncio
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast import (
    HistoryOptions,
    JsonContent,
    Message,
    PeerKind,
    Role,
    SessionKey,
    SessionPatch,
    SessionStatus,
    Store,
    TextContent,
    ToolCall,
    ToolContent,
    open_store,
)
from holdfast.errors import Conflict, InvalidInput, MessageFinal, MessageTooLarge, NotFound, RevisionConflict
from holdfast.model.ids import MessageId, TurnId
from holdfast.store.ids import new_id
from holdfast.store.messages import PAGE_BYTES, PIECE_BYTES
from holdfast.store.options import MAX_SEQ
from tests.long_plugin import Trials
from tests.model.test_content import json_values
from tests.store.conftest import Clock


async def fill(store: Store, key: SessionKey, count: int) -> None:
    await store.get_or_create(key)
    await store.append_messages(key, [Message.user(str(number)) for number in range(1, count + 1)])


async def texts(store: Store, key: SessionKey, **options: Any) -> list[str]:
    return [message.text for message in await store.get_history(key, HistoryOptions(**options))]


@pytest.mark.req("STO-04", "SES-02")
async def test_one_many_and_no_messages(store: Store, key: SessionKey) -> None:
    await store.get_or_create(key)
    (one,) = await store.append_messages(key, [Message.user("one")])
    many = await store.append_messages(key, [Message.agent("two"), Message.system("three")])
    assert await store.append_messages(key, []) == []
    assert [message.seq for message in (one, *many)] == [1, 2, 3]
    assert (await store.get_history(key)).messages == [one, *many]
    assert (await store.get_session(key)).message_count == 3


@pytest.mark.req("STO-13", "SES-02", "SES-30")
async def test_a_message_round_trips_exactly(store: Store, key: SessionKey) -> None:
    await store.get_or_create(key)
    said = Message.of(
        Role.TOOL,
        JsonContent(b'{"type": "custom",  "n": 1.0, "nul": "\\u0000"}'),
        id=MessageId(new_id()),
        timestamp=datetime(2026, 1, 2, 3, 4, 5, 678_000, tzinfo=UTC),
        turn_id=TurnId(new_id()),
        token_count=42,
        tool_calls=(ToolCall(id="call-1", name="grep", arguments={"p": ["x"]}),),
        tool_call_id="call-0",
        metadata={"model": "m", "nested": {"a": [None, 1.5, "ü"]}},
    )
    (stored,) = await store.append_messages(key, [said])
    (read,) = await store.get_history(key)
    assert read == stored
    assert msgspec.structs.replace(read, seq=0, rev=0) == said
    assert bytes(read.content_json) == b'{"type": "custom",  "n": 1.0, "nul": "\\u0000"}'


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(contents=st.lists(json_values, min_size=1, max_size=5))
async def test_any_json_content_and_metadata_round_trips(store: Store, contents: list[Any]) -> None:
    key = SessionKey("main", "test", "a", PeerKind.GROUP, new_id())
    await store.get_or_create(key)
    said = [Message.of("agent", JsonContent.of({"v": value}), metadata={"m": value}) for value in contents]
    await store.append_messages(key, said)
    read = await store.get_history(key)
    assert [message.content for message in read] == [message.content for message in said]
    assert [message.metadata["m"] for message in read] == contents


@pytest.mark.req("STO-04")
async def test_an_append_is_all_or_nothing(store: Store, key: SessionKey) -> None:
    await store.get_or_create(key)
    (taken,) = await store.append_messages(key, [Message.user("first", id=MessageId(new_id()))])
    other = SessionKey("main", "irc", "bot", PeerKind.GROUP, "#other")
    await store.get_or_create(other)
    with pytest.raises(Conflict, match="already has the id"):
        await store.append_messages(other, [Message.user("new"), Message.user("stolen id", id=taken.id)])
    assert (await store.get_history(other)).messages == []
    assert (await store.get_session(other)).rev == 1


async def test_a_repeated_append_is_harmless(store: Store, key: SessionKey) -> None:
    await store.get_or_create(key)
    messages = [Message.user("once", id=MessageId(new_id())), Message.user("twice", id=MessageId(new_id()))]
    first = await store.append_messages(key, messages)
    again = await store.append_messages(key, messages)
    extended = await store.append_messages(key, [*messages, Message.user("more")])
    assert again == first
    assert [message.seq for message in extended] == [1, 2, 3]
    assert await texts(store, key) == ["once", "twice", "more"]


async def test_an_id_with_another_text_is_a_conflict(store: Store, key: SessionKey) -> None:
    await store.get_or_create(key)
    message_id = MessageId(new_id())
    await store.append_messages(key, [Message.user("yes", id=message_id)])
    with pytest.raises(Conflict):
        await store.append_messages(key, [Message.user("no", id=message_id)])
    twin = Message.user("twin", id=MessageId(new_id()))
    with pytest.raises(InvalidInput, match="same id"):
        await store.append_messages(key, [twin, twin])
    assert await texts(store, key) == ["yes"]


async def test_racing_repeats_of_one_append_store_it_once(store: Store, key: SessionKey) -> None:
    await store.get_or_create(key)
    message = Message.user("only once", id=MessageId(new_id()))
    stored = await asyncio.gather(*(store.append_messages(key, [message]) for _ in range(20)))
    assert {each[0].seq for each in stored} == {1}
    assert await texts(store, key) == ["only once"]


async def test_an_append_at_another_revision_is_refused(store: Store, key: SessionKey) -> None:
    session = await store.get_or_create(key)
    await store.append_messages(key, [Message.user("mine")], expected_revision=session.rev)
    with pytest.raises(RevisionConflict):
        await store.append_messages(key, [Message.user("late")], expected_revision=session.rev)
    assert await texts(store, key) == ["mine"]


@pytest.mark.req("STO-12")
@pytest.mark.parametrize("status", [SessionStatus.IDLE, SessionStatus.COMPACTED])
async def test_something_said_makes_a_live_session_active(
    store: Store, key: SessionKey, status: SessionStatus
) -> None:
    await store.get_or_create(key)
    await store.patch(key, SessionPatch(status=status))
    await store.append_messages(key, [Message.user("hello again")])
    assert (await store.get_session(key)).status is SessionStatus.ACTIVE


async def test_late_words_of_an_ended_session_are_kept_and_leave_it_ended(
    store: Store, key: SessionKey
) -> None:
    await store.get_or_create(key)
    await store.patch(key, SessionPatch(status=SessionStatus.CANCELLED))
    await store.append_messages(key, [Message.system("cancelled by its user")])
    assert (await store.get_session(key)).status is SessionStatus.CANCELLED
    assert await texts(store, key) == ["cancelled by its user"]


@pytest.mark.req("STO-03", "SES-03")
async def test_the_latest_come_by_default_oldest_first(store: Store, key: SessionKey) -> None:
    await fill(store, key, 120)
    page = await store.get_history(key)
    assert [message.text for message in page] == [str(number) for number in range(71, 121)]
    assert (page.older, page.newer) == (71, None)


@pytest.mark.req("STO-03")
async def test_cursors_walk_to_either_end_without_loss_or_repeat(store: Store, key: SessionKey) -> None:
    await fill(store, key, 23)
    backwards: list[str] = []
    page = await store.get_history(key, HistoryOptions(limit=5))
    while True:
        backwards = [message.text for message in page] + backwards
        if page.older is None:
            break
        page = await store.get_history(key, HistoryOptions(limit=5, before=page.older))
    forwards: list[str] = []
    cursor: int | None = 0
    while cursor is not None:
        page = await store.get_history(key, HistoryOptions(limit=4, after=cursor))
        forwards += [message.text for message in page]
        cursor = page.newer
    assert backwards == forwards == [str(number) for number in range(1, 24)]
    assert await texts(store, key, after=5, before=9) == ["6", "7", "8"]
    assert await texts(store, key, before=1) == []
    assert await texts(store, key, before=0) == []
    assert await texts(store, key, after=23) == []


@pytest.mark.req("STO-03")
async def test_time_windows_filter_and_the_order_stays_that_of_seq(
    store_url: str, key: SessionKey, clock: Clock
) -> None:
    start = datetime.fromtimestamp(clock.now / 1000, UTC)
    async with open_store(store_url, clock=clock) as store:
        await store.get_or_create(key)
        for text, offset in (("a", 0), ("b", 10), ("c", 20), ("d", 15), ("e", 15)):
            clock.now = int(start.timestamp() * 1000) + offset * 1000
            await store.append_messages(key, [Message.user(text)])
        at = [start + timedelta(seconds=seconds) for seconds in range(21)]
        assert await texts(store, key, since=at[10]) == ["c", "d", "e"]
        assert await texts(store, key, since=at[0], until=at[20]) == ["b", "d", "e"]
        assert await texts(store, key, until=at[15], limit=1) == ["b"]
        assert await texts(store, key, since=at[10], after=3, limit=1) == ["d"]
        assert await texts(store, key, since=at[20]) == []


@pytest.mark.req("STO-03")
async def test_equal_timestamps_do_not_disturb_the_order(
    store_url: str, key: SessionKey, clock: Clock
) -> None:
    async with open_store(store_url, clock=clock) as store:
        await store.get_or_create(key)
        for number in range(30):
            await store.append_messages(key, [Message.user(str(number))])
        assert await texts(store, key, limit=30) == [str(number) for number in range(30)]
        assert await texts(store, key, limit=3, before=20) == ["16", "17", "18"]


@pytest.mark.parametrize(
    "bad", [{"limit": 0}, {"limit": -5}, {"limit": 10**9}, {"before": -1}, {"after": 2**70}]
)
def test_options_that_make_no_sense_are_refused(bad: dict[str, int]) -> None:
    with pytest.raises(InvalidInput):
        HistoryOptions(**bad)  # type: ignore[arg-type]


def call(*ids: str) -> Message:
    return Message.agent("calling", tool_calls=tuple(ToolCall(id=each, name="t") for each in ids))


def result(call_id: str) -> Message:
    return Message.of(Role.TOOL, TextContent(text=f"result of {call_id}"), tool_call_id=call_id)


async def test_a_page_keeps_calls_and_results_together_when_asked(store: Store, key: SessionKey) -> None:
    await store.get_or_create(key)
    await store.append_messages(
        key, [Message.user("q"), call("a", "b"), result("a"), result("b"), Message.agent("done")]
    )
    parted = await store.get_history(key, HistoryOptions(limit=2))
    assert [message.seq for message in parted] == [4, 5]
    whole = await store.get_history(key, HistoryOptions(limit=2, keep_pairs=True))
    assert [message.seq for message in whole] == [2, 3, 4, 5]
    assert whole.older == 2
    first = await store.get_history(key, HistoryOptions(limit=2, after=0, keep_pairs=True))
    assert [message.seq for message in first] == [1, 2, 3, 4]
    assert first.newer == 4


async def test_a_page_that_is_lengthened_shows_what_streams_in_its_added_rows(
    store: Store, key: SessionKey
) -> None:
    await store.get_or_create(key)
    await store.append_messages(key, [call("a")])
    async with await store.open_stream(key, Message.agent("", partial=True)) as stream:
        stream.write("meanwhile")
        await stream.drain()
        await store.append_messages(key, [result("a")])
        for after in (None, 0):
            assert await texts(store, key, limit=1, after=after, keep_pairs=True) == [
                "calling",
                "meanwhile",
                "result of a",
            ]


@pytest.mark.parametrize("seed", range(12))
async def test_no_page_parts_a_call_from_its_result_however_they_are_mixed(
    store: Store, key: SessionKey, seed: int, trials: Trials
) -> None:
    chance = trials.chance(seed)
    said: list[Message] = []
    waiting: list[str] = []
    for number in range(60):
        match chance.choice(["call", "result", "result", "words"]):
            case "call":
                ids = [f"{number}.{each}" for each in range(chance.randint(1, 3))]
                waiting += ids
                said.append(call(*ids))
            case "result" if waiting:
                said.append(result(waiting.pop(chance.randrange(len(waiting)))))
            case _:
                said.append(Message.user("meanwhile"))
    said += map(result, waiting)
    await store.get_or_create(key)
    await store.append_messages(key, said)
    for _ in range(15):
        cursor = {chance.choice(["after", "before"]): chance.randint(1, len(said))}
        options = HistoryOptions(limit=chance.randint(1, 5), keep_pairs=True, **cursor)  # type: ignore[arg-type]
        page = (await store.get_history(key, options)).messages
        assert [each.seq for each in page] == list(range(page[0].seq, page[-1].seq + 1)) if page else True
        calls = sorted(each.id for message in page for each in message.tool_calls)
        assert calls == sorted(message.tool_call_id for message in page if message.tool_call_id)


async def test_pages_with_pairs_lead_from_the_first_message_to_the_last(
    store: Store, key: SessionKey
) -> None:
    await store.get_or_create(key)
    meanwhile = [Message.user("meanwhile")] * 999
    far = [call("a"), *meanwhile, result("a"), Message.user("then"), Message.user("end")]
    await store.append_messages(key, far)
    seen, after = [], 0
    while page := await store.get_history(key, HistoryOptions(after=after, limit=1, keep_pairs=True)):
        seen += [message.seq for message in page]
        if page.newer is None:
            break
        after = page.newer
    assert seen == list(range(1, len(far) + 1))


async def test_a_result_without_a_call_does_not_stretch_the_page(store: Store, key: SessionKey) -> None:
    await fill(store, key, 10)
    await store.append_messages(key, [result("lost"), Message.agent("done")])
    page = await store.get_history(key, HistoryOptions(limit=2, keep_pairs=True))
    assert [message.seq for message in page] == [11, 12]


@pytest.mark.req("SES-03")
async def test_the_whole_history_streams_as_the_stored_json(store: Store, key: SessionKey) -> None:
    await store.get_or_create(key)
    assert b"".join([piece async for piece in store.history_json(key)]) == b"[]"
    await fill(store, key, 2500)
    await store.append_messages(key, [Message.of("agent", JsonContent(b'{"x":   1.0}'))])
    everything = b"".join([piece async for piece in store.history_json(key)])
    parsed = json.loads(everything)
    assert [message["seq"] for message in parsed] == list(range(1, 2502))
    assert parsed[0].keys() == {"seq", "rev", "id", "role", "content", "timestamp"}
    assert b'{"x":   1.0}' in everything
    assert len(json.loads(b"".join([piece async for piece in store.history_json(key, after=2499)]))) == 2


@pytest.mark.parametrize("is_streaming", [False, True], ids=["final", "streaming"])
async def test_the_pieces_of_a_history_are_short_though_its_messages_are_long(
    store: Store, key: SessionKey, is_streaming: bool
) -> None:
    await store.get_or_create(key)
    if is_streaming:
        await store.open_stream(key, Message.agent("", partial=True))
    half = PIECE_BYTES // 2 * "x"
    said = await store.append_messages(key, [Message.user("short"), *[Message.user(half)] * 7])
    pieces = [piece async for piece in store.history_json(key)]
    assert max(map(len, pieces)) < 2 * PIECE_BYTES
    last = json.loads(b"".join(pieces))[-len(said) :]
    assert [(each["seq"], each["content"]["text"]) for each in last] == [(m.seq, m.text) for m in said]


async def test_a_page_in_wire_form_is_short_where_messages_are_long_and_says_where_it_goes_on(
    store: Store, key: SessionKey
) -> None:
    await store.get_or_create(key)
    said = await store.append_messages(key, [Message.user(PAGE_BYTES // 2 * "x")] * 5)
    forwards: list[int] = []
    backwards: list[int] = []
    after: int | None = 0
    while after is not None:
        page = await store.history_page_json(key, HistoryOptions(after=after, limit=1000))
        assert len(page.text) < 2 * PAGE_BYTES
        forwards += [each["seq"] for each in json.loads(b"[" + page.text + b"]")]
        after = page.newer
    before: int | None = MAX_SEQ
    while before is not None:
        page = await store.history_page_json(key, HistoryOptions(before=before, limit=1000))
        assert len(page.text) < 2 * PAGE_BYTES
        backwards = [each["seq"] for each in json.loads(b"[" + page.text + b"]")] + backwards
        before = page.older
    assert forwards == backwards == [message.seq for message in said]


async def test_an_open_tool_call_is_revised_until_it_is_final(store: Store, key: SessionKey) -> None:
    await store.get_or_create(key)
    (opened,) = await store.append_messages(
        key, [Message.of("system", ToolContent(tool="sh", args={}, status="pending"), metadata={"k": 1})]
    )
    assert opened.id is not None
    running = await store.revise_message(
        key, opened.id, ToolContent(tool="sh", args={}, status="in_progress")
    )
    assert running.open
    final = await store.revise_message(
        key, opened.id, ToolContent(tool="sh", args={}, status="completed", result={"exit": 0})
    )
    assert (final.seq, final.metadata, final.open) == (1, {"k": 1}, False)
    assert await store.get_message(key, opened.id) == final
    with pytest.raises(MessageFinal):
        await store.revise_message(key, opened.id, ToolContent(tool="sh", args={}, status="pending"))
    with pytest.raises(NotFound):
        await store.revise_message(key, MessageId(new_id()), TextContent(text="x"))


async def test_a_final_message_is_never_revised(store: Store, key: SessionKey) -> None:
    await store.get_or_create(key)
    (said,) = await store.append_messages(key, [Message.user("final")])
    assert said.id is not None
    with pytest.raises(MessageFinal, match="never changes"):
        await store.revise_message(key, said.id, TextContent(text="changed"))
    assert await texts(store, key) == ["final"]


async def test_a_message_that_is_too_large_is_refused_and_nothing_is_stored(
    store: Store, key: SessionKey
) -> None:
    await store.get_or_create(key)
    with pytest.raises(MessageTooLarge, match="blob") as refusal:
        await store.append_messages(key, [Message.user("small"), Message.user("x" * 50_000_000)])
    assert refusal.value.status == 413
    assert (await store.get_history(key)).messages == []


async def test_a_message_of_ten_megabytes_is_kept(store: Store, key: SessionKey) -> None:
    await store.get_or_create(key)
    await store.append_messages(key, [Message.user("ü" * 5_000_000)])
    assert (await store.get_history(key))[0].text == "ü" * 5_000_000


@pytest.mark.req("STO-04")
async def test_concurrent_appends_take_every_place_exactly_once(store: Store, key: SessionKey) -> None:
    await store.get_or_create(key)

    async def say(number: int) -> list[int]:
        stored = await store.append_messages(key, [Message.user(f"{number}.{part}") for part in range(3)])
        return [message.seq for message in stored]

    places = await asyncio.gather(*(say(number) for number in range(64)))
    assert sorted(seq for seqs in places for seq in seqs) == list(range(1, 193))
    assert all(seqs == list(range(seqs[0], seqs[0] + 3)) for seqs in places)
