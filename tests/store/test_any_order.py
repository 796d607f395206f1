"""Whatever is done with sessions, in any order: both engines answer the same, and nothing is lost."""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any, ClassVar, TypeAlias

import msgspec
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)

from holdfast import (
    HistoryOptions,
    Message,
    NewSession,
    NewTurn,
    PeerKind,
    Principal,
    SessionFilter,
    SessionKey,
    SessionOrder,
    SessionPatch,
    SessionStatus,
    Store,
    TurnAnswer,
    TurnFailure,
    open_store,
)
from holdfast.errors import HoldfastError
from holdfast.model.ids import MessageId, SessionId, TurnId
from holdfast.store import word_index
from holdfast.store.ids import new_id
from holdfast.store.options import SessionPage
from holdfast.store.streams import MessageStream
from tests.long_plugin import Trials
from tests.store.conftest import Clock
from tests.store.followers import Follower, state

VOCABULARY = ("alpha", "Beta", "beta-gamma", "naïve", "NAIVE", "x_1", "don't", "a.b", "ß", "東京", "1.5")
WORDS = st.text('ab é\n"\\☃😀\0', min_size=1, max_size=20)
PATCHES = st.one_of(
    st.builds(
        lambda title: SessionPatch(title=title), st.none() | WORDS.map(lambda text: text.replace("\0", ""))
    ),
    st.builds(lambda status: SessionPatch(status=status), st.sampled_from(SessionStatus)),
    st.builds(
        lambda custom: SessionPatch(custom=custom),
        st.dictionaries(st.sampled_from("abc"), st.none() | st.integers(0, 9), max_size=3),
    ),
)


Batch: TypeAlias = tuple[SessionId, list[Message]]
Streaming: TypeAlias = tuple[SessionId, MessageId, list[MessageStream]]
"""Where a message is being said, which one it is, and the same in both engines."""


class AnyOrder(RuleBasedStateMachine):
    runner: ClassVar[asyncio.Runner]
    stores: ClassVar[tuple[Store, Store]]
    clock: ClassVar[Clock]

    sessions = Bundle("sessions")
    batches = Bundle("batches")
    streams = Bundle("streams")
    turns = Bundle("turns")

    def __init__(self) -> None:
        super().__init__()
        principal = Principal(new_id(), "ada")
        self.views = [store.as_principal(principal) for store in self.stores]
        self.said: dict[SessionId, dict[str, str]] = {}
        """What must be found in each session, in this order."""
        self.followers: dict[tuple[int, SessionId], Follower] = defaultdict(Follower)
        """Who hears of the changes of a session in an engine."""

    def both(self, do: Callable[[Store], Awaitable[Any]]) -> Any:
        """What both engines answer."""
        return self.each(lambda number: do(self.views[number]))

    def each(self, do: Callable[[int], Awaitable[Any]]) -> Any:
        outcomes = [self.runner.run(_outcome(do(number))) for number in range(2)]
        sqlite, postgres = outcomes
        assert sqlite == postgres, _differences(msgspec.to_builtins(sqlite), msgspec.to_builtins(postgres))
        return sqlite

    @rule(target=sessions)
    def create(self) -> SessionId:
        session_id = SessionId(new_id())
        self.clock.now += 1
        self.both(lambda view: view.create_session(NewSession(id=session_id)))
        self.said[session_id] = {}
        return session_id

    @rule(target=sessions, peer=st.sampled_from(["#a", "#b"]))
    def find(self, peer: str) -> Any:
        key = SessionKey("main", "irc", "bot", PeerKind.GROUP, peer)
        self.clock.now += 1
        session_id = SessionId(new_id())
        found = self.both(lambda view: view.get_or_create(key, NewSession(id=session_id)))
        if found.id in self.said:
            return multiple()
        self.said[found.id] = {}
        return found.id

    @rule(minutes=st.integers(-10, 10))
    def let_the_clock_jump(self, minutes: int) -> None:
        self.clock.now += minutes * 60_000

    @rule(target=batches, session_id=sessions, texts=st.lists(WORDS, min_size=1, max_size=3))
    def append(self, session_id: SessionId, texts: list[str]) -> Batch:
        batch = [Message.user(text, id=MessageId(new_id())) for text in texts]
        self.append_again((session_id, batch))
        return session_id, batch

    @rule(given=batches)
    def append_again(self, given: Batch) -> None:
        session_id, batch = given
        stored = self.both(lambda view: view.append_messages(session_id, batch))
        if session_id in self.said:
            assert [message.text for message in stored] == [message.text for message in batch]
            self.said[session_id] |= {str(message.id): message.text for message in batch}

    @rule(target=batches, session_id=sessions, words=st.lists(st.sampled_from(VOCABULARY), min_size=1))
    def say(self, session_id: SessionId, words: list[str]) -> Batch:
        batch = [Message.user(" ".join(words), id=MessageId(new_id()))]
        self.append_again((session_id, batch))
        return session_id, batch

    @rule(words=st.lists(st.sampled_from(VOCABULARY), min_size=1, max_size=2))
    def search(self, words: list[str]) -> None:
        wanted = SessionFilter(text=" ".join(words), limit=1000, order=SessionOrder.CREATED)
        page = self.both(lambda view: view.list(wanted))
        found = {session.id for session in page}
        for session_id, said in self.said.items():
            if any(set(words) <= set(text.split(" ")) for text in said.values()):
                assert session_id in found

    @rule(session_id=sessions, behind=st.integers(-1, 2))
    def append_as_of_a_revision(self, session_id: SessionId, behind: int) -> None:
        message = Message.user("if nothing changed", id=MessageId(new_id()))
        session = self.both(lambda view: view.get_session(session_id))
        rev = session.rev - behind if session_id in self.said else 1
        if rev < 0:
            return
        self.both(lambda view: view.append_messages(session_id, [message], expected_revision=rev))
        if behind == 0 and session_id in self.said:
            self.said[session_id][str(message.id)] = message.text

    @rule(target=streams, session_id=sessions)
    def open_stream(self, session_id: SessionId) -> Any:
        if session_id not in self.said:
            return multiple()
        message = Message.agent("", partial=True, id=MessageId(new_id()))
        opened: list[MessageStream] = [
            self.runner.run(view.open_stream(session_id, message)) for view in self.views
        ]
        self.said[session_id][str(message.id)] = ""
        return session_id, message.id, opened

    @rule(stream=streams, texts=st.lists(WORDS, min_size=1, max_size=3))
    def stream(self, stream: Streaming, texts: list[str]) -> None:
        session_id, message_id, opened = stream

        async def write(number: int) -> None:
            for text in texts:
                opened[number].write(text)
            await opened[number].drain()

        self.each(write)
        if session_id in self.said:
            self.said[session_id][message_id] += "".join(texts)

    @rule(stream=consumes(streams), last=st.just("") | WORDS)
    def end_stream(self, stream: Streaming, last: str) -> None:
        session_id, message_id, opened = stream

        async def end(number: int) -> Message:
            opened[number].write(last)
            return await opened[number].end()

        ended = self.each(end)
        if session_id in self.said:
            self.said[session_id][message_id] += last
            assert ended.text == self.said[session_id][message_id]

    @rule(target=turns, session_id=sessions, text=WORDS)
    def add_turn(self, session_id: SessionId, text: str) -> tuple[SessionId, TurnId]:
        turn_id = TurnId(new_id())
        asked = Message.user(text, id=MessageId(new_id()))
        added = self.both(
            lambda view: view.add_turn(session_id, NewTurn(instruction_summary="q", id=turn_id), said=[asked])
        )
        if not isinstance(added, Failure):
            self.said[session_id][str(asked.id)] = text
        return session_id, turn_id

    @rule(turn=turns, fails=st.booleans())
    def end_turn(self, turn: tuple[SessionId, TurnId], fails: bool) -> None:
        session_id, turn_id = turn
        if fails:
            self.both(lambda view: view.fail_turn(session_id, turn_id, TurnFailure(errors=("no",))))
        else:
            answer = TurnAnswer(agent_answer_summary="a")
            self.both(lambda view: view.complete_turn(session_id, turn_id, answer))

    @rule(session_id=sessions, patch=PATCHES)
    def patch(self, session_id: SessionId, patch: SessionPatch) -> None:
        self.both(lambda view: view.patch(session_id, patch))

    @rule(session_id=sessions)
    def retire(self, session_id: SessionId) -> None:
        self.both(lambda view: view.retire(session_id))

    @rule(session_id=sessions)
    def delete(self, session_id: SessionId) -> None:
        self.both(lambda view: view.delete(session_id))
        self.said.pop(session_id, None)

    @rule(session_id=sessions, limit=st.integers(1, 5), number=st.integers(0, 1))
    def hear_some(self, session_id: SessionId, limit: int, number: int) -> None:
        if session_id in self.said:
            self._hear(number, session_id, limit)

    @rule(session_id=sessions, cursor=st.integers(0, 12), limit=st.integers(1, 5), onwards=st.booleans())
    def read_a_page(self, session_id: SessionId, cursor: int, limit: int, onwards: bool) -> None:
        options = HistoryOptions(
            limit=limit, after=cursor if onwards else None, before=None if onwards else cursor
        )
        page = self.both(lambda view: view.get_history(session_id, options))
        if session_id in self.said:
            all_ids = list(self.said[session_id])
            wanted = all_ids[cursor:][:limit] if onwards else all_ids[: max(0, cursor - 1)][-limit:]
            assert [message.id for message in page] == wanted
            wire = self.both(lambda view: view.history_page_json(session_id, options))
            assert [each["id"] for each in msgspec.json.decode(b"[" + wire.text + b"]")] == wanted

    @rule(
        status=st.none() | st.sets(st.sampled_from(SessionStatus), min_size=1, max_size=3),
        limit=st.integers(1, 4),
        offset=st.integers(0, 3),
    )
    def list_some(self, status: set[SessionStatus] | None, limit: int, offset: int) -> None:
        wanted = SessionFilter(status=status, limit=limit, offset=offset, order=SessionOrder.CREATED)

        async def listed(view: Store) -> SessionPage:
            return msgspec.structs.replace(await view.list(wanted), next=None)  # each engine has its own

        self.both(listed)

    @invariant()
    def every_session_is_there(self) -> None:
        page = self.both(lambda view: view.list(SessionFilter(limit=1000, order=SessionOrder.CREATED)))
        assert {session.id for session in page} == set(self.said)

    def teardown(self) -> None:
        for session_id, said in self.said.items():
            self._compare(session_id, said)

    def _compare(self, session_id: SessionId, said: dict[str, str]) -> None:
        """All that is stored of a session with what was said, and with what its followers know."""
        session = self.both(lambda view: view.get_session(session_id))
        history = self.both(lambda view: view.get_history(session_id, HistoryOptions(limit=1000, after=0)))
        assert {str(message.id): message.text for message in history} == said
        assert [message.id for message in history] == list(said)
        assert [message.seq for message in history] == list(range(1, len(said) + 1))
        assert session.message_count == len(said)
        self.both(lambda view: view.list_turns(session_id))
        for number, view in enumerate(self.views):
            while self._hear(number, session_id, 1000):
                pass
            assert self.followers[number, session_id].rows == self.runner.run(state(view, session_id))

    def _hear(self, number: int, session_id: SessionId, limit: int) -> bool:
        """Have a follower hear of the next changes; whether there were any."""
        follower = self.followers[number, session_id]
        changes = self.runner.run(self.views[number].changes(session_id, follower.rev, limit=limit))
        if changes.rev > follower.rev:
            follower.apply(changes)
            return True
        return changes.more


class Failure(msgspec.Struct, frozen=True):
    kind: str
    sentence: str


def _differences(one: Any, other: Any, place: str = "") -> list[str]:
    """Where two answers differ, and how."""
    if isinstance(one, dict) and isinstance(other, dict):
        keys = [*one, *(key for key in other if key not in one)]
        return [each for key in keys for each in _differences(one.get(key), other.get(key), f"{place}.{key}")]
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        pairs = enumerate(zip(one, other, strict=True))
        return [each for index, pair in pairs for each in _differences(*pair, f"{place}[{index}]")]
    return [] if one == other else [f"{place}: {one!r} != {other!r}"]


async def _outcome(doing: Awaitable[Any]) -> Any:
    try:
        return await doing
    except HoldfastError as error:
        return Failure(type(error).__name__, str(error))


def test_both_engines_do_the_same_in_any_order(
    sqlite_url: str, postgres_url: str, monkeypatch: pytest.MonkeyPatch, trials: Trials
) -> None:
    monkeypatch.setattr(word_index, "SEARCH_SECONDS", 60)  # a busy machine is no failure
    clock = Clock()
    with asyncio.Runner() as runner:
        opened = AsyncExitStack()
        stores = tuple(
            runner.run(opened.enter_async_context(open_store(url, clock=clock)))
            for url in (sqlite_url, postgres_url)
        )
        machine = type("Machine", (AnyOrder,), {"runner": runner, "stores": stores, "clock": clock})
        try:
            run_state_machine_as_test(
                machine,
                settings=settings(
                    max_examples=trials(20, long=200),
                    stateful_step_count=trials(40, long=60),
                    suppress_health_check=list(HealthCheck),
                ),
            )
            for store in stores:
                assert runner.run(store.problems()) == []
        finally:
            runner.run(opened.aclose())
