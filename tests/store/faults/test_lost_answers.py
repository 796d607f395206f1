"""A connection that breaks after the server has committed and before it could say so.

The caller cannot know what became of the call. Repeating it must be harmless: that is what its error says.
The break is a real one: the bytes pass through a relay on loopback, which hangs up at that moment.
"""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from holdfast import Message, NewTurn, SessionKey, Store, TokenUsage, TurnAnswer, open_store
from holdfast.errors import StoreUnavailable
from holdfast.model.ids import MessageId, TurnId
from holdfast.store.ids import new_id
from tests.store.faults.contents import assert_one_sentence, history, turns


class Relay:
    """Passes bytes between a client and PostgreSQL, until told to lose the answer to a commit.

    Which commit: that of the transaction in which some given text was sent.
    """

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._socket = Path(parse_qs(parts.query)["host"][0]) / ".s.PGSQL.5432"
        self._database = parts.path
        self._text: bytes | None = None
        self._last_words: bytes | None = None
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        assert self._server is not None
        port = self._server.sockets[0].getsockname()[1]
        return f"postgresql://postgres@127.0.0.1:{port}{self._database}?sslmode=disable"

    def lose_the_answer_to(self, text: str) -> None:
        self._text = text.encode()

    def hang_up_at(self, text: str) -> None:
        """Break the connection on which some given text is sent."""
        self._last_words = text.encode()

    async def open(self) -> None:
        self._server = await asyncio.start_server(self._connect, "127.0.0.1", 0)

    async def close(self) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _connect(self, client: asyncio.StreamReader, answers: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        server, requests = await asyncio.open_unix_connection(self._socket)
        committing = asyncio.Event()
        directions = [
            asyncio.ensure_future(self._pass_requests(client, requests, committing)),
            asyncio.ensure_future(self._pass_answers(server, answers, committing)),
        ]
        try:
            await asyncio.wait(directions, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for direction in directions:
                direction.cancel()
            await asyncio.gather(*directions, return_exceptions=True)
            requests.close()
            answers.transport.abort()
            self._tasks.discard(task)

    async def _pass_requests(
        self, client: asyncio.StreamReader, requests: asyncio.StreamWriter, committing: asyncio.Event
    ) -> None:
        sent = False
        while data := await client.read(65536):
            if self._last_words is not None and self._last_words in data:
                return
            sent = sent or (self._text is not None and self._text in data)
            if sent and self._text is not None and b"COMMIT" in data:
                self._text = None
                committing.set()
            requests.write(data)

    async def _pass_answers(
        self, server: asyncio.StreamReader, answers: asyncio.StreamWriter, committing: asyncio.Event
    ) -> None:
        while data := await server.read(65536):
            if committing.is_set():
                return  # the server has answered, so it has committed; hang up instead of passing it on
            answers.write(data)


@pytest.fixture
async def relay(postgres_url: str) -> AsyncIterator[Relay]:
    relay = Relay(postgres_url)
    await relay.open()
    yield relay
    await relay.close()


@pytest.fixture
async def store(relay: Relay, key: SessionKey) -> AsyncIterator[Store]:
    async with open_store(relay.url) as opened:
        await opened.get_or_create(key)
        yield opened
        assert await opened.problems() == []


async def test_a_repeated_append_is_stored_once(relay: Relay, store: Store, key: SessionKey) -> None:
    message = Message.user("once", id=MessageId(new_id()))
    relay.lose_the_answer_to("once")
    with pytest.raises(StoreUnavailable):
        await store.append_messages(key, [message])
    (stored,) = await store.append_messages(key, [message])
    assert stored.seq == 1
    assert await history(store, key) == [stored]


async def test_a_repeated_get_or_create_is_one_session(relay: Relay, store: Store, key: SessionKey) -> None:
    other = SessionKey("main", "irc", "bot", key.peer_kind, "#other")
    relay.lose_the_answer_to("#other")
    with pytest.raises(StoreUnavailable):
        await store.get_or_create(other)
    created = await store.get_or_create(other)
    assert created.id == (await store.get_session(other)).id
    assert (await store.list()).total == 2


async def test_a_repeated_turn_is_opened_once(relay: Relay, store: Store, key: SessionKey) -> None:
    new = NewTurn(instruction_summary="go on", id=TurnId(new_id()))
    relay.lose_the_answer_to("go on")
    with pytest.raises(StoreUnavailable):
        await store.add_turn(key, new)
    turn = await store.add_turn(key, new)
    assert turn.sequence_number == 1
    assert await turns(store, key) == [turn]


async def test_a_repeated_end_of_a_turn_ends_it_once(relay: Relay, store: Store, key: SessionKey) -> None:
    turn = await store.add_turn(key, NewTurn(instruction_summary="go on"))
    answer = TurnAnswer(agent_answer_summary="done it", usage=TokenUsage(3, 5))
    relay.lose_the_answer_to("done it")
    with pytest.raises(StoreUnavailable):
        await store.complete_turn(key, turn.id, answer)
    ended = await store.complete_turn(key, turn.id, answer)
    assert await turns(store, key) == [ended]
    assert (await store.get_session(key)).token_usage == TokenUsage(3, 5)


async def test_a_repeated_open_stream_is_one_message(relay: Relay, store: Store, key: SessionKey) -> None:
    message_id = MessageId(new_id())
    message = Message.agent("", partial=True, id=message_id)
    relay.lose_the_answer_to(message_id)
    with pytest.raises(StoreUnavailable):
        await store.open_stream(key, message)
    stream = await store.open_stream(key, message)
    stream.write("said once")
    await stream.end()
    assert [said.text for said in await history(store, key)] == ["said once"]


async def test_a_stream_that_drains_again_says_everything_once(
    relay: Relay, store: Store, key: SessionKey
) -> None:
    stream = await store.open_stream(key, Message.agent("", partial=True))
    stream.write('"one" ')
    await stream.drain()
    relay.lose_the_answer_to("two ")
    stream.write("two ")
    with pytest.raises(StoreUnavailable):
        await stream.drain()
    stream.write("three")
    await stream.drain()
    assert stream.message.id is not None
    assert (await store.get_message(key, stream.message.id)).text == '"one" two three'
    assert (await stream.end()).text == '"one" two three'


async def test_a_stream_that_ends_after_a_lost_drain_says_everything_once(
    relay: Relay, store: Store, key: SessionKey
) -> None:
    stream = await store.open_stream(key, Message.agent("", partial=True))
    relay.lose_the_answer_to("one ")
    stream.write("one ")
    with pytest.raises(StoreUnavailable):
        await stream.drain()
    stream.write("two")
    assert (await stream.end()).text == "one two"


async def test_a_stream_that_ends_again_has_ended(relay: Relay, store: Store, key: SessionKey) -> None:
    stream = await store.open_stream(key, Message.agent("", partial=True))
    stream.write("one ")
    await stream.drain()
    stream.write("two")
    relay.lose_the_answer_to("one two")
    with pytest.raises(StoreUnavailable):
        await stream.end()
    ended = await stream.end()
    assert (ended.text, ended.open) == ("one two", False)
    assert await history(store, key) == [ended]


async def test_a_connection_that_breaks_while_a_store_opens_is_a_retriable_sentence(relay: Relay) -> None:
    relay.hang_up_at("pg_advisory_lock_shared")
    with pytest.raises(StoreUnavailable) as refusal:
        async with open_store(relay.url):
            pass
    assert_one_sentence(str(refusal.value))


async def test_drain_does_not_call_durable_what_an_end_took_over_and_could_not_store(
    relay: Relay, key: SessionKey
) -> None:
    async with open_store(relay.url) as store:
        await store.get_or_create(key)
        stream = await store.open_stream(key, Message.agent("", partial=True))
        await relay.close()  # from here on the server cannot be reached
        stream.write("never stored")
        outcomes = await asyncio.gather(stream.drain(), stream.end(), return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [StoreUnavailable, StoreUnavailable]
