"""words: how fast sessions are found by what was said in them, and whether their number slows it down."""

from __future__ import annotations

import asyncio
import random
from contextlib import AsyncExitStack
from functools import partial
from itertools import accumulate
from pathlib import Path
from statistics import median

import apsw

from benchmarks.measure import Result, Run, Slice, Spread, blocking_latencies, latencies
from holdfast import Message, NewSession, SessionFilter, Store, open_store

READS = 5
PAGE = 20
BATCH = 500
MESSAGES = 5
"""In each session."""

WORDS = 45
"""In each message: 310 characters or so."""

VOCABULARY = 30_000


async def found_sessions(run: Run) -> list[Result]:
    """words: a page of 20 sessions by a rare, a frequent and the most frequent word, and by a beginning.

    Each session has five messages of 45 words, which are as frequent as words are (Zipf). Ours gives the
    sessions with the message that was found, the words marked, and looks at titles too. The floor selects
    the 20 newest messages from an FTS5 table of its own. Growth is the time among the most sessions
    against that among the fewest, of the word that does worst.
    """
    sizes = [200, 2_000] if run.quick else [1_000, 10_000, 100_000]
    vocabulary = _vocabulary()
    sought = {
        "rare": vocabulary[5_000],
        "frequent": vocabulary[300],
        "most frequent": vocabulary[0],
        "a beginning": vocabulary[0][:3],
    }
    contenders: dict[tuple[str, int], Slice[list[float]]] = {}
    async with AsyncExitStack() as stack:
        for size in sizes:
            texts = _texts(vocabulary, size * MESSAGES)
            floor = _floor(run.directory / f"search-{size}-apsw.db", texts)
            stack.callback(floor.close)
            url = f"sqlite:///{run.directory}/search-{size}.db"
            store = await stack.enter_async_context(open_store(url, durability="normal"))
            await _fill(store, texts)
            for name, word in sought.items():
                wanted = SessionFilter(text=word, limit=PAGE)
                contenders[name, size] = partial(latencies, partial(store.list, wanted), READS)
                newest = partial(_newest, floor, f'"{word}"{"*" if name == "a beginning" else ""}')
                contenders[f"floor {name}", size] = partial(blocking_latencies, newest, READS)
        taken = await run.p50(contenders, run.size(3, 1))

    least, most = sizes[0], sizes[-1]
    growths = {name: Spread.ratio(taken[name, most], taken[name, least]) for name in sought}
    growing = max(sought, key=lambda name: growths[name].median)
    return [
        *(
            Result(
                "words",
                f"{name} word among {most:,} sessions (p50)" if name != "a beginning" else f"{name} of one",
                _milliseconds(taken[name, most]),
                _milliseconds(taken[f"floor {name}", most]),
                Spread.ratio(taken[name, most], taken[f"floor {name}", most]),
            )
            for name in sought
        ),
        Result(
            "words",
            f"growth from {least:,} to {most:,} sessions, worst: {growing}",
            " / ".join(_milliseconds(taken[growing, size]) for size in sizes),
            " / ".join(_milliseconds(taken[f"floor {growing}", size]) for size in sizes),
            growths[growing],
        ),
    ]


def _vocabulary() -> list[str]:
    """Words, the most frequent first."""
    chance = random.Random(1)
    letters = "abcdefghijklmnopqrstuvwxyz"
    return ["".join(chance.choices(letters, k=chance.randint(3, 9))) for _ in range(VOCABULARY)]


def _texts(vocabulary: list[str], count: int) -> list[str]:
    chance = random.Random(2)
    weights = list(accumulate(1 / rank for rank in range(1, VOCABULARY + 1)))
    return [" ".join(chance.choices(vocabulary, cum_weights=weights, k=WORDS)) for _ in range(count)]


async def _fill(store: Store, texts: list[str]) -> None:
    """A session for every five texts, all of which are read by a search then."""

    async def create(first: int) -> None:
        session = await store.create_session(NewSession(title=f"Session {first}"))
        said = [Message.user(text) for text in texts[first : first + MESSAGES]]
        await store.append_messages(session.id, said)

    for begin in range(0, len(texts), BATCH * MESSAGES):
        end = min(begin + BATCH * MESSAGES, len(texts))
        await asyncio.gather(*(create(first) for first in range(begin, end, MESSAGES)))
    while (await store.list(SessionFilter(text="anything"))).unread:
        pass


def _floor(path: Path, texts: list[str]) -> apsw.Connection:
    connection = apsw.Connection(str(path))
    connection.execute("PRAGMA journal_mode = WAL").fetchall()
    connection.execute("CREATE VIRTUAL TABLE said USING fts5 (text, session UNINDEXED)")
    with connection:
        rows = ((text, number // MESSAGES) for number, text in enumerate(texts))
        connection.executemany("INSERT INTO said (text, session) VALUES (?, ?)", rows)
    return connection


def _newest(floor: apsw.Connection, query: str) -> object:
    newest = "SELECT session, text FROM said WHERE said MATCH ? ORDER BY rowid DESC LIMIT ?"
    return floor.execute(newest, (query, PAGE)).fetchall()


def _milliseconds(taken: list[float]) -> str:
    return f"{median(taken) * 1e3:,.2f} ms"
