"""Compaction beside what it is added to: reading a tail, appending a message; and planning by itself."""

from __future__ import annotations

from functools import partial
from statistics import median

from benchmarks.measure import Meter, Result, Run, Slice, Spread, Suite, latencies, microseconds
from benchmarks.messages import SMALL
from holdfast import Message, NewSession, Role, Store, TextContent, ToolCall, open_store
from holdfast.compaction.budget import Budget
from holdfast.compaction.compactor import Compactor
from holdfast.compaction.layout import Layout
from holdfast.compaction.strategies import STRATEGIES, strategy_of
from holdfast.compaction.summaries import SummaryRequest
from holdfast.compaction.tokens import ExactCounter
from holdfast.compaction.validator import validate
from holdfast.compaction.view import View
from holdfast.compaction.views import read_view
from holdfast.model.ids import MessageId, SessionId
from holdfast.model.tokens import with_tokens
from holdfast.store.options import HistoryOptions

READS = 10
BATCH = 1000
KEPT = 200
"""Messages that a compaction leaves as they are: the tail."""

PLANNED = Budget(window=200_000, reserve=20_000, target=90_000)


async def views(run: Run) -> list[Result]:
    """The view of a session that was compacted again and again, against reading its tail alone.

    The session is half-way to its next compaction.
    """
    length, compactions = run.size(100_000, 4_000), run.size(50, 4)
    counter = ExactCounter()
    url = f"sqlite:///{run.directory}/views.db"
    async with open_store(url, durability="normal", counter=counter) as store:
        session = (await store.create_session(NewSession())).id
        stretch = length // compactions
        for number in range(compactions):
            await _append(store, session, stretch // 2 if number == 0 else stretch)
            await _compact(store, session, counter)
        await _append(store, session, stretch // 2)
        view = await read_view(store, session, counter)
        tail = len(view.items) - 1
        contenders: dict[str, Slice[list[float]]] = {
            "view": partial(latencies, partial(read_view, store, session, counter), READS),
            "tail": partial(
                latencies, partial(store.get_history, session, HistoryOptions(limit=tail)), READS
            ),
        }
        taken = await run.p50(contenders, run.size(5, 1))
    what = f"view of {length:,} messages after {compactions} compactions, against its tail of {tail}"
    texts = microseconds(median(taken["view"])), microseconds(median(taken["tail"]))
    return [Result("view", what, *texts, Spread.ratio(taken["view"], taken["tail"]), at_most=2.0)]


async def counting(run: Run) -> list[Result]:
    """W1 with messages counted as they are appended, against W1 without: CPU of an append."""
    appends = run.size(300, 40)

    async def cpu(store: Store, session: SessionId) -> float:
        with Meter() as meter:
            for _ in range(appends):
                await store.append_messages(session, [SMALL.message])
        return meter.cpu / appends

    plain_url, counted_url = (f"sqlite:///{run.directory}/{name}.db" for name in ("plain", "counted"))
    async with open_store(plain_url) as plain, open_store(counted_url, counter=ExactCounter()) as counted:
        contenders: dict[str, Slice[float]] = {
            name: partial(cpu, store, (await store.create_session(NewSession())).id)
            for name, store in (("plain", plain), ("counted", counted))
        }
        for warm in contenders.values():
            await warm()
        taken = await run.interleaved(contenders)
    texts = microseconds(median(taken["counted"])), microseconds(median(taken["plain"]))
    ratio = Spread.ratio(taken["counted"], taken["plain"])
    return [Result("counting", "CPU of an append that counts tokens", *texts, ratio, at_most=1.2)]


async def planning(run: Run) -> list[Result]:
    """Planning over a long view that is there, by the strategy that takes longest; and with all around it.

    Judged by CPU: a plan waits for nothing, and whatever else the machine does is not part of it.
    """
    length = run.size(10_000, 2_000)
    counter = ExactCounter()
    messages = _talk(length, counter)
    plans: dict[str, list[float]] = {}
    whole: list[float] = []
    for _ in range(run.repetitions):
        for name in STRATEGIES:
            strategy = strategy_of(name)
            # Afresh each time: a view keeps what one strategy found in it for the next.
            view = View(Layout(), messages, counter, last_seq=length)
            with Meter() as meter:
                strategy.plan(view, PLANNED, counter)
            plans.setdefault(name, []).append(meter.cpu * 1e3)
        with Meter() as meter:
            _judged(messages, counter)
        whole.append(meter.cpu * 1e3)
    slowest = max(plans, key=lambda name: median(plans[name]))
    what = f"CPU of planning over {length:,} messages, slowest strategy: {slowest}"
    return [
        _milliseconds(what, plans[slowest], at_most=50),
        _milliseconds("CPU of making the view, planning with summarize, and judging", whole),
    ]


def _judged(messages: list[Message], counter: ExactCounter) -> None:
    view = View(Layout(), messages, counter, last_seq=len(messages))
    plan = strategy_of("summarize").plan(view, PLANNED, counter)
    assert plan is not None
    validate("summarize", view, plan, PLANNED)


async def _append(store: Store, session: SessionId, count: int) -> None:
    for begin in range(0, count, BATCH):
        await store.append_messages(session, [SMALL.message] * min(BATCH, count - begin))


async def _compact(store: Store, session: SessionId, counter: ExactCounter) -> None:
    """Fold all but the latest messages."""

    async def summarize(request: SummaryRequest) -> str:
        return SMALL.message.text * 8

    strategy = strategy_of({"name": "summarize", "keep_recent_messages": KEPT})
    compactor = Compactor(store, strategy, summarizer=summarize, counter=counter)
    assert await compactor.compact(session, Budget(window=1_000_000)) is not None


def _talk(length: int, counter: ExactCounter) -> list[Message]:
    """Turns of a person's words, a call, its result and an answer."""
    told: list[Message] = []
    for seq in range(1, length + 1):
        call = f"call-{seq // 4}"
        match seq % 4:
            case 1:
                message = Message.user(SMALL.message.text)
            case 2:
                calls = (ToolCall(id=call, name="read", arguments={"path": "a.py"}),)
                message = Message.of(Role.AGENT, TextContent(text=""), tool_calls=calls)
            case 3:
                message = Message.of(Role.TOOL, TextContent(text="x = 1\n" * 100), tool_call_id=call)
            case _:
                message = Message.agent(SMALL.message.text)
        told.append(_placed(with_tokens(message, counter), seq))
    return told


def _placed(message: Message, seq: int) -> Message:
    fields = {name: getattr(message, name) for name in message.__struct_fields__}
    return Message(**fields | {"id": MessageId(f"01980000-0000-7000-8000-{seq:012x}"), "seq": seq})


def _milliseconds(what: str, taken: list[float], at_most: float | None = None) -> Result:
    value = Spread.of(taken)
    return Result("planning", what, f"{value.median:.1f} ms", "", value, unit=" ms", at_most=at_most)


SUITE = Suite(
    "compaction",
    {"view": views, "counting": counting, "planning": planning},
    plot="performance-compaction.png",
)
