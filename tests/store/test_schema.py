"""The schema: keys, indexes, migrations that go both ways and keep the data."""

import re
from typing import Any

import apsw
import asyncpg
import pytest

from holdfast import (
    Message,
    NewCompaction,
    NewSession,
    NewTurn,
    Principal,
    Repo,
    SessionFilter,
    SessionKey,
    Store,
    TurnAnswer,
    open_store,
)
from holdfast.errors import InvalidInput, NotADatabase, SchemaTooNew
from holdfast.store import migrate, revision, sqlite_path
from holdfast.store.migrations import HEAD
from holdfast.store.schema import DIALECTS, whole, whole_file
from holdfast.store.statements import load


async def query(url: str, sql: str) -> list[Any]:
    if url.startswith("sqlite"):
        connection = apsw.Connection(str(sqlite_path(url)))
        connection.pragma("foreign_keys", 1)
        rows: list[Any] = connection.execute(sql).fetchall()
        connection.close()
        return rows
    raw = await asyncpg.connect(url)
    try:
        return [tuple(row) for row in await raw.fetch(sql)]
    finally:
        await raw.close()


async def snapshot(url: str) -> list[Any]:
    """Everything that revision 0001 knows."""
    sessions = (
        "pk, id, key, organization, owner, agent, repo_pk, status, title, custom, created_at, updated_at"
    )
    heads, messages = (
        "session_pk, last_seq, turn_count, rev, updated_at",
        "pk, session_pk, seq, rev, id, at, body",
    )
    turns = (
        "pk, session_pk, id, sequence, rev, status, created_by, created_at, status_at, agent_answer_summary"
    )
    tables = {
        "sessions": sessions,
        "repos": "pk, id, organization, name, path, branch, last_commit, remote, scanned_at",
        "session_heads": heads,
        "messages": messages,
        "turns": turns,
    }
    return [
        await query(url, f"SELECT {columns} FROM {table} ORDER BY 1") for table, columns in tables.items()
    ]


async def populate(url: str, key: SessionKey) -> None:
    async with open_store(url) as store:
        (repo,) = await store.save_repos([Repo(name="r", path="/r")])
        await store.create_session(NewSession(repo_id=repo.id))
        await store.get_or_create(key)
        await store.append_messages(key, [Message.user("kept"), Message.agent("also kept")])
        turn = await store.add_turn(key, NewTurn(instruction_summary="q"))
        await store.complete_turn(key, turn.id, TurnAnswer(agent_answer_summary="a"))


@pytest.mark.req("STO-15", "SES-31")
async def test_opening_migrates_and_opening_again_changes_nothing(store_url: str) -> None:
    assert await revision(store_url) is None
    for _ in range(2):
        async with open_store(store_url) as store:
            assert await store.problems() == []
        assert await revision(store_url) == HEAD
    assert await migrate(store_url, HEAD) == (HEAD, HEAD)


@pytest.mark.req("SES-31")
async def test_migrations_keep_the_data_both_ways(store_url: str, key: SessionKey) -> None:
    await populate(store_url, key)
    before = await snapshot(store_url)
    for target in ("0003", "0002", "0001"):
        assert (await migrate(store_url, target))[1] == target
        assert await snapshot(store_url) == before
    assert await migrate(store_url) == ("0001", HEAD)
    assert await snapshot(store_url) == before
    async with open_store(store_url) as store:
        assert await store.problems() == []  # the counts were made anew from the sessions
        assert (await store.list(SessionFilter(limit=1))).total == 2
        assert [message.text for message in await store.get_history(key)] == ["kept", "also kept"]


@pytest.mark.req("SES-31")
async def test_a_downgrade_to_the_base_leaves_nothing_and_an_upgrade_starts_afresh(store_url: str) -> None:
    async with open_store(store_url):
        pass
    assert await migrate(store_url, "base") == (HEAD, None)
    if store_url.startswith("sqlite"):
        left = await query(store_url, "SELECT name FROM sqlite_schema WHERE name NOT LIKE 'sqlite_%'")
    else:
        left = await query(store_url, "SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
        left += await query(
            store_url, "SELECT proname FROM pg_proc WHERE pronamespace = 'public'::regnamespace"
        )
    assert left == []
    async with open_store(store_url) as store:
        assert (await store.list()).total == 0


@pytest.mark.parametrize("target", ["9999", "0000", "head", "0001; DROP TABLE sessions", ""])
async def test_a_revision_that_does_not_exist_is_refused(store_url: str, target: str) -> None:
    async with open_store(store_url):
        pass
    with pytest.raises(InvalidInput, match="no schema revision"):
        await migrate(store_url, target)
    assert await revision(store_url) == HEAD


async def test_a_newer_schema_is_not_touched(store_url: str, key: SessionKey) -> None:
    await populate(store_url, key)
    await query(store_url, "UPDATE alembic_version SET version_num = '9999'")
    before = await snapshot(store_url)
    with pytest.raises(SchemaTooNew, match="install a newer Holdfast"):
        async with open_store(store_url):
            pass
    assert await snapshot(store_url) == before


@pytest.mark.req("STO-14", "SES-29", "SES-30")
async def test_rows_without_their_session_are_refused(store: Store, store_url: str) -> None:
    insert = "INSERT INTO messages (session_pk, seq, rev, id, at, body) VALUES (77, 1, 1, {}, 0, '{{}}')"
    if store_url.startswith("sqlite"):
        with pytest.raises(apsw.ConstraintError, match="FOREIGN KEY"):
            await query(store_url, insert.format("x'00000000000000000000000000000000'"))
    else:
        with pytest.raises(asyncpg.ForeignKeyViolationError):
            await query(store_url, insert.format("'00000000-0000-0000-0000-000000000000'"))


# What each question costs is in the plan: it names the index that answers it, and no table is scanned.
PLANS = {
    "the latest messages": (
        "SELECT body FROM messages WHERE session_pk = 1 AND seq < 99 ORDER BY seq DESC LIMIT 50",
        "sqlite_autoindex_messages_2 (session_pk=? AND seq<?)",
    ),
    "messages of a time, in order": (
        load("sqlite")["history_window_before"].partition("UNION ALL")[0],
        "sqlite_autoindex_messages_2 (session_pk=? AND seq>? AND seq<?)",
    ),
    "messages of a time, late": (
        load("sqlite")["history_window_after"].partition("UNION ALL")[2].rpartition("ORDER BY")[0],
        "messages_late (session_pk=? AND at>? AND at<?)",
    ),
    "sessions by repository": (
        "SELECT pk FROM sessions WHERE organization = 'a' AND repo_pk = 1 ORDER BY pk DESC",
        "sessions_created_by_repo (organization=? AND repo_pk=?)",
    ),
    "sessions by status": (
        "SELECT pk FROM sessions WHERE organization = 'a' AND status = 'b' ORDER BY updated_at DESC, pk DESC",
        "sessions_updated_by_status (organization=? AND status=?)",
    ),
    "sessions by agent": (
        "SELECT pk FROM sessions WHERE organization = 'a' AND agent = 'm' ORDER BY updated_at DESC, pk DESC",
        "sessions_updated_by_agent (organization=? AND agent=?)",
    ),
}


@pytest.mark.req("STO-14", "SES-31", "STO-24")
@pytest.mark.parametrize("question", PLANS)
async def test_an_index_answers_in_order_without_scanning_or_sorting(sqlite_url: str, question: str) -> None:
    async with open_store(sqlite_url):
        statement, index = PLANS[question]
        sql = re.sub(r"\$\d", "5", statement)
        plan = " ".join(row[3] for row in await query(sqlite_url, f"EXPLAIN QUERY PLAN {sql}"))
    assert index in plan
    assert "SCAN" not in plan
    if "+ 0" not in sql:
        assert "TEMP B-TREE" not in plan


@pytest.mark.parametrize("dialect", DIALECTS)
def test_an_empty_database_is_made_what_all_migrations_make_of_it(dialect: str) -> None:
    """A new database begins from a file, so that nobody waits for Alembic at the first start."""
    written = whole_file(dialect).read_text()
    assert written == whole(dialect), "run: python -m holdfast.store.migrations"


@pytest.mark.req("SES-29")
async def test_a_status_or_repository_that_does_not_exist_is_refused_by_the_database(
    store: Store, store_url: str
) -> None:
    session = await store.create_session(NewSession())
    for change in ("status = 'gone'", "repo_pk = 77"):
        with pytest.raises((apsw.ConstraintError, asyncpg.IntegrityConstraintViolationError)):
            await query(store_url, f"UPDATE sessions SET {change}")
    assert await store.get_session(session.id) == session


@pytest.mark.parametrize("version", ["0001", HEAD, "0000a", "a1b2c3", None])
async def test_a_database_left_by_another_program_is_not_touched(store_url: str, version: str | None) -> None:
    await query(store_url, "CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL)")
    if version is not None:
        await query(store_url, f"INSERT INTO alembic_version VALUES ('{version}')")
    await query(store_url, "CREATE VIEW theirs AS SELECT 1 AS one")
    file = sqlite_path(store_url).read_bytes() if store_url.startswith("sqlite") else b""
    with pytest.raises(NotADatabase, match="another program"):
        async with open_store(store_url):
            pass
    with pytest.raises(NotADatabase, match="another program"):
        await migrate(store_url)
    assert await query(store_url, "SELECT one FROM theirs") == [(1,)]
    assert file == (sqlite_path(store_url).read_bytes() if file else b"")


async def test_a_revision_that_is_none_of_ours_is_said(store_url: str) -> None:
    async with open_store(store_url):
        pass
    await query(store_url, "UPDATE alembic_version SET version_num = 'a1b2c3'")
    with pytest.raises(NotADatabase, match="none of Holdfast's"):
        async with open_store(store_url):
            pass


@pytest.mark.req("SES-31")
async def test_what_an_older_schema_cannot_say_does_not_come_back_as_something_else(
    store_url: str, key: SessionKey
) -> None:
    await populate(store_url, key)
    async with open_store(store_url) as store:
        edits = {"drops": [[1, 1]]}
        fold = NewCompaction(strategy="test", first_seq=1, last_seq=2, summary="", edits=edits)
        await store.commit_compaction(key, fold)
        parent = await store.add_token(Principal("local", "ada"), "parent", "laptop")
        await store.add_token(Principal("local", "ada"), "child", "browser", parent_id=parent.id)
    await migrate(store_url, "0005")
    async with open_store(store_url) as store:
        (compaction,) = await store.list_compactions(key)
        assert compaction.undone_at is not None
        revoked = {token.label: token.revoked_at is not None for token in await store.list_tokens()}
        assert revoked == {"laptop": False, "browser": True}
        assert await store.problems() == []
