"""A process of its own that compacts a session over and over, until it is killed.

Run as `worker.py URL SESSION`. It says when it is in the middle of a compaction, with the summary being made,
and when one has been acknowledged.
"""

import asyncio
import os
import sys

from holdfast import open_store
from holdfast.compaction.compactor import Compactor
from holdfast.compaction.extractive import extractive
from holdfast.compaction.strategies import strategy_of
from holdfast.compaction.summaries import SummaryRequest
from holdfast.model.ids import SessionId
from tests.compaction.sessions import COUNTER, SMALL, conversation


def say(word: str) -> None:
    os.write(1, f"{word}\n".encode())


async def summarize(request: SummaryRequest) -> str:
    say("summarizing")
    return await extractive(request)


async def work(url: str, session: SessionId) -> None:
    strategy = strategy_of({"name": "summarize", "keep_recent_turns": 1})
    async with open_store(url) as store:
        compactor = Compactor(store, strategy, summarizer=summarize, counter=COUNTER)
        while True:
            await store.append_messages(session, conversation(6)[1:])
            await compactor.compact(session, SMALL)
            say("compacted")


asyncio.run(work(sys.argv[1], SessionId(sys.argv[2])))
