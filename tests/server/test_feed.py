"""The change feed over HTTP: however a client is cut off, it ends with what one has who never left."""

import asyncio
import random
import shutil
from contextlib import aclosing, suppress
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import pytest

from holdfast import Message, NewSession, NewTurn, Session, SessionPatch, Store, TurnAnswer, open_store
from holdfast.client import Client, EverythingCopy, Refused, SessionCopy
from holdfast.model.ids import SessionId
from holdfast.model.principal import LOCAL
from holdfast.model.question import Answer, NewQuestionSet, Question, QuestionSet
from holdfast.questions import QuestionBox
from holdfast.server import shapes
from tests.long_plugin import Trials
from tests.server.servers import (
    ON_BOTH_ENGINES,
    Organization,
    Person,
    Served,
    decoded,
    events_of,
    problem,
    project,
)
from tests.waiting import SECONDS, until


async def state(person: Person, session_id: str) -> dict[str, Any]:
    """What somebody has who reads the session afresh."""
    async with Client(person.url, person.secret) as client:
        session = await client.session(session_id)
        turns = await client.turns(session_id, limit=1000)
    return {
        "session": msgspec.structs.replace(session, messages=None),
        "messages": {message.id: message for message in session.messages or ()},
        "turns": {turn.id: turn for turn in turns.turns},
    }


def known(copy: SessionCopy) -> dict[str, Any]:
    assert copy.session is not None
    return {"session": copy.session, "messages": copy.messages, "turns": copy.turns}


def has_heard_the_end(copy: SessionCopy) -> bool:
    return any(message.content.get("text") == THE_END for message in copy.messages.values())


async def caught_up(person: Person, session_id: str, copy: SessionCopy, until: int) -> None:
    client = Client(person.url, person.secret)
    async with client, asyncio.timeout(SECONDS), aclosing(client.follow(session_id, copy.rev)) as items:
        while copy.rev < until:
            copy.apply(await anext(items))


THE_END = "the end"

MAX_CUTS = 12


class Proxy:
    """Stands between a client and the server, and cuts connections after a random number of bytes."""

    def __init__(self, target: str, chance: random.Random) -> None:
        host, port = target.removeprefix("http://").split(":")
        self._target = (host, int(port))
        self._chance = chance
        self._carrying: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self.cuts = 0

    async def __aenter__(self) -> "Proxy":
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._carrying:
            task.cancel()
        await asyncio.gather(*self._carrying, return_exceptions=True)
        await asyncio.sleep(0)  # connections are closed in the next round of the loop

    @property
    def url(self) -> str:
        assert self._server is not None
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    def _budget(self) -> int | None:
        """How many bytes a connection carries before it is cut."""
        if self.cuts < 2:
            return 200
        return self._chance.choice([200, 2000, 10_000, 50_000]) if self.cuts < MAX_CUTS else None

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._carry(reader, writer))
        self._carrying.add(task)
        task.add_done_callback(self._carrying.discard)
        task.add_done_callback(lambda _: writer.close())  # also of one that was cancelled before it began

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection(*self._target)
        sending = asyncio.create_task(_pump(reader, back, None))
        try:
            budget = self._budget()
            if await _pump(there, writer, budget):
                self.cuts += 1
        finally:
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)
            back.close()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, budget: int | None) -> bool:
    """Carry bytes until there are no more; whether the budget was used up first."""
    while data := await reader.read(1000):
        if budget is not None:
            data, budget = data[:budget], budget - len(data)
        writer.write(data)
        await writer.drain()
        if budget is not None and budget <= 0:
            return True
    return False


async def all_sorts(store: Store, session_id: str, chance: random.Random, steps: int = 80) -> int:
    """Change a session in many ways; the revision it ends at."""
    streams, turns = [], []
    for step in range(steps):
        match chance.randrange(6):
            case 0:
                await store.append_messages(session_id, [Message.user(f"{step}\n🦀")] * chance.randint(1, 3))
            case 1:
                streams.append(await store.open_stream(session_id, Message.agent("", partial=True)))
            case 2 | 3 if streams:
                chance.choice(streams).write(f'chunk "{step}"\r\n')
                await chance.choice(streams).drain()
            case 4 if streams:
                await streams.pop().end()
            case _:
                turns.append(await store.add_turn(session_id, NewTurn(instruction_summary=str(step))))
                if chance.random() < 0.5:
                    answer = TurnAnswer(agent_answer_summary=str(step))
                    await store.complete_turn(session_id, turns.pop().id, answer)
                await store.patch(session_id, SessionPatch(title=str(step)))
    for stream in streams[1:]:
        await stream.end()
    for stream in streams[:1]:
        await stream.drain()
    (last,) = await store.append_messages(session_id, [Message.user(THE_END)])
    return last.rev


@ON_BOTH_ENGINES
async def test_events_carry_revisions_and_go_on_after_the_last_one(
    store: Store, org: Organization, session: Session
) -> None:
    view = store.as_principal(org.ada.principal)
    await view.append_messages(session.id, [Message.user("one"), Message.user("two")])
    path = f"/api/sessions/{session.id}/events"
    came_back = {"Last-Event-ID": str(session.rev + 1)}
    async with org.ada.client() as client, client.stream("GET", path, headers=came_back) as response:
        assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
        assert response.headers["cache-control"] == "no-store, no-transform"
        assert response.headers["x-accel-buffering"] == "no"
        chunks = response.aiter_text()
        received = ""
        while "event: change" not in received:
            received += await anext(chunks)
        assert received.startswith("retry: ")
        ((name, identity, data),) = events_of(received)
        assert (name, identity, data["rev"]) == ("change", str(session.rev + 2), session.rev + 2)
        assert [message["content"]["text"] for message in data["messages"]] == ["two"]
        await view.patch(session.id, SessionPatch(title="three"))
        received = await anext(chunks)
        ((_, identity, data),) = events_of(received)
        assert (data["session"]["title"], identity) == ("three", str(session.rev + 3))


@ON_BOTH_ENGINES
async def test_a_long_poll_answers_with_what_changed_or_when_its_time_is_over(
    store: Store, org: Organization, session: Session
) -> None:
    path = f"/api/sessions/{session.id}/events?since={session.rev}"
    nothing = (await org.ada.get(f"{path}&wait=0")).json()
    assert (nothing["rev"], nothing["messages"]) == (session.rev, [])
    waiting = asyncio.ensure_future(org.ada.get(f"{path}&wait=30"))
    await store.as_principal(org.ada.principal).append_messages(session.id, [Message.user("here")])
    assert [message["content"]["text"] for message in (await waiting).json()["messages"]] == ["here"]


async def test_a_token_that_is_revoked_meanwhile_opens_no_answer(
    served: Served, store: Store, org: Organization, session: Session
) -> None:
    made = decoded(await org.admin.post("/api/tokens", {"user": "ada"}), shapes.NewToken)
    ada = Person(served.url, org.ada.principal, made.secret)
    path = f"/api/sessions/{session.id}/events?since={session.rev}&wait=60"
    waiting = asyncio.ensure_future(ada.get(path))

    async def is_waited() -> bool:
        return "holdfast_feed_listeners 0.0" not in (await org.admin.get("/metrics")).text

    await until(is_waited)
    assert (await org.admin.call("DELETE", f"/api/tokens/{made.token.id}")).status_code == 200
    await store.as_principal(org.ada.principal).append_messages(session.id, [Message.user("a secret")])
    assert "revoked" in problem(await waiting)["detail"]


async def test_a_feed_ends_with_the_token_that_opened_it(
    served: Served, store: Store, org: Organization, session: Session
) -> None:
    made = decoded(await org.admin.post("/api/tokens", {"user": "ada"}), shapes.NewToken)
    ada = Person(served.url, org.ada.principal, made.secret)
    path = f"/api/sessions/{session.id}/events?since={session.rev}"
    async with ada.client() as client, client.stream("GET", path) as response:
        chunks = response.aiter_text()
        await anext(chunks)
        assert (await org.admin.call("DELETE", f"/api/tokens/{made.token.id}")).status_code == 200
        await store.as_principal(org.ada.principal).append_messages(session.id, [Message.user("a secret")])
        async with asyncio.timeout(SECONDS):
            assert "a secret" not in "".join([piece async for piece in chunks])


@pytest.mark.parametrize(
    "query", ["since=-1", "since=x", "since=99999999999999999999", "wait=x", "wait=61", "no=1"]
)
async def test_a_bad_place_to_go_on_from_is_refused(org: Organization, session: Session, query: str) -> None:
    for path in (f"/api/sessions/{session.id}/events", "/api/events"):
        assert problem(await org.ada.get(f"{path}?{query}"))["status"] == 400
        bad = await org.ada.get(f"{path}?wait=0", headers={"Last-Event-ID": "yesterday"})
        assert problem(bad)["status"] == 400
        ahead = await org.ada.get(f"{path}?wait=0&since=4611686018427387904")
        assert problem(ahead)["code"] == "revision_ahead"


@ON_BOTH_ENGINES
@pytest.mark.parametrize("seed", range(3))
async def test_clients_that_are_cut_off_at_random_end_with_the_whole_state(
    store: Store, org: Organization, session: Session, seed: int, trials: Trials
) -> None:
    chance = trials.chance(seed)
    view = store.as_principal(org.ada.principal)
    copies = [SessionCopy() for _ in range(3)]
    async with Proxy(org.ada.url, chance) as proxy, asyncio.TaskGroup() as group:
        group.create_task(all_sorts(view, session.id, trials.chance(seed)))

        async def follow(copy: SessionCopy, client: Client) -> None:
            async with asyncio.timeout(SECONDS), client, aclosing(client.follow(session.id)) as items:
                while not has_heard_the_end(copy):
                    copy.apply(await anext(items))

        async def poll(copy: SessionCopy, person: Person) -> None:
            while not has_heard_the_end(copy):
                path = f"/api/sessions/{session.id}/events?since={copy.rev}&wait=5"
                copy.apply(await polled(person, path, shapes.Changes))

        through = Person(proxy.url, org.ada.principal, org.ada.secret)
        group.create_task(poll(copies[2], through))
        group.create_task(follow(copies[1], Client(proxy.url, org.ada.secret)))
        group.create_task(follow(copies[0], Client(org.ada.url, org.ada.secret)))
    assert proxy.cuts > 0
    expected = await state(org.ada, session.id)
    for copy in copies:
        assert known(copy) == expected


@pytest.mark.parametrize("seed", range(2))
async def test_followers_of_everything_that_are_cut_off_at_random_know_all_of_it_and_no_more(
    served: Served, store: Store, org: Organization, seed: int, trials: Trials
) -> None:
    chance = trials.chance(seed)
    view = store.as_principal(org.ada.principal)
    stays = await view.create_session(NewSession(title="where questions are asked"))
    copies = [EverythingCopy() for _ in range(3)]

    async def follow(copy: EverythingCopy, client: Client) -> None:
        async with client, aclosing(client.follow_all(0)) as items:
            async for item in items:
                copy.apply(item)

    async def poll(copy: EverythingCopy, person: Person) -> None:
        since, mark = 0, ""
        while True:
            path = f"/api/events?since={since}&wait=5" + (f"&questionsMark={mark}" if mark else "")
            news: shapes.ChangedEverything = await polled(person, path, shapes.ChangedEverything)
            since, mark = news.position, news.questions_mark
            copy.apply(news)
            if news.questions is not None:
                copy.apply(news.questions)

    async with Proxy(org.ada.url, chance) as proxy, Client(org.ada.url, org.ada.secret) as reader:
        through = Person(proxy.url, org.ada.principal, org.ada.secret)
        following = [
            asyncio.create_task(follow(copies[0], Client(org.ada.url, org.ada.secret))),
            asyncio.create_task(follow(copies[1], Client(proxy.url, org.ada.secret))),
            asyncio.create_task(poll(copies[2], through)),
        ]
        try:
            await everything_happens(view, served.questions, stays.id, trials.chance(seed))
            sessions = {each.id: each for each in (await reader.sessions(limit=1000)).sessions}
            questions = {each.id: each for each in await reader.questions()}
            assert sessions
            assert questions

            async def all_know() -> bool:
                return all((copy.sessions, copy.questions) == (sessions, questions) for copy in copies)

            await until(all_know)
        finally:
            for each in following:
                each.cancel()
            ended = await asyncio.gather(*following, return_exceptions=True)
        assert [type(each) for each in ended] == [asyncio.CancelledError] * 3
    assert proxy.cuts > 0


async def everything_happens(
    view: Store, directory: Path, session_id: SessionId, chance: random.Random, steps: int = 60
) -> None:
    """Sessions come, change and go, and so do questions."""
    box = QuestionBox(directory)
    new = NewQuestionSet(questions=(Question(prompt="Which?", title="Choice"),), session_id=session_id)
    answer = Answer(question_index=0, custom_text="This one")
    made: list[Session] = []
    pending: list[QuestionSet] = []
    settled: list[QuestionSet] = []
    for step in range(steps):
        match chance.randrange(7):
            case 0 if len(made) > 3:
                await view.delete(made.pop(chance.randrange(len(made))).id)
            case 1 | 2 if made:
                await view.patch(chance.choice(made).id, SessionPatch(title=str(step)))
            case 3 | 4:
                pending.append(await box.ask(new))
            case 5 if len(pending) > 1:
                settled.append(await box.answer(pending.pop().id, [answer], by="ada", door="test"))
            case 6 if len(settled) > 1:
                shutil.rmtree(directory / settled.pop().id)
            case _:
                made.append(await view.create_session(NewSession(title=str(step))))
    await view.create_session(NewSession(title=THE_END))


async def polled(person: Person, path: str, shape: type[Any]) -> Any:
    """The answer to a long poll, asked for again when the connection was cut."""
    while True:
        with suppress(httpx2.TransportError):
            return decoded(await person.get(path), shape)


async def test_a_question_that_is_asked_meanwhile_answers_a_long_poll(
    served: Served, org: Organization, session: Session
) -> None:
    first = decoded(await org.ada.get("/api/events?wait=0"), shapes.ChangedEverything)
    assert first.questions == shapes.ChangedQuestions(questions=(), gone=(), is_all=True)
    path = f"/api/events?since={first.position}&questionsMark={first.questions_mark}"
    nothing = decoded(await org.ada.get(f"{path}&wait=0"), shapes.ChangedEverything)
    assert (nothing.questions, nothing.questions_mark) == (None, first.questions_mark)
    waiting = asyncio.ensure_future(org.ada.get(f"{path}&wait=60"))
    new = NewQuestionSet(questions=(Question(prompt="Which?", title="Choice"),), session_id=session.id)
    asked = await QuestionBox(served.questions).ask(new)
    news = decoded(await waiting, shapes.ChangedEverything)
    assert [each.id for each in news.questions.questions] == [asked.id]


@pytest.mark.usefixtures("process")
async def test_a_client_survives_the_servers_death(tmp_path: Path, own_store: dict[str, str]) -> None:
    served = Served(tmp_path, **own_store)
    served.repository()
    served.start()
    port = int(served.url.rsplit(":", 1)[1])
    copy = SessionCopy()
    person = Person(served.url, LOCAL, served.presence.token)
    async with open_store(served.store_url) as store, Client(served.url, served.presence.token) as client:
        session = await store.create_session(NewSession())
        async with aclosing(client.follow(session.id)) as items:
            for round_ in range(3):
                writing = asyncio.create_task(all_sorts(store, session.id, random.Random(round_), steps=30))
                copy.apply(await anext(items))
                assert served.process is not None
                served.process.kill()
                # This process writes meanwhile, and must not stop in the middle of a transaction.
                await asyncio.to_thread(served.stop)
                await asyncio.to_thread(served.start, port)
                last = await writing
                async with asyncio.timeout(SECONDS):
                    while copy.rev < last:
                        copy.apply(await anext(items))
                assert known(copy) == await state(person, session.id)
    assert served.stop() == 0


@pytest.mark.usefixtures("process")
async def test_following_ends_also_when_the_session_went_while_the_server_was_away(tmp_path: Path) -> None:
    served = Served(tmp_path)
    served.start()
    port = int(served.url.rsplit(":", 1)[1])
    async with open_store(served.store_url) as store, Client(served.url, served.presence.token) as client:
        session = await store.create_session(NewSession())
        async with aclosing(client.follow(session.id)) as items:
            await anext(items)
            await asyncio.to_thread(served.stop)
            await store.delete(session.id)
            await asyncio.to_thread(served.start, port)
            assert await anext(items, None) is None
        with pytest.raises(Refused):
            await anext(client.follow(session.id))
    assert served.stop() == 0


@ON_BOTH_ENGINES
async def test_a_reader_that_does_not_read_slows_nobody_and_catches_up(
    store: Store, org: Organization, session: Session
) -> None:
    view = store.as_principal(org.ada.principal)
    slow, quick = SessionCopy(), SessionCopy()
    client = Client(org.ada.url, org.ada.secret)
    async with client, aclosing(client.follow(session.id)) as items:
        slow.apply(await anext(items))
        for number in range(400):  # far more than sockets and the server keep for one who does not read
            await view.append_messages(session.id, [Message.user(f"{number} " + "x" * 50_000)])
        last = (await view.get_session(session.id)).rev
        await caught_up(org.ada, session.id, quick, last)
        async with asyncio.timeout(SECONDS):
            while slow.rev < last:
                slow.apply(await anext(items))
    assert known(slow) == known(quick) == await state(org.ada, session.id)


@ON_BOTH_ENGINES
async def test_everything_a_caller_may_see_is_one_feed(
    served: Served, store: Store, org: Organization, other: Organization
) -> None:
    view = store.as_principal(org.ada.principal)
    async with Client(org.ada.url, org.ada.secret) as client, aclosing(client.follow_all()) as items:
        first = await anext(items)
        assert isinstance(first, shapes.ChangedSessions)
        assert (first.sessions, first.deleted) == ((), ())
        nothing_asked = shapes.ChangedQuestions(questions=(), gone=(), is_all=True)
        assert await anext(items) == nothing_asked
        await store.as_principal(other.ada.principal).create_session(NewSession())
        session = await view.create_session(NewSession(title="mine"))

        async def heard(kind: type[Any]) -> Any:
            async with asyncio.timeout(SECONDS):
                while True:
                    item = await anext(items)
                    if isinstance(item, kind) and item not in (first, nothing_asked):
                        return item

        assert [each.id for each in (await heard(shapes.ChangedSessions)).sessions] == [session.id]
        new = NewQuestionSet(questions=(Question(prompt="Which?", title="Choice"),), session_id=session.id)
        asked = await QuestionBox(served.questions).ask(new)
        assert [each.id for each in (await heard(shapes.ChangedQuestions)).questions] == [asked.id]
        await view.delete(session.id)
        gone = await heard(shapes.ChangedSessions)
        assert gone.deleted == (session.id,)
    polled = await org.ada.get(f"/api/events?since={first.position}&wait=0")
    assert polled.json()["deleted"] == [session.id]


async def test_a_feed_ends_when_its_session_is_gone_or_hidden(
    store: Store, org: Organization, session: Session
) -> None:
    view = store.as_principal(org.ada.principal)
    await view.patch(session.id, SessionPatch(is_public=True))
    async with Client(org.bob.url, org.bob.secret) as client, aclosing(client.follow(session.id)) as items:
        await anext(items)
        await view.patch(session.id, SessionPatch(is_public=False))
        assert await anext(items, None) is None
    async with Client(org.ada.url, org.ada.secret) as client, aclosing(client.follow(session.id)) as items:
        await anext(items)
        await view.delete(session.id)
        assert await anext(items, None) is None


@pytest.mark.usefixtures("process")
async def test_the_server_stops_cleanly_although_somebody_listens(tmp_path: Path) -> None:
    served = Served(tmp_path)
    served.repository()
    served.start()
    person = Person(served.url, LOCAL, served.presence.token)
    repo = await project(person)
    session = (await person.post("/api/sessions", {"repoId": repo["id"], "agent": "demo"})).json()
    path = f"/api/sessions/{session['id']}/events"
    async with person.client() as client, client.stream("GET", path) as response:
        chunks = response.aiter_text()
        await anext(chunks)
        assert await asyncio.to_thread(served.stop) == 0
        async for _ in chunks:
            pass
    async with open_store(served.store_url) as store:
        ended = await store.get_session(session["id"])
        assert (ended.status, ended.status_reason) == ("cancelled", "shutdown")
    assert "Traceback" not in served.complaints()
