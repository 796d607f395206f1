"""A full disk: callers are told, nothing is there by halves, and once there is space the store goes on.

The disk is that of a child process whose files may not grow beyond a limit. SQLite meets it where it would
meet a full disk, in the middle of a write: in the WAL, or while the WAL is copied into the database.
"""

from pathlib import Path

import pytest

from holdfast import Message, open_store
from tests.store.faults.contents import assert_counts_are_true, assert_one_sentence, history
from tests.store.faults.processes import Report, worker
from tests.store.faults.worker import shared_key

MEGABYTE = 1 << 20


@pytest.mark.usefixtures("process")
@pytest.mark.req("STO-04")
@pytest.mark.parametrize(
    ("limit", "size"),
    [
        pytest.param(2 * MEGABYTE, 10_000, id="in the WAL"),
        pytest.param(6 * MEGABYTE, 50_000, id="in the database"),
    ],
)
async def test_a_full_disk_is_reported_loses_nothing_and_is_got_over_once_there_is_space(
    sqlite_url: str, limit: int, size: int
) -> None:
    async with worker("fill", sqlite_url, limit=limit, size=size) as filling:
        reports = await filling.finish()
    errors = [report for report in reports if "error" in report]
    assert len(errors) >= 3
    for report in errors:
        assert report["error"] in ("StoreFull", "StoreError")
        assert_one_sentence(report["sentence"])
    assert {"still_readable": True} in reports
    assert {"stream": "said on a full disk"} in reports
    assert {"failures_after": 0, "problems": []} in reports
    async with open_store(sqlite_url) as store:
        stored = {message.id for message in await history(store, shared_key())}
        assert stored == _ids(reports, "appended")
        assert stored.isdisjoint(_ids(reports, "refused"))
        for number in range(2):
            await assert_counts_are_true(store, shared_key(number))
        assert await store.problems() == []


@pytest.mark.usefixtures("process")
async def test_a_process_that_died_on_a_full_disk_leaves_a_store_that_the_next_one_opens(
    sqlite_url: str, tmp_path: Path
) -> None:
    async with worker("fill", sqlite_url, limit=2 * MEGABYTE, size=10_000) as filling:
        reports = []
        while (report := await filling.report()) is not None and "error" not in report:
            reports.append(report)
        reports += await filling.kill()
    async with open_store(sqlite_url) as store:
        stored = {message.id for message in await history(store, shared_key())}
        assert stored >= _ids(reports, "appended")
        assert stored.isdisjoint(_ids(reports, "refused"))
        await store.append_messages(shared_key(), [Message.user("there is space again")])
        await assert_counts_are_true(store, shared_key())
        assert await store.problems() == []


def _ids(reports: list[Report], outcome: str) -> set[str]:
    return {message_id for report in reports for message_id in report.get(outcome, ())}
