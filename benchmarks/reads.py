"""W4, W5 and W6: how fast histories and listings are read, and whether size slows them down."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from functools import partial
from itertools import count
from statistics import median
from typing import Any

import msgspec

from benchmarks.floor import connect_apsw
from benchmarks.measure import (
    Meter,
    Result,
    Run,
    Slice,
    Spread,
    blocking_latencies,
    latencies,
    microseconds,
)
from benchmarks.messages import SMALL
from holdfast import (
    NewSession,
    Principal,
    Repo,
    SessionFilter,
    SessionOrder,
    SessionPatch,
    SessionStatus,
    Store,
    open_store,
)
from holdfast.model.ids import SessionId

READS = 25
"""Reads in a row before somebody else has a turn."""

LATEST = 50
PAGE = 20
BATCH = 1000


async def latest_messages(run: Run) -> list[Result]:
    """W4: the latest 50 messages of sessions of very different length, parsed.

    Ours gives `Message` objects and cursors; the floor reads the same 50 bodies and parses each with
    msgspec. The ratio is that of the length where it is worst. Flat means that the length does not show:
    the slowest length against the fastest.
    """
    lengths = [100, 1_000, 5_000] if run.quick else [100, 10_000, 100_000, 1_000_000]
    floor = connect_apsw(run.directory / "w4-apsw.db", "NORMAL")
    floor.add_sessions(len(lengths))
    async with open_store(f"sqlite:///{run.directory}/w4.db", durability="normal") as store:
        contenders: dict[tuple[str, int], Slice[list[float]]] = {}
        for number, length in enumerate(lengths, 1):
            floor.add_messages(((number, seq) for seq in range(1, length + 1)), SMALL.plain)
            session = await _filled_session(store, length)
            contenders["floor", length] = partial(
                blocking_latencies, partial(floor.latest, number, LATEST), READS
            )
            contenders["ours", length] = partial(latencies, partial(store.get_history, session), READS)
        found = await store.problems()
        assert not found, found
        taken = await run.p50(contenders, run.size(8, 2))
    floor.close()
    ours = {length: taken["ours", length] for length in lengths}
    theirs = {length: taken["floor", length] for length in lengths}
    ratios = {length: Spread.ratio(ours[length], theirs[length]) for length in lengths}
    worst = max(lengths, key=lambda length: ratios[length].median)
    slow = max(lengths, key=lambda length: median(ours[length]))
    fast = min(lengths, key=lambda length: median(ours[length]))
    return [
        Result(
            "W4",
            f"latest 50 messages (p50), worst length: {worst:,}",
            microseconds(median(ours[worst])),
            microseconds(median(theirs[worst])),
            ratios[worst],
            at_most=2.0,
        ),
        Result(
            "W4",
            f"slowest to fastest of {' / '.join(f'{length:,}' for length in lengths)} messages",
            _each(ours),
            _each(theirs),
            Spread.ratio(ours[slow], ours[fast]),
            at_most=1.2,
        ),
    ]


async def whole_history(run: Run) -> list[Result]:
    """W5: all 10,000 messages of a session as one JSON array in bytes, nothing parsed.

    Ours is what `history_json` yields, joined; the floor selects the bodies and joins them.
    """
    length, reads = run.size(10_000, 2_500), 5
    floor = connect_apsw(run.directory / "w5-apsw.db", "NORMAL")
    floor.add_sessions(1)
    floor.add_messages(((1, seq) for seq in range(1, length + 1)), SMALL.plain)
    async with open_store(f"sqlite:///{run.directory}/w5.db", durability="normal") as store:
        session = await _filled_session(store, length)

        async def joined() -> bytes:
            return b"".join([piece async for piece in store.history_json(session)])

        async def ours() -> tuple[float, float]:
            with Meter() as meter:
                taken = await latencies(joined, reads)
            return median(taken), meter.cpu / reads

        async def theirs() -> tuple[float, float]:
            with Meter() as meter:
                taken = await blocking_latencies(partial(floor.whole_history, 1), reads)
            return median(taken), meter.cpu / reads

        _same(msgspec.json.decode(await joined())[0])
        taken = await run.interleaved({"floor": theirs, "ours": ours})
    floor.close()

    def row(what: str, figure: int, limit: float | None) -> Result:
        mine, other = [[each[figure] for each in taken[side]] for side in ("ours", "floor")]
        texts = [f"{median(values) * 1e3:,.1f} ms" for values in (mine, other)]
        return Result("W5", what, texts[0], texts[1], Spread.ratio(mine, other), at_most=limit)

    return [
        row(f"whole history of {length:,} as JSON bytes (p50)", 0, 2.0),
        row("CPU of the same", 1, None),
    ]


async def session_pages(run: Run) -> list[Result]:
    """W6: a page of 20 sessions with the exact total, by every indexed filter and in both orders.

    Ours gives `Session` objects, the total and the next cursor. The floor selects six columns of the 20
    sessions that changed last, without filter and without total; a second one selects all the columns
    that ours has, from a table that holds the same sessions. Growth is the time among the most
    sessions against that among the fewest. Both are of the filter and order that do worst.
    """
    sizes = [200, 2_000] if run.quick else [1_000, 10_000, 100_000]
    contenders: dict[tuple[str, int], Slice[list[float]]] = {}
    async with AsyncExitStack() as stack:
        for size in sizes:
            floor = connect_apsw(run.directory / f"w6-{size}-apsw.db", "NORMAL")
            stack.callback(floor.close)
            floor.add_sessions(size)
            path = run.directory / f"w6-{size}.db"
            clock = count(1_700_000_000_000).__next__
            opened = open_store(f"sqlite:///{path}", durability="normal", clock=clock)
            store = await stack.enter_async_context(opened)
            for name, wanted in (await _filled_listings(store, size)).items():
                contenders[name, size] = partial(latencies, partial(store.list, wanted), READS)
            floor.copy_listing(path)
            contenders["floor", size] = partial(blocking_latencies, partial(floor.page, PAGE), READS)
            contenders["wide", size] = partial(blocking_latencies, partial(floor.wide_page, PAGE), READS)
        taken = await run.p50(contenders, run.size(3, 1))

    least, most = sizes[0], sizes[-1]
    names = [name for name, size in contenders if size == most and name not in ("floor", "wide")]
    ratios = {name: Spread.ratio(taken[name, most], taken["floor", most]) for name in names}
    growths = {name: Spread.ratio(taken[name, most], taken[name, least]) for name in names}
    slowest = max(names, key=lambda name: ratios[name].median)
    growing = max(names, key=lambda name: growths[name].median)
    return [
        Result(
            "W6",
            f"page of 20 of {most:,} with total (p50), worst filter: {slowest}",
            microseconds(median(taken[slowest, most])),
            microseconds(median(taken["floor", most])),
            ratios[slowest],
            at_most=5.0,
        ),
        Result(
            "W6",
            "the same against a floor that reads every column of a session",
            microseconds(median(taken[slowest, most])),
            microseconds(median(taken["wide", most])),
            Spread.ratio(taken[slowest, most], taken["wide", most]),
        ),
        Result(
            "W6",
            f"growth from {least:,} to {most:,} sessions, worst filter: {growing}",
            _each({size: taken[growing, size] for size in sizes}),
            _each({size: taken["floor", size] for size in sizes}),
            growths[growing],
            at_most=2.0,
        ),
    ]


async def _filled_session(store: Store, length: int) -> SessionId:
    session = await store.create_session(NewSession())
    for begin in range(0, length, BATCH):
        await store.append_messages(session.id, [SMALL.message] * min(BATCH, length - begin))
    return session.id


async def _filled_listings(store: Store, size: int) -> dict[str, SessionFilter]:
    """Create `size` sessions of 4 owners, 5 agents and 10 repositories, some of them archived since.

    Gives the filters to list them by. Each matches at least a page, also of the fewest sessions.
    """
    repos = await store.save_repos([Repo(name=f"r{n}", path=f"/repos/r{n}") for n in range(10)])
    owners = [store.as_principal(Principal("local", f"owner-{n}")) for n in range(4)]

    async def create(n: int) -> SessionId:
        new = NewSession(agent=f"agent-{n % 5}", repo_id=repos[n // 20 % 10].id, title=f"Session {n}")
        return (await owners[n % 4].create_session(new)).id

    sessions: list[SessionId] = []
    for begin in range(0, size, BATCH):
        sessions += await asyncio.gather(*(create(n) for n in range(begin, min(begin + BATCH, size))))
    archive = SessionPatch(status=SessionStatus.ARCHIVED)
    await asyncio.gather(*(store.patch(session, archive) for session in sessions[:: size // 100]))
    fields: dict[str, dict[str, Any]] = {
        "no filter": {},
        "status": {"status": {SessionStatus.ARCHIVED}},
        "repository": {"repo_id": repos[0].id},
        "agent": {"agent_id": "agent-0"},
        "owner": {"owner": "owner-0"},
    }
    return {
        f"{name}, by {order.value}": SessionFilter(order=order, limit=PAGE, **values)
        for name, values in fields.items()
        for order in SessionOrder
    }


def _same(message: dict[str, Any]) -> None:
    """Make sure that both sides store the same: ours only adds `seq` and `rev`, and gives its own id."""
    del message["seq"], message["rev"]
    assert message.keys() == SMALL.plain.keys()
    assert len(msgspec.json.encode(message)) == SMALL.size


def _each(taken: dict[int, list[float]]) -> str:
    return " / ".join(f"{median(values) * 1e6:,.0f}" for values in taken.values()) + " µs"
