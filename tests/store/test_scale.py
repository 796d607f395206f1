"""What a page costs, counted in database pages and not in seconds."""

import apsw
import pytest

from holdfast import Message, PeerKind, SessionKey, open_store
from holdfast.store import sqlite_path
from holdfast.store.statements import load


def pages_touched(path: str, statement: str, *parameters: int) -> int:
    connection = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READONLY)
    connection.execute("SELECT * FROM messages LIMIT 1").fetchall()  # the schema is read by now
    for counter in (apsw.SQLITE_DBSTATUS_CACHE_HIT, apsw.SQLITE_DBSTATUS_CACHE_MISS):
        connection.status(counter, True)
    rows = connection.execute(load("sqlite")[statement], parameters).fetchall()
    hits = connection.status(apsw.SQLITE_DBSTATUS_CACHE_HIT)[0]
    misses = connection.status(apsw.SQLITE_DBSTATUS_CACHE_MISS)[0]
    connection.close()
    assert rows
    return hits + misses


def messages_time(path: str, seq: int) -> int:
    connection = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READONLY)
    ((at,),) = connection.execute("SELECT at FROM messages WHERE session_pk = 2 AND seq = ?", (seq,))
    connection.close()
    return int(at)


@pytest.mark.req("STO-24")
async def test_a_page_touches_as_much_of_a_long_history_as_of_a_short_one(sqlite_url: str) -> None:
    path = str(sqlite_path(sqlite_url))
    short, long = (SessionKey("main", "test", "a", PeerKind.GROUP, name) for name in ("short", "long"))
    async with open_store(sqlite_url, durability="normal") as store:
        for key, count in ((short, 100), (long, 50_000)):
            await store.get_or_create(key)
            for start in range(0, count, 5000):
                stop = min(start + 5000, count)
                await store.append_messages(key, [Message.user("x" * 310) for _ in range(start, stop)])
        deeper = 3  # more levels of the two trees, and a page border
        for statement, cursors in (("history_before", (99, 49_999)), ("history_after", (40, 25_000))):
            few = pages_touched(path, statement, 1, cursors[0], 50)
            many = pages_touched(path, statement, 2, cursors[1], 50)
            assert many <= few + deeper * 50, statement
            assert many < 500, statement
        moment = messages_time(path, seq=25_000)
        assert pages_touched(path, "last_seq_by", 2, moment) < 300
        window = (24_000, 26_000, 26_000, 50, moment, moment + 1)
        assert pages_touched(path, "history_window_before", 2, *window) < 500
        # The feed finds its place among fifty thousand by halving.
        assert pages_touched(path, "last_seq_at", 2, 25_000) < 300
