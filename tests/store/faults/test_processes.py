"""Four processes with sixteen tasks each, all at one session, or a few: every one of them is served."""

from contextlib import AsyncExitStack

import pytest

from holdfast import open_store
from holdfast.store import sqlite_path
from holdfast.store.sqlite.writer import CHECKPOINT_PAGES
from tests.store.faults.contents import assert_counts_are_true, history, turns
from tests.store.faults.processes import together, worker
from tests.store.faults.worker import shared_key

pytestmark = pytest.mark.usefixtures("process")

PROCESSES = 4
TASKS = 16


@pytest.mark.req("STO-01")
async def test_sixty_four_tasks_in_four_processes_get_one_session_for_one_key(store_url: str) -> None:
    reports = await together(PROCESSES, "meet", store_url, tasks=TASKS)
    found = [session for report in reports for session in report["sessions"]]
    assert len(found) == PROCESSES * TASKS
    async with open_store(store_url) as store:
        assert set(found) == {(await store.get_session(shared_key())).id}
        assert (await store.list()).total == 1
        assert await store.problems() == []


@pytest.mark.req("STO-04")
@pytest.mark.parametrize("sessions", [1, 5])
async def test_sixty_four_tasks_in_four_processes_append_without_an_error_a_gap_or_a_repeat(
    store_url: str, sessions: int
) -> None:
    times = 20
    async with open_store(store_url) as store:
        for number in range(sessions):
            await store.get_or_create(shared_key(number))
        reports = await together(PROCESSES, "chatter", store_url, tasks=TASKS, sessions=sessions, times=times)
        said = [tuple(each) for report in reports for each in report["said"]]
        assert len(said) == PROCESSES * TASKS * times
        stored = [
            (number, message.seq, message.id, message.text.rstrip())
            for number in range(sessions)
            for message in await history(store, shared_key(number))
        ]
        assert sorted(stored) == sorted(said)
        for number in range(sessions):
            places = [seq for session, seq, _, _ in stored if session == number]
            assert places == [*range(1, len(places) + 1)]
        assert await store.problems() == []


@pytest.mark.req("STO-04")
async def test_four_processes_write_on_while_another_program_writes_back_their_log(sqlite_url: str) -> None:
    """Every write-back of theirs is refused then, which SQLite says as "busy"."""
    async with open_store(sqlite_url) as store, worker("write_back", sqlite_url) as other:
        await store.get_or_create(shared_key())
        await other.is_ready()
        reports = await together(PROCESSES, "chatter", sqlite_url, tasks=TASKS, sessions=1, times=20)
        said = sorted(seq for report in reports for _, seq, _, _ in report["said"])
        assert said == [*range(1, PROCESSES * TASKS * 20 + 1)]
        log = sqlite_path(sqlite_url).with_name("holdfast.db-wal")
        assert log.stat().st_size > 2 * CHECKPOINT_PAGES * 4096  # so all of them have tried
        other.go()
        await other.finish()
        assert await store.problems() == []


@pytest.mark.req("EXE-10")
async def test_sixty_four_callers_in_four_processes_number_their_turns_without_a_gap_or_a_repeat(
    store_url: str,
) -> None:
    times = 3
    async with open_store(store_url) as store:
        await store.get_or_create(shared_key())
        reports = await together(PROCESSES, "instruct", store_url, tasks=TASKS, times=times)
        sequences = sorted(sequence for report in reports for sequence in report["sequences"])
        everyone = PROCESSES * TASKS * times
        assert sequences == [*range(1, everyone + 1)]
        assert [turn.sequence_number for turn in await turns(store, shared_key())] == sequences
        session = await store.get_session(shared_key())
        assert (session.turn_count, session.token_usage.input) == (everyone, everyone)
        assert await store.problems() == []


async def test_four_processes_that_do_everything_at_once_are_all_served(store_url: str) -> None:
    """Appends, turns and streams of a few sessions, in every order: each waits for the others, none fails."""
    async with open_store(store_url) as store, AsyncExitStack() as stack:
        for number in range(3):
            await store.get_or_create(shared_key(number))
        busy = [
            await stack.enter_async_context(worker("live", store_url, tasks=TASKS, sessions=3, seed=seed))
            for seed in range(PROCESSES)
        ]
        for _ in range(300):
            for each in busy:
                assert await each.report() is not None, "a worker ended by itself"
        for each in busy:
            await each.kill()
        for number in range(3):
            await assert_counts_are_true(store, shared_key(number))
        assert await store.problems() == []
