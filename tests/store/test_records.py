"""Compactions, repositories, tokens, audit entries."""

from datetime import UTC, datetime, timedelta

import pytest

from holdfast import (
    Message,
    NewCompaction,
    Principal,
    PrincipalRole,
    Repo,
    SessionKey,
    Store,
    open_store,
)
from holdfast.errors import Conflict, InvalidInput, NotFound, RevisionConflict
from holdfast.model.ids import CompactionId
from holdfast.store.ids import new_id
from tests.store.conftest import Clock


async def test_a_compaction_is_recorded_counted_and_undone_and_the_originals_stay(
    store: Store, key: SessionKey
) -> None:
    await store.get_or_create(key)
    said = await store.append_messages(key, [Message.user(str(number)) for number in range(10)])
    fold = NewCompaction(
        first_seq=1,
        last_seq=8,
        strategy="summarize",
        summary="eight things",
        params={"keep": 2},
        tokens_before=800,
        tokens_after=50,
        tokenizer="o200k",
    )
    first = await store.commit_compaction(key, fold, expected_revision=said[-1].rev)
    second = await store.commit_compaction(
        key, NewCompaction(first_seq=1, last_seq=9, strategy="s", summary="nine", parent_id=first.id)
    )
    assert [*await store.list_compactions(key)] == [first, second]
    assert (first.params, first.tokens_before, first.tokens_after, first.tokenizer) == (
        {"keep": 2},
        800,
        50,
        "o200k",
    )
    assert (first.summary, first.undone_at, second.parent_id) == ("eight things", None, first.id)
    undone = await store.undo_compaction(key, second.id)
    assert undone.undone_at is not None
    assert await store.undo_compaction(key, second.id) == undone
    session = await store.get_session(key)
    assert session.compaction_count == 2
    assert (await store.get_history(key)).messages == said


async def test_a_fold_of_what_is_not_there_is_refused_and_nothing_is_counted(
    store: Store, key: SessionKey
) -> None:
    session = await store.get_or_create(key)
    (said,) = await store.append_messages(key, [Message.user("one")])
    with pytest.raises(InvalidInput, match="has 1 messages"):
        await store.commit_compaction(key, NewCompaction(first_seq=1, last_seq=2, strategy="s", summary="x"))
    with pytest.raises(InvalidInput, match="not a range"):
        NewCompaction(first_seq=0, last_seq=1, strategy="s", summary="x")
    with pytest.raises(RevisionConflict):
        await store.commit_compaction(
            key,
            NewCompaction(first_seq=1, last_seq=1, strategy="s", summary="x"),
            expected_revision=session.rev,
        )
    with pytest.raises(NotFound, match="no compaction"):
        await store.undo_compaction(key, CompactionId(new_id()))
    after = await store.get_session(key)
    assert (after.compaction_count, after.rev) == (0, said.rev)


async def test_a_repository_keeps_its_id_when_it_is_scanned_again(store: Store) -> None:
    (first,) = await store.save_repos([Repo(name="demo", path="/r/demo", branch="main")])
    again, other = await store.save_repos(
        [
            Repo(name="demo", path="/r/demo", branch="fix", last_commit="abc", remote="r"),
            Repo(name="a", path="/r/a"),
        ]
    )
    assert first.id is not None
    assert (again.id, again.branch, again.last_commit, again.remote) == (first.id, "fix", "abc", "r")
    assert [repo.name for repo in await store.list_repos()] == ["a", "demo"]
    assert await store.get_repo(first.id) == again
    assert other.id != first.id


async def test_a_token_is_found_by_its_hash_and_stays_when_revoked(store_url: str, clock: Clock) -> None:
    async with open_store(store_url, clock=clock) as store:
        ada = Principal("acme", "ada", PrincipalRole.MEMBER)
        expires = datetime(2027, 1, 1, tzinfo=UTC)
        token = await store.add_token(ada, "hash-1", "laptop", expires_at=expires)
        assert (token.principal, token.label, token.expires_at, token.last_used_at) == (
            ada,
            "laptop",
            expires,
            None,
        )
        assert await store.find_token("hash-1") == token
        assert await store.find_token("hash-2") is None
        with pytest.raises(Conflict):
            await store.add_token(ada, "hash-1", "twin")
        clock.now += 1000
        await store.touch_token(token.id)
        acme = store.as_principal(Principal("acme", "root", PrincipalRole.ADMIN))
        revoked = await acme.revoke_token(token.id)
        assert revoked.revoked_at == revoked.last_used_at == token.created_at + timedelta(seconds=1)
        clock.now += 1000
        assert await acme.revoke_token(token.id) == revoked
        assert [*await acme.list_tokens()] == [revoked]


async def test_audit_entries_come_newest_first_page_by_page(store: Store) -> None:
    for number in range(5):
        await store.audit(f"action {number}", "denied", subject="session", detail={"n": number})
    newest = await store.list_audit(limit=2)
    assert [(entry.action, entry.detail["n"]) for entry in newest] == [("action 4", 4), ("action 3", 3)]
    rest = await store.list_audit(before=newest[-1].id)
    assert [entry.action for entry in rest] == ["action 2", "action 1", "action 0"]
    assert all(entry.at is not None for entry in rest)
    assert {(entry.organization, entry.user, entry.subject) for entry in rest} == {
        ("local", "local", "session")
    }
