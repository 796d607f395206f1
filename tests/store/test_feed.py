"""Following: whoever is cut off and comes back ends with exactly what one has who never left."""

import asyncio
import random
from contextlib import aclosing

import pytest

from holdfast import (
    ChangedSessions,
    Message,
    NewCompaction,
    NewSession,
    NewTurn,
    Principal,
    Repo,
    SessionKey,
    SessionPatch,
    SessionStatus,
    Store,
    ToolContent,
    TurnAnswer,
    open_store,
)
from holdfast.errors import InvalidInput, SessionNotFound
from holdfast.model.ids import SessionId, TurnId
from holdfast.store.feed import PAGE, RevisionAhead
from holdfast.store.streams import MessageStream
from tests.long_plugin import Trials
from tests.store.faults.processes import worker
from tests.store.faults.worker import shared_key
from tests.store.followers import Follower, state
from tests.waiting import SECONDS

THE_END = "the end"


@pytest.fixture(autouse=True)
async def _not_for_ever() -> None:
    """A follower that is never woken fails its test in time to say so."""
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().call_later(SECONDS, task.cancel)


async def test_a_follower_gets_what_was_there_and_then_each_change(store: Store, key: SessionKey) -> None:
    session = await store.get_or_create(key)
    await store.append_messages(key, [Message.user("before")])
    async with aclosing(store.follow(key)) as items:
        past = await anext(items)
        assert [message.text for message in past.messages] == ["before"]
        await store.append_messages(key, [Message.user("now")])
        assert [message.text for message in (await anext(items)).messages] == ["now"]
        await store.patch(session.id, SessionPatch(title="renamed"))
        renamed = await anext(items)
        assert (renamed.session.title, renamed.messages) == ("renamed", [])
        turn = await store.add_turn(key, NewTurn(instruction_summary="go"))
        assert (await anext(items)).turns == [turn]


async def test_a_follower_hears_that_the_repository_is_forgotten(store: Store) -> None:
    (repo,) = await store.save_repos([Repo(name="a", path="/a")])
    assert repo.id is not None
    session = await store.create_session(NewSession(repo_id=repo.id))
    async with aclosing(store.follow(session.id)) as items, aclosing(store.follow_all()) as every:
        assert (await anext(items)).session.repo_id == repo.id
        await anext(every)
        await store.delete_repo(repo.id)
        assert (await anext(items)).session.repo_id is None
        listed = await anext(every)
        assert [(each.id, each.repo_id) for each in listed.sessions] == [(session.id, None)]


async def test_a_follower_hears_nothing_of_other_sessions(store: Store, key: SessionKey) -> None:
    session = await store.get_or_create(key)
    other = await store.create_session(NewSession())
    async with aclosing(store.follow(key, session.rev)) as items:
        waiting = asyncio.ensure_future(anext(items))
        await store.append_messages(other.id, [Message.user("elsewhere")])
        (said,) = await store.append_messages(key, [Message.user("here")])
        assert (await waiting).messages == [said]


async def test_streaming_text_travels_once_while_a_follower_listens(store: Store, key: SessionKey) -> None:
    await store.get_or_create(key)
    stream = await store.open_stream(key, Message.agent("", partial=True))
    follower = Follower()
    async with aclosing(store.follow(key)) as items:
        follower.apply(await anext(items))
        for number in range(50):
            stream.write(f"piece {number} 🦀\n")
            await stream.drain()
            while follower.rev < (await store.get_session(key)).rev:
                follower.apply(await anext(items))
            assert follower.rows == await state(store, key)
    assert follower.text_received == len((await stream.end()).text)


async def test_one_who_comes_back_gets_a_streaming_message_as_it_stands(
    store: Store, key: SessionKey
) -> None:
    await store.get_or_create(key)
    stream = await store.open_stream(key, Message.agent("", partial=True))
    stream.write("one ")
    await stream.drain()
    follower = Follower()
    await follower.follow(store, key, until=(await store.get_session(key)).rev)
    stream.write("two ")
    await stream.drain()
    async with aclosing(store.follow(key, follower.rev)) as items:
        back = await anext(items)
        assert ([message.text for message in back.messages], back.deltas) == (["one two "], [])
        stream.write("three")
        await stream.drain()
        more = await anext(items)
        assert ([delta.text for delta in more.deltas], more.messages) == (["three"], [])
        final = await stream.end()
        assert (await anext(items)).messages == [final]


@pytest.mark.parametrize("seed", range(6))
async def test_cuts_at_any_moment_end_with_the_state_of_one_who_never_left(
    store: Store, key: SessionKey, seed: int, trials: Trials
) -> None:
    chance = trials.chance(seed)
    await store.get_or_create(key)
    steady = Follower()
    cut_off = [Follower() for _ in range(3)]
    async with aclosing(store.follow(key)) as items, asyncio.TaskGroup() as group:
        writing = group.create_task(_write_all_sorts(store, key, random.Random(chance.random())))
        followers = [
            group.create_task(_follow_with_cuts(store, key, each, random.Random(chance.random())))
            for each in cut_off
        ]
        last = await writing
        while steady.rev < last:
            steady.apply(await anext(items))
        await asyncio.gather(*followers)
    expected = await state(store, key)
    session = await store.get_session(key)
    for follower in [steady, *cut_off]:
        assert follower.rows == expected
        assert follower.session == session


async def test_a_follower_that_lags_far_behind_catches_up_in_pages(store: Store, key: SessionKey) -> None:
    await store.get_or_create(key)
    follower = Follower()
    async with aclosing(store.follow(key)) as items:
        follower.apply(await anext(items))
        for _ in range(5):
            await store.append_messages(key, [Message.user(str(number)) for number in range(PAGE)])
        last = (await store.get_session(key)).rev
        while follower.rev < last:
            page = await anext(items)
            assert len(page.messages) <= PAGE
            follower.apply(page)
    assert follower.rows == await state(store, key)


@pytest.mark.parametrize("is_known", [True, False], ids=["known before", "in the page"])
async def test_pages_that_one_has_reached_otherwise_hold_nothing_that_is_later(
    store: Store, key: SessionKey, is_known: bool
) -> None:
    created = await store.get_or_create(key)
    stream = await store.open_stream(key, Message.agent("", partial=True))
    stream.write("a")
    await stream.drain()
    async with aclosing(store.follow(key, created.rev)) as items:
        if is_known:
            await anext(items)
        await store.append_messages(key, [Message.user(str(number)) for number in range(PAGE + 50)])
        other = Follower()
        await other.follow(store, key, until=(await store.get_session(key)).rev)
        for text in ("b", "c"):
            stream.write(text)
            await stream.drain()
            last = (await store.get_session(key)).rev
            while other.rev < last:
                page = await anext(items)
                if page.rev > other.rev:
                    other.apply(page)
            assert other.rows == await state(store, key)


@pytest.mark.usefixtures("process")
async def test_changes_of_another_process_are_noticed_also_after_it_was_killed(store_url: str) -> None:
    async with open_store(store_url) as store:
        session = await store.get_or_create(shared_key())
        follower = Follower()
        async with (
            worker("live", store_url, tasks=4, sessions=1, seed=1) as other,
            aclosing(store.follow(session.id)) as items,
        ):
            while len(follower.rows) < 100:
                follower.apply(await anext(items))
            await other.kill()
        async with open_store(store_url):  # closes what the killed process was saying
            await follower.follow(store, session.id, until=(await store.get_session(session.id)).rev)
            assert follower.rows == await state(store, session.id)


async def test_following_ends_when_the_session_is_deleted(store: Store, key: SessionKey) -> None:
    session = await store.get_or_create(key)
    async with aclosing(store.follow(key, session.rev)) as items:
        waiting = asyncio.ensure_future(anext(items))
        await store.delete(key)
        with pytest.raises(SessionNotFound):
            await waiting


async def test_following_ends_when_the_store_is_closed(store_url: str, key: SessionKey) -> None:
    async with open_store(store_url) as store:
        session = await store.get_or_create(key)
        all_sessions = store.follow_all()
        await anext(all_sessions)
        following = [
            asyncio.ensure_future(anext(items, "ended"))
            for items in (store.follow(key, session.rev), all_sessions)
        ]
    assert "ended" in await asyncio.gather(*following, return_exceptions=True)


async def test_a_revision_that_a_session_never_had_is_refused(store: Store, key: SessionKey) -> None:
    await store.get_or_create(key)
    with pytest.raises(RevisionAhead):
        await anext(store.follow(key, 1_000))
    with pytest.raises(InvalidInput):
        await anext(store.follow(key, -1))
    with pytest.raises(RevisionAhead):
        await anext(store.follow_all(1_000))
    with pytest.raises(InvalidInput):
        await anext(store.follow_all(-1))


async def test_a_session_that_is_not_visible_cannot_be_followed(store: Store, key: SessionKey) -> None:
    session = await store.get_or_create(key)
    with pytest.raises(SessionNotFound):
        await anext(store.as_principal(Principal("other", "somebody")).follow(session.id))


async def test_a_follower_of_all_sessions_hears_which_came_changed_and_went(
    store: Store, key: SessionKey
) -> None:
    async with aclosing(store.follow_all()) as items:
        now = await anext(items)
        assert (now.sessions, now.deleted) == ([], [])
        session = await store.get_or_create(key)
        assert [each.id for each in (await anext(items)).sessions] == [session.id]
        changed = await store.patch(key, SessionPatch(status=SessionStatus.COMPLETED))
        assert (await anext(items)).sessions == [changed]
        await store.delete(key)
        gone = await anext(items)
        assert (gone.sessions, gone.deleted) == ([], [session.id])


async def test_a_position_outlives_the_process_and_nothing_is_missed(store_url: str) -> None:
    known: dict[SessionId, int] = {}
    async with open_store(store_url) as store:
        position = (await anext(store.follow_all())).position
    for round_ in range(3):
        async with open_store(store_url) as store:
            created = [await store.create_session(NewSession()) for _ in range(3)]
            for session in created[: round_ + 1]:
                await store.append_messages(session.id, [Message.user("hello")])
            if round_ == 1:
                await store.delete(created[2].id)
            expected = {session.id: session.rev for session in (await store.list()).sessions}
        async with open_store(store_url) as store, aclosing(store.follow_all(position)) as items:
            while known != expected:
                position = _learn(known, await anext(items))


@pytest.mark.usefixtures("process")
async def test_the_sessions_of_another_process_that_was_killed_are_heard_of(store_url: str) -> None:
    async with open_store(store_url) as store:
        position = (await anext(store.follow_all())).position
        async with worker("live", store_url, tasks=2, sessions=3, seed=2) as other:
            while "session" not in (await other.report() or {}):
                pass
            await other.kill()
        known: dict[SessionId, int] = {}
        expected = {session.id: session.rev for session in (await store.list()).sessions}
        async with aclosing(store.follow_all(position)) as items:
            while known != expected:
                _learn(known, await anext(items))


async def test_a_member_hears_only_of_their_own_sessions(store: Store, key: SessionKey) -> None:
    ada = store.as_principal(Principal("local", "ada"))
    async with aclosing(ada.follow_all()) as items:
        await anext(items)
        others = await store.get_or_create(key)
        own = await ada.create_session(NewSession())
        heard = (await anext(items)).sessions
        assert [session.id for session in heard] == [own.id]
        await store.delete(others.id)
        await ada.delete(own.id)
        assert (await anext(items)).deleted == [own.id]


def _learn(known: dict[SessionId, int], changed: ChangedSessions) -> int:
    known |= {session.id: session.rev for session in changed.sessions}
    for session_id in changed.deleted:
        known.pop(session_id, None)
    return changed.position


async def _follow_with_cuts(store: Store, key: SessionKey, follower: Follower, chance: random.Random) -> None:
    """Follow, be cut off after a few items, come back, until the end was heard."""
    while not follower.has_heard(THE_END):
        async with aclosing(store.follow(key, follower.rev)) as items:
            for _ in range(chance.randrange(1, 8)):
                if not follower.has_heard(THE_END):
                    follower.apply(await anext(items))


async def _write_all_sorts(store: Store, key: SessionKey, chance: random.Random) -> int:
    """Change the session in every way there is; the revision it ends at."""
    streams: list[MessageStream] = []
    tools: list[Message] = []
    pending: list[TurnId] = []
    for step in range(80):
        match chance.randrange(9):
            case 0:
                count = chance.randrange(1, 6)
                await store.append_messages(key, [Message.user(f"{step}.{n}") for n in range(count)])
            case 1:
                streams.append(await store.open_stream(key, Message.agent("", partial=True)))
            case 2 | 3 | 4 if streams:
                stream = chance.choice(streams)
                stream.write(f'chunk "{step}"\n\0🦀')
                if chance.random() < 0.7:
                    await stream.drain()
            case 5 if streams:
                await streams.pop(chance.randrange(len(streams))).end()
            case 6:
                pending.append((await store.add_turn(key, NewTurn(instruction_summary=str(step)))).id)
            case 7 if pending:
                await store.complete_turn(key, pending.pop(0), TurnAnswer(agent_answer_summary=str(step)))
            case 8 if tools and (tool := tools.pop()).id:
                await store.revise_message(key, tool.id, ToolContent(tool="t", args={}, status="completed"))
            case _:
                content = ToolContent(tool="t", args={"step": step}, status="pending")
                tools += await store.append_messages(key, [Message.of("system", content)])
                await store.patch(key, SessionPatch(title=str(step)))
                fold = NewCompaction(first_seq=1, last_seq=1, strategy="s", summary=str(step))
                await store.commit_compaction(key, fold)
    for stream in streams[1:]:
        await stream.end()
    for stream in streams[:1]:
        await stream.drain()
    (last,) = await store.append_messages(key, [Message.user(THE_END)])
    return last.rev
