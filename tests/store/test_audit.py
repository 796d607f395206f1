"""The audit log: an entry stays as it was written, and what was said can be erased without touching it."""

import apsw
import asyncpg
import pytest

from holdfast import open_store
from holdfast.store import migrate
from tests.store.test_schema import query

REFUSED = (apsw.ConstraintError, asyncpg.RaiseError)


async def audited(url: str, *secrets: str) -> None:
    async with open_store(url) as store:
        for secret in secrets:
            await store.through("cli").audit("agent.command", "allowed", subject="s", detail={"said": secret})


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE audit SET outcome = 'denied'",
        "UPDATE audit SET commitment = NULL",
        "DELETE FROM audit",
        "UPDATE audit_words SET words = '{}'",
    ],
)
async def test_an_entry_is_never_changed_or_deleted(store_url: str, change: str) -> None:
    await audited(store_url, "s3cret")
    with pytest.raises(REFUSED, match=r"never changed|never deleted"):
        await query(store_url, change)
    async with open_store(store_url) as store:
        (entry,) = await store.list_audit()
        assert (entry.outcome, entry.door, entry.detail) == ("allowed", "cli", {"said": "s3cret"})


async def test_what_was_said_can_be_erased_and_the_entry_stays(store_url: str) -> None:
    await audited(store_url, "s3cret", "kept")
    await query(store_url, "DELETE FROM audit_words WHERE audit_pk = 1")
    async with open_store(store_url) as store:
        kept, erased = await store.list_audit()
        assert (erased.action, erased.subject, erased.detail) == ("agent.command", "s", {})
        assert kept.detail == {"said": "kept"}
        assert await store.problems() == []


async def test_an_entry_itself_says_nothing_of_the_words(store_url: str) -> None:
    await audited(store_url, "s3cret", "s3cret")
    first, second = await query(store_url, "SELECT * FROM audit ORDER BY pk")
    assert "s3cret" not in str((first, second))
    commitments = {bytes(row[0]) for row in await query(store_url, "SELECT commitment FROM audit")}
    assert len(commitments) == 2  # equal words are not seen to be equal


async def test_words_that_were_put_in_place_of_others_are_found(store_url: str) -> None:
    await audited(store_url, "s3cret", "kept")
    await query(store_url, "CREATE TABLE forged AS SELECT * FROM audit_words WHERE audit_pk = 1")
    await query(store_url, "DELETE FROM audit_words WHERE audit_pk = 1")
    await query(store_url, """INSERT INTO audit_words SELECT audit_pk, salt, '{"said":"else"}' FROM forged""")
    async with open_store(store_url) as store:
        assert await store.problems() == ["audit entry 1: its words are not those that were written"]


async def test_entries_of_before_are_kept_in_both_directions(store_url: str) -> None:
    async with open_store(store_url):
        pass
    await migrate(store_url, "0012")
    await query(
        store_url,
        "INSERT INTO audit (at, organization, username, action, outcome, detail)"
        """ VALUES (1, 'local', 'local', 'old', 'done', '{"said":"before"}')""",
    )
    await migrate(store_url)
    await audited(store_url, "after")
    async with open_store(store_url) as store:
        assert [entry.detail["said"] for entry in await store.list_audit()] == ["after", "before"]
        assert await store.problems() == []
    await migrate(store_url, "0012")
    details = await query(store_url, "SELECT detail FROM audit ORDER BY pk")
    assert details == [('{"said":"before"}',), ('{"said":"after"}',)]
