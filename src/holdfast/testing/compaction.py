"""Does a compaction strategy keep sessions whole? Property tests for anybody's strategy.

    from holdfast.testing.compaction import check_in_store, check_planning

    def test_my_strategy_plans_well() -> None:
        check_planning(MyStrategy(keep=5))

    def test_my_strategy_in_a_real_store() -> None:
        check_in_store(MyStrategy(keep=5))

A strategy is asked again after more was said, when the view holds what it made of it before, and must
plan something at least once. The histories hold parallel and nested calls, results that came late,
twice, never or behind a word of the system, pinned and system messages, huge and empty texts, and
characters of every length. What must be true of a view is looked up in the history itself here, and not
in the code that makes views.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from holdfast.compaction.budget import Budget
from holdfast.compaction.compactor import Compactor
from holdfast.compaction.errors import PlanRefused, SummaryFailed
from holdfast.compaction.extractive import extract, extractive
from holdfast.compaction.items import is_note
from holdfast.compaction.layout import chain_in_effect, layout_of
from holdfast.compaction.plan import Plan, plan_of
from holdfast.compaction.ranges import contains, covers
from holdfast.compaction.strategies import NoCompaction
from holdfast.compaction.strategy import CompactionStrategy
from holdfast.compaction.summaries import SummaryRequest
from holdfast.compaction.tokens import EstimatingCounter
from holdfast.compaction.validator import MIN_SAVING, recounted, validate
from holdfast.compaction.view import REPORTS, View
from holdfast.compaction.views import expand, read_view
from holdfast.errors import MissingExtra
from holdfast.model.content import PlanContent, QuestionContent, TextContent, ThoughtContent, ToolContent
from holdfast.model.ids import CompactionId, MessageId, SessionId
from holdfast.model.message import Message, Role, ToolCall
from holdfast.model.records import Compaction
from holdfast.model.session import NewSession
from holdfast.model.tokens import MESSAGE_OVERHEAD, TokenCounter, message_tokens
from holdfast.store import open_store
from holdfast.store.options import HistoryOptions
from holdfast.store.store import Store

try:
    from hypothesis import HealthCheck, given, settings
    from hypothesis import strategies as st
except ImportError:
    raise MissingExtra("Testing a strategy", "testing") from None

COUNTER = EstimatingCounter()

MOMENT = datetime(2026, 1, 1, tzinfo=UTC)

TEXTS = (
    "",
    "yes",
    "Please look at src/app/main.py and tell me why test_login fails.",
    "We decided to use PostgreSQL instead of MySQL because of the JSON index. " * 4,
    "ど".join(["会話", "🧵👩‍👩‍👧", "naïve façade", "\u202eright to left"]) * 20,
    "Traceback (most recent call last): ValueError: bad token 0x7f\n" * 40,
    "x" * 3_000,
    "lorem ipsum dolor sit amet " * 900,
)

KINDS = (
    *("user", "agent", "agent", "call", "call", "parallel", "unanswered", "half_answered", "late"),
    *("orphan_result", "doubled_result", "reused_id", "pinned", "system", "thought", "acp", "plan"),
    *("question", "tool", "pending", "warned", "together", "doubled_late"),
)

SHARES = (0.3, 0.6, 0.9)
"""How much of a history was said before the first compaction."""

WINDOWS = (300, 1_500, 6_000, 40_000)


def histories() -> st.SearchStrategy[list[Message]]:
    """Stored messages of a session, with their places in it."""
    moves = st.tuples(st.sampled_from(KINDS), st.integers(0, len(TEXTS) - 1), st.integers(0, len(TEXTS) - 1))
    return st.lists(moves, max_size=30).map(_told)


def check_planning(
    strategy: CompactionStrategy, *, examples: int = 100, counter: TokenCounter | None = None
) -> None:
    """Plan over many generated histories, and look at every view that comes of it."""
    used = counter or EstimatingCounter()
    made = 0

    @_many(examples)
    @given(history=histories(), share=st.sampled_from(SHARES), window=st.sampled_from(WINDOWS))
    def holds(history: list[Message], share: float, window: int) -> None:
        nonlocal made
        chain: list[Compaction] = []
        for said in (history[: int(len(history) * share)], history):
            _check_plan(strategy, said, chain, Budget(window=window, target=window // 2), used)
        made += len(chain)

    holds()
    talk = _told([("user", 2, 0), ("call", 1, len(TEXTS) - 1), ("agent", 3, 0)] * 12)
    chain: list[Compaction] = []
    for window in WINDOWS:
        _check_plan(strategy, talk, chain, Budget(window=window, target=window // 2), used)
    made += len(chain)
    assert made or isinstance(strategy, NoCompaction), "It never planned anything, whatever was said."


def check_in_store(strategy: CompactionStrategy, *, examples: int = 10) -> None:
    """Compact generated sessions in a real store; expand, undo, fail, and be overtaken by messages."""

    @_many(examples)
    @given(history=histories(), window=st.sampled_from(WINDOWS))
    def holds(history: list[Message], window: int) -> None:
        with tempfile.TemporaryDirectory(prefix="holdfast-conformance-") as directory:
            asyncio.run(
                _check_session(strategy, history, Budget(window=window, target=window // 2), directory)
            )

    holds()


def check_shown(history: Sequence[Message], shown: Sequence[Message]) -> None:
    """What must be true of every view of a history, whatever was done to it (I1 to I4)."""
    by_id = {message.id: message for message in shown}
    said = [message for message in history if message.role is Role.USER]
    kept = [m for m in history if _is_rule(m) or m.metadata.get("pinned") or m in said[-1:]]
    for message in kept:
        is_orphan = message.tool_call_id is not None and not _was_called(history, message)
        assert is_orphan or by_id.get(message.id) == message, (
            f"I3, I4: {message!r} is not shown as it was said"
        )
    order = [message.seq for message in kept if message.id in by_id]
    assert order == [message.seq for message in shown if message.id in {each.id for each in kept}], (
        "I3: order"
    )
    rules = {message.id for message in history if message.role is Role.SYSTEM}
    raised = [message for message in shown if message.role is Role.SYSTEM and message.id not in rules]
    assert not raised, f"I3: {raised} are shown as if the system had said them"
    _check_pairs(shown)
    _check_beginning(history, shown)


def _is_rule(message: Message) -> bool:
    """Whether the system said it. What an agent reports is recorded under that role, too."""
    return message.role is Role.SYSTEM and message.content_type not in REPORTS


def _check_pairs(shown: Sequence[Message]) -> None:
    """Each call's result right after it, once; none only where nothing but calls and results follows."""
    missing: list[str] = []
    place = 0
    while place < len(shown):
        message = shown[place]
        assert message.tool_call_id is None, f"I1: {message!r} does not stand right after its call"
        place += 1
        wanted = {call.id for call in message.tool_calls}
        while wanted and place < len(shown) and shown[place].tool_call_id is not None:
            call_id = shown[place].tool_call_id
            assert call_id in wanted, f"I1: {shown[place]!r} is not the one result of its call"
            wanted.discard(call_id)
            place += 1
        missing += wanted
        speaks = message.role in (Role.USER, Role.AGENT) and not message.tool_calls and not is_note(message)
        assert not (speaks and missing), f"I1: {missing} are not answered before message {message.seq}"


def _check_beginning(history: Sequence[Message], shown: Sequence[Message]) -> None:
    """A person or a summary comes first, unless the agent did in the session itself."""
    assert _first_speaker(shown) is not Role.AGENT or _first_speaker(history) is Role.AGENT, (
        "I1: the view begins with what the agent said"
    )


def _first_speaker(messages: Sequence[Message]) -> Role | None:
    """Whoever speaks first; a summary speaks for the person it tells of."""
    for message in messages:
        if message.role in (Role.USER, Role.AGENT) and not is_note(message):
            return message.role
    return None


def _check_plan(
    strategy: CompactionStrategy,
    history: Sequence[Message],
    chain: list[Compaction],
    budget: Budget,
    counter: TokenCounter,
) -> None:
    """Plan on the compactions before it, and add the one that comes of it to them."""
    view = _view(history, chain, counter)
    told = [msgspec.json.encode(message) for message in history]
    check_shown(history, view.messages)
    plan = strategy.plan(view.copy(), budget, counter)
    assert plan == strategy.plan(view.copy(), budget, counter), "I12: the same view gives another plan"
    assert told == [msgspec.json.encode(message) for message in history], "I5: planning changed a message"
    if plan is None:
        return
    _check_shortened(history, plan)
    plan = recounted(view, plan.as_recorded())
    try:
        validate(strategy.name, view, plan, budget)
        plan = _summarized(plan, view, counter)
        after = validate(strategy.name, view, plan, budget)
    except PlanRefused as refused:
        _is_too_large(refused)
        return
    check_shown(history, after.messages)
    before, left = _counted(view, counter), _counted(after, counter)
    assert left <= budget.room, "I6: too large"
    assert left <= before * (1 - MIN_SAVING), "I7: no progress"
    record = _record(plan, chain)
    _check_record(history, [*chain, record], view, after, counter)
    chain.append(record)


def _check_shortened(history: Sequence[Message], plan: Plan) -> None:
    for each in plan.replaced:
        message = history[each.seq - 1]
        is_result = message.tool_call_id is not None or message.content_type == "tool"
        assert is_result, f"I5: {message!r} is no result of a tool, and would be shown with other words"


def _check_record(
    history: Sequence[Message], chain: Sequence[Compaction], before: View, after: View, counter: TokenCounter
) -> None:
    """Written down and read again, a plan gives the same view; undone, it gives the one before."""
    *earlier, record = chain
    plan = plan_of(record)
    again = _view(history, chain, counter)
    planned = View(
        layout_of(earlier).after(plan, record), _shown(history, chain), counter, last_seq=len(history)
    )
    assert _rendered(again) == _rendered(planned), "I12: read again, the view is another"
    assert again.tokens == after.tokens, "I6: read again, the view takes another number of tokens"
    assert plan.folds or _rendered(after) == _rendered(again), "I12: planned, the view was another"
    undone = chain_in_effect([*earlier, msgspec.structs.replace(record, undone_at=MOMENT)])
    assert _rendered(_view(history, undone, counter)) == _rendered(before), "I13: undone"


def _view(history: Sequence[Message], chain: Sequence[Compaction], counter: TokenCounter) -> View:
    return View(layout_of(chain), _shown(history, chain), counter, last_seq=len(history))


def _shown(history: Sequence[Message], chain: Sequence[Compaction]) -> list[Message]:
    hidden = layout_of(chain).hidden
    return [message for message in history if not contains(hidden, message.seq)]


def _counted(view: View, counter: TokenCounter) -> int:
    """What a view takes, counted from what it shows and from nothing that anybody says of it."""
    plain = (msgspec.structs.replace(message, token_count=None) for message in view.messages)
    return sum(message_tokens(message, counter) for message in plain)


async def _check_session(
    strategy: CompactionStrategy, history: Sequence[Message], budget: Budget, directory: str
) -> None:
    url = f"sqlite:///{Path(directory) / 'holdfast.db'}"
    async with open_store(url, durability="normal") as store:
        await _check_round_trip(store, await _filled(store, history), strategy, budget)
        await _check_rounds(store, history, strategy, budget)
        await _check_overtaken(store, await _filled(store, history), strategy, budget)
        await _check_failure(store, await _filled(store, history), strategy, budget)
        problems = await store.problems()
        assert not problems, f"I14: {problems}"


async def _check_round_trip(
    store: Store, session: SessionId, strategy: CompactionStrategy, budget: Budget
) -> None:
    """Compacted, compacted again, expanded and undone."""
    originals, before = await _originals(store, session), await read_view(store, session, COUNTER)
    compactor = Compactor(store, strategy, summarizer=extractive, counter=COUNTER)
    compaction = await _compacted(compactor, session, budget)
    assert await _originals(store, session) == originals, "I5: an original changed"
    after = await read_view(store, session, COUNTER)
    if compaction is None:
        assert _rendered(after) == _rendered(before), "I8: nothing was recorded, and the view changed"
        return
    check_shown(originals, after.messages)
    assert await compactor.compact(session, budget) is None, (
        "I9: nothing new was said, and it compacted again"
    )
    expanded = await expand(store, session, compaction.id)
    assert [originals[message.seq - 1] for message in expanded] == expanded, "I13: not the originals"
    changed = set(_as_said(before, originals)) - set(_as_said(after, originals))
    assert changed <= {message.seq for message in expanded}, "I13: something hidden cannot be expanded"
    await store.undo_compaction(session, compaction.id)
    assert _rendered(await read_view(store, session, COUNTER)) == _rendered(before), "I13: not undone"


async def _check_rounds(
    store: Store, history: Sequence[Message], strategy: CompactionStrategy, budget: Budget
) -> None:
    """Compacted, gone on with and compacted again; then the first compaction is undone, and so are all."""
    half = len(history) // 2
    session = await _filled(store, history[:half])
    compactor = Compactor(store, strategy, summarizer=extractive, counter=COUNTER)
    first = await _compacted(compactor, session, budget)
    for said in (history[half:], history[half:], [Message.user("go on"), Message.agent("so it is")]):
        await store.append_messages(session, _anew(said))
        await _compacted(compactor, session, budget)
        originals = await _originals(store, session)
        check_shown(originals, (await read_view(store, session, COUNTER)).messages)
    if first is None:
        return
    await store.undo_compaction(session, first.id)
    shown = await read_view(store, session, COUNTER)
    assert shown.head is None, "I13: what was planned on a compaction that is undone is still in effect"
    check_shown(originals, shown.messages)
    await _compacted(compactor, session, budget)
    check_shown(originals, (await read_view(store, session, COUNTER)).messages)
    assert await _originals(store, session) == originals, "I5: an original changed"


async def _check_overtaken(
    store: Store, session: SessionId, strategy: CompactionStrategy, budget: Budget
) -> None:
    """A person speaks while the summaries are being made."""
    spoken: list[Message] = []

    async def overtaken(request: SummaryRequest) -> str:
        if not spoken:
            spoken.extend(await store.append_messages(session, [Message.user("wait")]))
        return await extractive(request)

    await _compacted(Compactor(store, strategy, summarizer=overtaken, counter=COUNTER), session, budget)
    after = await read_view(store, session, COUNTER)
    check_shown(await _originals(store, session), after.messages)
    assert after.messages[-1:] == spoken or not spoken, "I11: what was said meanwhile is not shown"


async def _check_failure(
    store: Store, session: SessionId, strategy: CompactionStrategy, budget: Budget
) -> None:
    """A summariser that fails leaves everything as it was."""
    before = await read_view(store, session, COUNTER)

    async def fails(request: SummaryRequest) -> str:
        raise RuntimeError("the model is down")

    try:
        await _compacted(Compactor(store, strategy, summarizer=fails, counter=COUNTER), session, budget)
    except SummaryFailed:
        after = await read_view(store, session, COUNTER)
        assert _rendered(after) == _rendered(before), "I10: no summary was made, and the view changed"


async def _compacted(compactor: Compactor, session: SessionId, budget: Budget) -> Compaction | None:
    """The compaction; None where there is none, also because the view cannot fit, which is said."""
    try:
        return await compactor.compact(session, budget)
    except PlanRefused as refused:
        _is_too_large(refused)
        return None


def _is_too_large(refused: PlanRefused) -> None:
    """A view that cannot fit is an explicit error; nothing else is a reason to refuse a good plan."""
    assert all(each.startswith("I6") for each in refused.broken), str(refused)


async def _filled(store: Store, history: Sequence[Message]) -> SessionId:
    session = (await store.create_session(NewSession())).id
    await store.append_messages(session, _anew(history))
    return session


def _anew(messages: Sequence[Message]) -> list[Message]:
    return [msgspec.structs.replace(message, id=None, seq=0, timestamp=None) for message in messages]


async def _originals(store: Store, session: SessionId) -> list[Message]:
    return (await store.get_history(session, HistoryOptions(limit=10_000))).messages


def _as_said(view: View, originals: Sequence[Message]) -> list[int]:
    """The places of the messages that a view shows as they were said."""
    shown = {message.id: message for message in view.messages}
    return [message.seq for message in originals if shown.get(message.id) == message]


def _rendered(view: View) -> bytes:
    return msgspec.json.encode(view.messages)


def _summarized(plan: Plan, view: View, counter: TokenCounter) -> Plan:
    summaries = []
    for fold in plan.folds:
        folded = [item.message for item in view.items if item.ranges and covers(fold.ranges, item.ranges)]
        text = extract(folded, max(1, fold.tokens - MESSAGE_OVERHEAD), counter)
        summaries.append((text, counter.count(text) + MESSAGE_OVERHEAD))
    return plan.summarized(summaries)


def _record(plan: Plan, chain: Sequence[Compaction]) -> Compaction:
    return Compaction(
        id=CompactionId(f"01980000-0000-7000-8000-{len(chain):012x}"),
        rev=1,
        parent_id=chain[-1].id if chain else None,
        strategy="",
        params={},
        first_seq=plan.touched[0][0],
        last_seq=plan.touched[-1][1],
        summary=plan.summary,
        tokens_before=None,
        tokens_after=None,
        tokenizer=None,
        created_at=MOMENT,
        undone_at=None,
        edits=plan.edits(),
    )


def _was_called(history: Sequence[Message], result: Message) -> bool:
    earlier = history[: result.seq - 1]
    return any(call.id == result.tool_call_id for message in earlier for call in message.tool_calls)


def _many(examples: int) -> settings:
    return settings(
        max_examples=examples, deadline=None, database=None, suppress_health_check=list(HealthCheck)
    )


def _told(moves: Sequence[tuple[str, int, int]]) -> list[Message]:
    told: list[Message] = []
    for number, (kind, first, second) in enumerate(moves):
        told += _moved(kind, f"call-{number}", TEXTS[first], TEXTS[second])
    return [
        msgspec.structs.replace(
            message, seq=seq, rev=seq, id=MessageId(f"01980000-0000-7000-8000-{seq:012x}"), timestamp=MOMENT
        )
        for seq, message in enumerate(told, 1)
    ]


def _moved(kind: str, call: str, text: str, other: str) -> list[Message]:
    """What one move adds to a history."""
    match kind:
        case "user":
            return [Message.user(text)]
        case "call":
            return [_calling(text, call), _result(call, other)]
        case "parallel":
            return [_calling(text, call, f"{call}-b"), _result(f"{call}-b", text), _result(call, other)]
        case "unanswered":
            return [_calling(text, call)]
        case "half_answered":
            return [_calling(text, call, f"{call}-b"), _result(call, other)]
        case "late":
            return [_calling(text, call), Message.user("any news?"), _result(call, other)]
        case "warned":
            return [_calling(text, call), Message.system("no answer for 60 s"), _result(call, other)]
        case "together":
            others = [_calling("", f"{call}-b"), Message.system("still at it"), _calling(text, f"{call}-c")]
            return [_calling(text, call), *others, *(_result(f"{call}{n}", other) for n in ("-c", "", "-b"))]
        case "doubled_late":
            return [_calling("", call), _result(call, text), Message.user("and?"), _result(call, other)]
        case "orphan_result":
            return [_result(call, text)]
        case "doubled_result":
            return [_calling("", call), _result(call, text), _result(call, other)]
        case "reused_id":
            return [_calling(text, "again"), _result("again", other)]
        case "pinned":
            return [Message.agent(text, metadata={"pinned": True})]
        case "system":
            return [Message.system(text)]
        case "thought":
            return [Message.of(Role.AGENT, ThoughtContent(text=text, partial=False))]
        case "acp":
            return [Message.of(Role.SYSTEM, _done(text))]
        case "plan":
            return [Message.of(Role.SYSTEM, PlanContent(steps=({"content": text, "status": "pending"},)))]
        case "question":
            return [Message.of(Role.SYSTEM, QuestionContent(kind="permission", question_set_id=call))]
        case "tool":
            return [Message.of(Role.TOOL, _done(text))]
        case "pending":
            return [msgspec.structs.replace(_calling(text, call), metadata={"pending": True})]
        case _:
            return [Message.agent(text)]


def _done(text: str) -> ToolContent:
    return ToolContent(tool="read", args={"path": "a.py"}, result=text, status="completed")


def _calling(text: str, *call_ids: str) -> Message:
    calls = tuple(ToolCall(id=each, name="search", arguments={"q": "x"}) for each in call_ids)
    return Message.of(Role.AGENT, TextContent(text=text), tool_calls=calls)


def _result(call_id: str, text: str) -> Message:
    return Message.of(Role.TOOL, TextContent(text=text), tool_call_id=call_id)
