"""Streaming messages: text becomes durable together, and is folded into the message at its end."""

import asyncio
import sys

import pytest

from holdfast import (
    Message,
    PeerKind,
    SessionKey,
    Store,
    TextContent,
    ThoughtContent,
    ToolContent,
    open_store,
)
from holdfast.errors import InvalidInput, MessageFinal, MessageTooLarge
from holdfast.model.content import Content
from holdfast.model.lease import LeaseLost
from holdfast.store import runtime
from tests.waiting import until


async def last(store: Store, key: SessionKey) -> Message:
    return (await store.get_history(key)).messages[-1]


@pytest.mark.req("SES-15")
async def test_a_stream_is_partial_until_it_ends(store: Store, key: SessionKey) -> None:
    await store.get_or_create(key)
    stream = await store.open_stream(key, Message.agent("So ", partial=True, metadata={"model": "m"}))
    for piece in ("far ", "so", " good"):
        stream.write(piece)
    await stream.drain()
    half = await last(store, key)
    assert half.content == TextContent(text="So far so good", partial=True)
    stream.write(".")
    final = await stream.end()
    assert final.content == TextContent(text="So far so good.", partial=False)
    assert (final.id, final.seq, final.metadata) == (half.id, half.seq, {"model": "m"})
    assert final.rev > half.rev > stream.message.rev
    assert await last(store, key) == final


@pytest.mark.parametrize(
    "content",
    [TextContent(text="", partial=True), ThoughtContent(text="", partial=True)],
    ids=["text", "thought"],
)
@pytest.mark.parametrize("piece", ['"quotes" and \\ backslash', "nul \0 tab \t", "漢字 🎉 ü", "\u2028"])
async def test_every_character_survives_streaming(
    store: Store, key: SessionKey, content: Content, piece: str
) -> None:
    await store.get_or_create(key)
    async with await store.open_stream(key, Message.of("agent", content)) as stream:
        stream.write(piece)
        await stream.drain()
        assert (await last(store, key)).text == piece
        stream.write(piece)
    assert (await last(store, key)).text == piece * 2


async def test_many_streams_keep_their_texts_apart(store: Store) -> None:
    async def speak(number: int) -> None:
        key = SessionKey("main", "test", "a", PeerKind.GROUP, str(number))
        await store.get_or_create(key)
        async with await store.open_stream(key, Message.agent("", partial=True)) as stream:
            for part in range(10):
                stream.write(f"{number}.{part} ")
                if part % 3 == 0:
                    await stream.drain()
        expected = "".join(f"{number}.{part} " for part in range(10))
        assert (await last(store, key)).text == expected

    await asyncio.gather(*(speak(number) for number in range(32)))
    assert (await store.list()).total == 32


async def test_streams_of_one_session_interleave(store: Store, key: SessionKey) -> None:
    await store.get_or_create(key)
    thought = await store.open_stream(key, Message.of("agent", ThoughtContent(text="", partial=True)))
    thought.write("hmm")
    await thought.end()
    first = await store.open_stream(key, Message.agent("", partial=True))
    first.write("a")
    await first.drain()
    second = await store.open_stream(key, Message.agent("", partial=True))
    second.write("b")
    first.write("a")
    await second.end()
    await first.end()
    assert [message.text for message in await store.get_history(key)] == ["hmm", "aa", "b"]


async def test_nothing_can_be_written_after_the_end(store: Store, key: SessionKey) -> None:
    await store.get_or_create(key)
    stream = await store.open_stream(key, Message.agent("", partial=True))
    await stream.end()
    with pytest.raises(MessageFinal):
        stream.write("more")
    with pytest.raises(MessageFinal):
        await stream.end()
    assert (await last(store, key)).text == ""


async def test_an_empty_stream_and_an_undrained_one_end_with_all_their_text(
    store: Store, key: SessionKey
) -> None:
    await store.get_or_create(key)
    async with await store.open_stream(key, Message.agent("", partial=True)):
        pass
    async with await store.open_stream(key, Message.agent("", partial=True)) as stream:
        for _ in range(1000):
            stream.write("x")
    assert [len(message.text) for message in await store.get_history(key)] == [0, 1000]


async def test_only_a_partial_text_can_be_streamed(store: Store, key: SessionKey) -> None:
    await store.get_or_create(key)
    with pytest.raises(InvalidInput, match="partial"):
        await store.open_stream(key, Message.user("whole"))
    assert (await store.get_history(key)).messages == []


async def test_half_a_character_is_refused_and_the_stream_goes_on(store: Store, key: SessionKey) -> None:
    await store.get_or_create(key)
    async with await store.open_stream(key, Message.agent("", partial=True)) as stream:
        stream.write("good ")
        with pytest.raises(InvalidInput):
            stream.write("\ud800")
        stream.write("again")
    assert (await last(store, key)).text == "good again"


async def test_a_stream_has_a_largest_size(store_url: str, key: SessionKey) -> None:
    async with open_store(store_url, max_message_bytes=1000) as store:
        await store.get_or_create(key)
        async with await store.open_stream(key, Message.agent("", partial=True)) as stream:
            stream.write("x" * 900)
            with pytest.raises(MessageTooLarge, match="end it and open another"):
                stream.write("y" * 200)
        assert (await last(store, key)).text == "x" * 900


async def test_a_stream_whose_session_is_deleted_ends_in_a_sentence(store: Store, key: SessionKey) -> None:
    await store.get_or_create(key)
    stream = await store.open_stream(key, Message.agent("", partial=True))
    stream.write("into the void")
    await store.delete(key)
    with pytest.raises(MessageFinal):
        await stream.drain()
    with pytest.raises(MessageFinal):
        stream.write("more")


async def test_closing_the_store_keeps_what_was_written(store_url: str, key: SessionKey) -> None:
    async with open_store(store_url) as store:
        await store.get_or_create(key)
        stream = await store.open_stream(key, Message.agent("", partial=True))
        stream.write("not drained")
    async with open_store(store_url) as store:
        message = await last(store, key)
        assert message.content == TextContent(text="not drained", partial=False)
        assert message.metadata == {"interrupted": True}


@pytest.mark.usefixtures("process")
@pytest.mark.parametrize("noticed", ["by itself", "with its turns"])
async def test_what_a_process_that_came_later_was_saying_is_closed_when_it_was_killed(
    store_url: str, key: SessionKey, noticed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if noticed == "by itself":
        monkeypatch.setattr(runtime, "RECOVERY_SECONDS", 0.1)
    async with open_store(store_url) as store:
        session = await store.get_or_create(key)
        speaks = f"""
import asyncio, os, signal
from holdfast import Message, NewTurn, open_store
async def main():
    async with open_store({store_url!r}) as store:
        await store.add_turn({session.id!r}, NewTurn(instruction_summary="left"), owned=True)
        stream = await store.open_stream({session.id!r}, Message.agent("", partial=True))
        stream.write("half an")
        await stream.drain()
        os.kill(os.getpid(), signal.SIGKILL)
asyncio.run(main())
"""
        process = await asyncio.create_subprocess_exec(sys.executable, "-c", speaks)
        assert await process.wait() == -9

        async def is_closed() -> bool:
            return not (await last(store, key)).open

        if noticed == "by itself":
            await until(is_closed)
        else:
            assert len(await store.claim_abandoned_turns()) == 1
        half = await last(store, key)
        assert (half.text, half.open, half.metadata) == ("half an", False, {"interrupted": True})


async def test_a_second_store_does_not_close_the_streams_of_the_first(
    store_url: str, key: SessionKey
) -> None:
    async with open_store(store_url) as first:
        await first.get_or_create(key)
        stream = await first.open_stream(key, Message.agent("", partial=True))
        stream.write("still ")
        await stream.drain()
        async with open_store(store_url) as second:
            assert (await last(second, key)).content == TextContent(text="still ", partial=True)
        stream.write("here")
        assert (await stream.end()).text == "still here"


async def test_a_stream_that_is_revised_goes_on_from_there(store: Store, key: SessionKey) -> None:
    await store.get_or_create(key)
    stream = await store.open_stream(key, Message.agent("", partial=True))
    stream.write("hello ")
    await stream.drain()
    assert stream.message.id is not None
    with pytest.raises(InvalidInput, match="cannot become another kind"):
        await store.revise_message(key, stream.message.id, ToolContent(tool="t", args={}, status="pending"))
    revised = await store.revise_message(key, stream.message.id, TextContent(text="HELLO ", partial=True))
    assert await last(store, key) == revised
    stream.write("world")
    assert (await stream.end()).text == "HELLO world"
    assert await store.problems() == []


async def test_what_is_streamed_after_the_turn_went_to_another_is_refused(
    store: Store, key: SessionKey
) -> None:
    session = await store.get_or_create(key)
    first = await store.take_lease(key, 60)
    assert first is not None
    slow = store.under_lease(first)
    written, ended = [await slow.open_stream(key, Message.agent("", partial=True)) for _ in range(2)]
    for stream in (written, ended):
        stream.write("before")
        await stream.drain()
    await store.release_lease(first)
    assert await store.take_lease(key, 60) is not None
    written.write(" and after")
    with pytest.raises(MessageFinal):
        await written.drain()
    ended.write(" and after")
    with pytest.raises(LeaseLost, match=session.id):
        await ended.end()
    kept = [(message.text, message.open, message.metadata) for message in await store.get_history(key)]
    assert kept == [("before", False, {"interrupted": True})] * 2
