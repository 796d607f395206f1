"""`kill -9` in the middle of a compaction leaves the old view or the new one, on both engines."""

import asyncio
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from holdfast import open_store
from holdfast.compaction.validator import malformed
from holdfast.compaction.views import expand, read_view
from holdfast.model.ids import SessionId
from holdfast.store.options import HistoryOptions
from holdfast.testing.compaction import check_shown
from tests.compaction.sessions import COUNTER, conversation, filled
from tests.long_plugin import Trials
from tests.waiting import SECONDS


async def compact_until_killed(url: str, session: SessionId, words: int, patience: float) -> int:
    """How many compactions the process said it had made, when it was killed in the middle of another."""
    program = Path(__file__).with_name("worker.py")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, str(program), url, session),
        stdout=asyncio.subprocess.PIPE,
        env={"PYTHONPATH": str(Path.cwd()), "PATH": ""},
    )
    assert process.stdout is not None
    said: list[bytes] = []
    try:
        async with asyncio.timeout(SECONDS):
            while said.count(b"summarizing\n") < words:
                line = await process.stdout.readline()
                assert line, "the worker ended by itself"
                said.append(line)
            # The kill falls anywhere between the summary and the next thing it says.
            with suppress(TimeoutError):
                async with asyncio.timeout(patience):
                    said.append(await process.stdout.readline())
    finally:
        process.kill()
    said += (await process.stdout.read()).splitlines(keepends=True)
    await process.wait()
    return said.count(b"compacted\n")


@pytest.mark.usefixtures("process")
@pytest.mark.req("STO-17", "STO-18")
async def test_a_killed_compaction_has_happened_or_has_not(store_url: str, trials: Trials) -> None:
    chance = trials.chance()
    async with open_store(store_url) as store:
        session = await filled(store, conversation(6))
    acknowledged = 0
    for _ in range(trials(6, long=30)):
        acknowledged += await compact_until_killed(
            store_url, session, words=chance.randint(1, 3), patience=chance.uniform(0, 0.02)
        )
        async with open_store(store_url) as store:
            recorded = await store.list_compactions(session)
            assert acknowledged <= len(recorded) <= acknowledged + 1
            acknowledged = len(recorded)
            assert (await store.get_session(session)).compaction_count == len(recorded)
            history = (await store.get_history(session, HistoryOptions(limit=10_000))).messages
            view = await read_view(store, session, COUNTER)
            check_shown(history, view.messages)
            assert not list(malformed(view.messages))
            assert view.head == (recorded[-1].id if recorded else None)
            for compaction in recorded:
                originals = await expand(store, session, compaction.id)
                assert originals == [history[message.seq - 1] for message in originals]
            assert await store.problems() == []
