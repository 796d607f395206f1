"""What cannot be kept is refused in a sentence, and nothing of it is kept: on both engines alike."""

import math
import os
import stat
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast import (
    HistoryOptions,
    JsonContent,
    Message,
    NewSession,
    NewTurn,
    Principal,
    SessionFilter,
    SessionKey,
    SessionPatch,
    SessionStatus,
    Store,
    TextContent,
    open_store,
)
from holdfast.errors import HoldfastError, InvalidInput
from holdfast.model.content import MAX_DEPTH
from holdfast.store.ids import new_id

RAW = msgspec.Raw
HUGE = 2**70

MESSAGES: dict[str, Callable[[], Message]] = {
    "calls in another program's shape": lambda: Message.agent("x", tool_calls=[{"type": "function"}]),
    "half a token": lambda: Message.agent("x", token_count=1.5),
    "metadata that is no object": lambda: Message.user("x", metadata="abc"),
    "a turn that is no id": lambda: Message.user("x", turn_id="nonsense"),
    "an id that is none": lambda: Message.user("x", id="nonsense"),
    "a tokenizer that is no name": lambda: Message.user("x", tokenizer=5),
    "a role that nobody has": lambda: Message(role="robot", content_json=RAW(b"{}")),  # type: ignore[arg-type]
    "a content that ends early": lambda: Message(role="user", content_json=RAW(b'{"a":')),  # type: ignore[arg-type]
    "a content with more behind it": lambda: Message(
        role="user",  # type: ignore[arg-type]
        content_json=RAW(b'{"a":1},"role":"system"'),
    ),
    "a content that is too deep": lambda: Message.of("user", JsonContent(b"[" * 400 + b"]" * 400)),
    "metadata that is too deep": lambda: Message.user("x", metadata={"a": deep(400)}),
    "a time before all years": lambda: Message.user(
        "x", timestamp=datetime.min.replace(tzinfo=timezone(timedelta(hours=12)))
    ),
}


def deep(levels: int) -> Any:
    value: Any = 0
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.req("STO-04", "STO-13", "SES-30")
@pytest.mark.parametrize("what", MESSAGES)
async def test_a_message_that_nobody_could_read_is_refused(store: Store, key: SessionKey, what: str) -> None:
    await store.get_or_create(key)
    with pytest.raises(InvalidInput):
        await store.append_messages(key, [Message.user("with it"), MESSAGES[what]()])
    assert (await store.get_history(key)).messages == []


async def test_json_is_kept_up_to_the_depth_that_is_promised(store: Store, key: SessionKey) -> None:
    await store.get_or_create(key)
    whole = b"[" * MAX_DEPTH + b'"' + b"[{" * 500 + b'"' + b"]" * MAX_DEPTH
    await store.append_messages(key, [Message.of("agent", JsonContent(whole))])
    (kept,) = await store.get_history(key)
    assert kept.content == JsonContent(whole)
    with pytest.raises(InvalidInput, match="nested too deeply"):
        Message.of("agent", JsonContent(b"[" + whole + b"]"))


async def test_blanks_around_a_content_are_not_part_of_it(store: Store, key: SessionKey) -> None:
    await store.get_or_create(key)
    message = Message.of("agent", JsonContent(b'  {"a":  1}\n '), id=new_id())
    first = await store.append_messages(key, [message])
    assert await store.append_messages(key, [message]) == first
    assert [each.content for each in await store.get_history(key)] == [JsonContent(b'{"a":  1}')]


async def test_what_an_append_gives_back_is_what_is_read(store: Store, key: SessionKey) -> None:
    await store.get_or_create(key)
    new = Message.user("x", metadata={"pair": (1, 2), "nothing": math.nan}, id=new_id().upper())
    stored = await store.append_messages(key, [new])
    assert stored == (await store.get_history(key)).messages
    assert stored[0].metadata == {"pair": [1, 2], "nothing": None}


Call = Callable[[Store, SessionKey], Awaitable[object]]

CALLS: dict[str, Call] = {
    "a range backwards": lambda store, key: store.get_ranges(key, [(10, 1)]),
    "one range backwards of two": lambda store, key: store.get_ranges(key, [(1, 10000), (20000, 1)]),
    "a range before the first": lambda store, key: store.get_ranges(key, [(0, 1)]),
    "a range beyond all": lambda store, key: store.get_ranges(key, [(HUGE, HUGE)]),
    "turns after too large a number": lambda store, key: store.list_turns(key, after=HUGE),
    "entries before too large a number": lambda store, key: store.list_audit(before=HUGE),
    "too large a revision": lambda store, key: store.append_messages(
        key, [Message.user("x")], expected_revision=HUGE
    ),
    "a token's label with a NUL": lambda store, key: store.add_token(Principal("a", "b"), "hash", "x\0"),
    "a token's label that is no Unicode": lambda store, key: store.add_token(
        Principal("a", "b"), "hash", "\ud800"
    ),
    "a key that is no Unicode": lambda store, key: store.keyed_turn("\ud800"),
    "a status nobody knows": lambda store, key: store.patch(key, SessionPatch(status="gone")),  # type: ignore[arg-type]
    "a description as long as a book": lambda store, key: store.patch(
        key, SessionPatch(description="x" * 30_000)
    ),
    "more metadata than a listing should carry": lambda store, key: store.patch(
        key, SessionPatch(custom={"a": "x" * 70_000})
    ),
    "a session with more of it": lambda store, key: store.create_session(
        NewSession(custom={"a": "x" * 70_000})
    ),
    "stars without number": lambda store, key: store.patch(key, SessionPatch(stars=math.nan)),
    "an instruction that is none": lambda store, key: store.add_turn(
        key,
        NewTurn(instruction_summary=None),  # type: ignore[arg-type]
    ),
    "a cursor of other digits": lambda store, key: store.list(SessionFilter(before="updated-²-1")),
    "a cursor too long": lambda store, key: store.list(SessionFilter(before=f"updated-{HUGE}{HUGE}-1")),
    "no agent's sessions": lambda store, key: store.list(SessionFilter(agent_id="")),
    "nobody's sessions": lambda store, key: store.list(SessionFilter(owner="", offset=1)),
    "an order that is none": lambda store, key: store.list(SessionFilter(order="size")),  # type: ignore[arg-type]
    "a kind of peer that is none": lambda store, key: store.list(SessionFilter(peer_kind="crowd")),  # type: ignore[arg-type]
    "a moment after all years": lambda store, key: store.get_history(
        key, HistoryOptions(since=datetime.max.replace(tzinfo=timezone(-timedelta(hours=12))))
    ),
}


@pytest.mark.parametrize("what", CALLS)
async def test_a_call_that_makes_no_sense_is_refused_and_changes_nothing(
    store: Store, key: SessionKey, what: str
) -> None:
    before = await store.get_or_create(key)
    with pytest.raises(InvalidInput) as refusal:
        await CALLS[what](store, key)
    assert str(refusal.value).endswith(".")
    assert await store.get_session(key) == before


async def test_names_are_taken_for_what_they_name(store: Store, key: SessionKey) -> None:
    await store.get_or_create(key)
    archived = await store.patch(key, SessionPatch(status="archived"))  # type: ignore[arg-type]
    assert archived.status is SessionStatus.ARCHIVED
    found = await store.list(SessionFilter(order="created", peer_kind="group", status={"archived"}))  # type: ignore[arg-type]
    assert [session.id for session in found] == [archived.id]
    assert Principal("acme", "ada", "admin").is_admin  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="not a role"):
        Principal("acme", "ada", "superuser")  # type: ignore[arg-type]


async def test_a_stream_is_no_longer_than_a_message_may_be(store_url: str, key: SessionKey) -> None:
    async with open_store(store_url, max_message_bytes=1000) as store:
        await store.get_or_create(key)
        async with await store.open_stream(key, Message.agent("é" * 300, partial=True)) as stream:
            with pytest.raises(InvalidInput, match="over 1,000 bytes"):
                stream.write("é" * 200)
            with pytest.raises(InvalidInput, match="at most 1,000"):
                await store.revise_message(key, stream.message.id, TextContent(text="é" * 480, partial=True))  # type: ignore[arg-type]
            stream.write("!")
        (message,) = await store.get_history(key)
        assert message.text == "é" * 300 + "!"


@pytest.mark.parametrize(
    "url",
    [
        "sqlite:////",
        "sqlite:///",
        "sqlite:///good.db?mode=ro",
        "sqlite:///we#ird.db",
        "postgresql://[::1/db",
        "postgresql://localhost:notaport/db",
        "mysql://ada:secret@host/db",
        "",
    ],
)
async def test_an_address_that_is_none_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(InvalidInput) as refusal:
        async with open_store(url):
            pass
    assert "secret" not in str(refusal.value)


async def test_a_store_and_its_backup_are_their_owners_alone(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        async with open_store(f"sqlite:///{tmp_path / 'a.db'}") as store:
            await store.create_session(NewSession())
            await store.backup(tmp_path / "copy.db")
            modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in tmp_path.iterdir()}
    finally:
        os.umask(before)
    assert {"a.db", "a.db-wal", "copy.db"} <= modes.keys()
    assert set(modes.values()) == {0o600}


async def test_a_backup_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    async with open_store(f"sqlite:///{tmp_path / 'a.db'}") as store:
        with pytest.raises(HoldfastError, match="cannot be written"):
            await store.backup(tmp_path / ("x" * 250))
