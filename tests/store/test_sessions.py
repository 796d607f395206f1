"""Sessions: created once per key, patched, deleted with everything in them."""

import asyncio
from pathlib import Path

import pytest

from holdfast import (
    Message,
    NewSession,
    NewTurn,
    PeerKind,
    Repo,
    SessionKey,
    SessionPatch,
    SessionStatus,
    Store,
    TokenUsage,
    open_store,
)
from holdfast.errors import (
    Conflict,
    InvalidInput,
    InvalidTransition,
    NotFound,
    RevisionConflict,
    SessionNotFound,
)
from holdfast.model.ids import SessionId
from holdfast.store.ids import new_id
from tests.store.conftest import Clock


@pytest.mark.req("STO-01", "STO-11")
async def test_a_key_gives_the_same_session_every_time(store: Store, key: SessionKey) -> None:
    first = await store.get_or_create(key)
    again = await store.get_or_create(key)
    assert again == first
    assert first.key == key
    assert (first.status, first.message_count, first.turn_count) == (SessionStatus.ACTIVE, 0, 0)
    assert first.token_usage == TokenUsage(0, 0)
    assert (first.title, first.last_model, first.compaction_count, first.custom) == (None, None, 0, {})
    assert first.created_at == first.updated_at


@pytest.mark.req("STO-01")
async def test_racing_callers_of_one_key_get_one_session(store: Store, key: SessionKey) -> None:
    sessions = await asyncio.gather(*(store.get_or_create(key) for _ in range(64)))
    assert len({session.id for session in sessions}) == 1
    assert (await store.list()).total == 1


@pytest.mark.req("STO-01")
@pytest.mark.parametrize(
    "other",
    [
        SessionKey("other", "irc", "bot", PeerKind.GROUP, "#holdfast"),
        SessionKey("main", "slack", "bot", PeerKind.GROUP, "#holdfast"),
        SessionKey("main", "irc", "bot2", PeerKind.GROUP, "#holdfast"),
        SessionKey("main", "irc", "bot", PeerKind.CHANNEL, "#holdfast"),
        SessionKey("main", "irc", "bot", PeerKind.GROUP, "#other"),
        SessionKey("main", "irc", "bot", PeerKind.GROUP, "#holdfast", "thread"),
    ],
)
async def test_every_part_of_a_key_counts(store: Store, key: SessionKey, other: SessionKey) -> None:
    assert (await store.get_or_create(key)).id != (await store.get_or_create(other)).id


@pytest.mark.req("SES-01", "SES-29", "EXE-09")
async def test_a_new_session_is_stored_with_its_fields_and_survives_a_restart(store_url: str) -> None:
    async with open_store(store_url) as store:
        (repo,) = await store.save_repos([Repo(name="demo", path="/repos/demo")])
        created = await store.create_session(
            NewSession(
                agent="gemini",
                repo_id=repo.id,
                title="Fix the parser",
                description="It loops",
                category="bugs",
                is_public=True,
                is_draft=True,
                agent_context_id="ctx-1",
                conversation_context_id="conv-1",
                workspace_id="laptop",
                repo_name="demo",
                default_language="python",
                custom={"priority": 3},
            )
        )
        assert created.id[14] == "7"  # a UUIDv7
    async with open_store(store_url) as store:
        found = await store.get_session(created.id)
    assert found == created
    assert (found.repo_id, found.status, found.agent) == (repo.id, SessionStatus.ACTIVE, "gemini")
    assert (found.organization, found.owner) == ("local", "local")
    assert (found.title, found.name, found.description) == ("Fix the parser", "Fix the parser", "It loops")
    assert (found.category, found.is_public, found.is_draft, found.is_deleted) == ("bugs", True, True, False)
    assert (found.stars, found.ratings_count) == (0.0, 0)
    assert (found.agent_context_id, found.conversation_context_id) == ("ctx-1", "conv-1")
    assert (found.workspace_id, found.repo_name, found.default_language) == ("laptop", "demo", "python")
    assert found.custom == {"priority": 3}


async def test_a_session_opened_here_has_a_key_of_our_own_channel(store: Store) -> None:
    session = await store.create_session(NewSession(agent="gemini"))
    assert session.key == SessionKey("gemini", "holdfast", "local", PeerKind.CHANNEL, session.id)
    assert await store.get_session(session.key) == session


@pytest.mark.req("SES-29")
async def test_an_unknown_repository_is_refused_and_nothing_is_created(store: Store) -> None:
    with pytest.raises(NotFound, match="repository"):
        await store.create_session(NewSession(repo_id=new_id()))  # type: ignore[arg-type]
    assert (await store.list()).total == 0


async def test_a_second_session_with_the_same_key_or_id_is_refused(store: Store, key: SessionKey) -> None:
    first = await store.create_session(NewSession(key=key))
    with pytest.raises(Conflict, match="already a session"):
        await store.create_session(NewSession(key=key))
    with pytest.raises(Conflict):
        await store.create_session(NewSession(id=first.id))
    assert (await store.list()).total == 1


async def test_a_key_of_another_agent_is_refused(store: Store, key: SessionKey) -> None:
    with pytest.raises(InvalidInput, match="agent 'main'"):
        await store.create_session(NewSession(agent="other", key=key))


@pytest.mark.req("STO-05", "STO-11")
async def test_a_patch_changes_what_it_names_and_nothing_else(store: Store, key: SessionKey) -> None:
    before = await store.get_or_create(key, NewSession(title="old", custom={"a": 1, "b": 2}))
    after = await store.patch(
        key,
        SessionPatch(
            title="new", last_model="m-1", add_usage=TokenUsage(10, 20), custom={"b": None, "c": 3}, stars=4.5
        ),
    )
    assert (after.title, after.last_model, after.stars) == ("new", "m-1", 4.5)
    assert after.token_usage == TokenUsage(10, 20)
    assert after.custom == {"a": 1, "c": 3}
    assert after.rev == before.rev + 1
    assert (await store.patch(key, SessionPatch(add_usage=TokenUsage(1, 1)))).token_usage == TokenUsage(
        11, 21
    )
    assert (await store.patch(key, SessionPatch(title=None))).title is None
    assert (await store.get_session(key)).last_model == "m-1"


@pytest.mark.req("STO-05")
async def test_an_empty_patch_changes_nothing(store: Store, key: SessionKey) -> None:
    before = await store.get_or_create(key)
    assert await store.patch(key, SessionPatch()) == before


@pytest.mark.req("STO-05", "STO-04")
async def test_a_missing_session_is_an_error_everywhere(store: Store, key: SessionKey) -> None:
    for call in (
        store.get_session(key),
        store.get_session(SessionId(new_id())),
        store.patch(key, SessionPatch(title="x")),
        store.append_messages(key, [Message.user("x")]),
        store.append_messages(key, []),
        store.get_history(key),
        store.delete(key),
        store.changes(key, 0),
        store.add_turn(key, NewTurn(instruction_summary="x")),
    ):
        with pytest.raises(SessionNotFound, match="No session"):
            await call


@pytest.mark.req("STO-12", "STO-05")
async def test_statuses_follow_the_table(store: Store, key: SessionKey) -> None:
    await store.get_or_create(key)
    for status in (SessionStatus.IDLE, SessionStatus.COMPACTED, SessionStatus.ACTIVE, SessionStatus.ARCHIVED):
        assert (await store.patch(key, SessionPatch(status=status))).status is status
    archived = await store.get_session(key)
    assert archived.archived_from is SessionStatus.ACTIVE
    back = await store.patch(key, SessionPatch(status=SessionStatus.ACTIVE))
    assert (back.status, back.archived_from) == (SessionStatus.ACTIVE, None)


async def test_a_reason_is_kept_with_its_status_and_goes_with_it(store: Store, key: SessionKey) -> None:
    await store.get_or_create(key)
    ended = await store.patch(
        key, SessionPatch(status=SessionStatus.CANCELLED, status_reason="server_restart")
    )
    assert ended.status_reason == "server_restart"
    assert (await store.patch(key, SessionPatch(status=SessionStatus.ACTIVE))).status_reason is None


@pytest.mark.req("STO-12")
async def test_a_refused_status_change_changes_nothing(store: Store, key: SessionKey) -> None:
    await store.get_or_create(key)
    failed = await store.patch(key, SessionPatch(status=SessionStatus.ERROR, status_reason="crash"))
    with pytest.raises(InvalidTransition):
        await store.patch(key, SessionPatch(status=SessionStatus.ACTIVE, title="alive"))
    assert await store.get_session(key) == failed


@pytest.mark.req("STO-05")
async def test_a_patch_of_another_revision_is_refused(store: Store, key: SessionKey) -> None:
    session = await store.get_or_create(key)
    await store.append_messages(key, [Message.user("meanwhile")])
    with pytest.raises(RevisionConflict) as conflict:
        await store.patch(key, SessionPatch(title="x"), expected_revision=session.rev)
    assert (conflict.value.expected, conflict.value.current) == (session.rev, session.rev + 1)
    assert (await store.get_session(key)).title is None


@pytest.mark.req("STO-06")
async def test_delete_removes_the_session_and_everything_in_it(store: Store, key: SessionKey) -> None:
    await store.get_or_create(key)
    other = await store.create_session(NewSession())
    await store.append_messages(other.id, [Message.user("stays")])
    await store.append_messages(key, [Message.user(f"{n}") for n in range(100)])
    await store.add_turn(key, NewTurn(instruction_summary="x"))
    stream = await store.open_stream(key, Message.agent("", partial=True))
    stream.write("half")
    await stream.drain()
    await store.delete(key)
    with pytest.raises(SessionNotFound):
        await store.get_session(key)
    assert [session.id for session in await store.list()] == [other.id]
    assert await store.pending_turns() == []
    assert [message.text for message in await store.get_history(other.id)] == ["stays"]
    fresh = await store.get_or_create(key)
    assert (fresh.message_count, (await store.get_history(key)).messages) == (0, [])


@pytest.mark.req("STO-11")
async def test_updated_at_is_the_last_activity_and_never_goes_back(
    store_url: str, key: SessionKey, clock: Clock
) -> None:
    async with open_store(store_url, clock=clock) as store:
        created = await store.get_or_create(key)
        clock.now += 5_000
        await store.append_messages(key, [Message.user("later")])
        later = await store.get_session(key)
        assert (later.updated_at - created.updated_at).total_seconds() == 5
        clock.now -= 60_000
        await store.append_messages(key, [Message.user("the clock was set back")])
        assert (await store.get_session(key)).updated_at == later.updated_at
        assert [message.text for message in await store.get_history(key)] == [
            "later",
            "the clock was set back",
        ]


async def test_a_reopened_store_shows_what_a_crash_had_not_yet_indexed(
    store_url: str, key: SessionKey, clock: Clock
) -> None:
    async with open_store(store_url, clock=clock) as store:
        early = await store.get_or_create(key)
        clock.now += 1_000
        await store.create_session(NewSession())
        clock.now += 1_000
        await store.append_messages(key, [Message.user("now the newest")])
    async with open_store(store_url, clock=clock) as store:
        assert (await store.list()).sessions[0].id == early.id


def test_the_database_file_is_where_the_url_says(sqlite_url: str, tmp_path: Path) -> None:
    async def touch() -> None:
        async with open_store(sqlite_url):
            pass

    asyncio.run(touch())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["holdfast.db", "holdfast.db-lock"]
