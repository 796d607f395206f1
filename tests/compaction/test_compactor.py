"""Carrying plans out: what is refused, what fails, what is overtaken."""

import asyncio
import threading
from typing import Any

import pytest

from holdfast import Message, SessionStatus, Store
from holdfast.compaction.budget import Budget
from holdfast.compaction.compactor import TIMEOUT_SECONDS, Compactor
from holdfast.compaction.errors import PlanRefused, StrategyFailed, SummaryFailed, Superseded
from holdfast.compaction.extractive import extractive
from holdfast.compaction.items import Kind
from holdfast.compaction.on_demand import compact_on_demand
from holdfast.compaction.plan import Fold, Plan, Replacement
from holdfast.compaction.policy import CompactionPolicy
from holdfast.compaction.strategies import STRATEGIES, strategy_of
from holdfast.compaction.summaries import SummaryRequest
from holdfast.compaction.validator import validate
from holdfast.compaction.view import View
from holdfast.compaction.views import read_view
from holdfast.errors import AccessDenied, InvalidInput
from tests.compaction.sessions import COUNTER, SMALL, calling, conversation, filled, result, view_of


class Fixed:
    """A strategy that always has the same plan."""

    name = "fixed"
    version = 1

    def __init__(self, plan: Plan) -> None:
        self._plan = plan

    def plan(self, view: View, budget: Budget, counter: Any) -> Plan | None:
        return self._plan


def folding(first: int, last: int, tokens: int = 50) -> Plan:
    return Plan(folds=(Fold(ranges=((first, last),), tokens=tokens),))


def shortening(seq: int) -> Plan:
    return Plan(replaced=(Replacement(seq=seq, content={"type": "text", "text": ""}),))


REFUSED = {
    "I1: messages 3–4 belong together": folding(2, 3),
    "I3: messages 1 must stay": folding(1, 5),
    "I3: messages 42 must stay": folding(34, 45),
    "I5: messages 90–99 are not in the view": folding(90, 99),
    "I5: it says two things": Plan(folds=folding(2, 5).folds, dropped=((3, 4),)),
    "I5: its ranges are not in order": Plan(dropped=((6, 9), (2, 5))),
    "I1: the view would begin with what the agent said": Plan(dropped=((2, 2),)),
    "I3: messages 1 must stay as they are, and would be shortened": shortening(1),
    "I6: the view would take": folding(2, 5, 10_000),
    "I7: it does nothing": Plan(),
    "I7: it would save": folding(2, 5, 350),
}


@pytest.mark.parametrize("broken", REFUSED)
def test_a_plan_that_breaks_an_invariant_is_refused_and_the_invariant_named(broken: str) -> None:
    rest = [Message.user("the last thing"), calling("x"), result("x"), Message.agent("so it is")]
    view = view_of([*conversation(10), *rest])
    with pytest.raises(PlanRefused, match=broken):
        validate("hostile", view, REFUSED[broken], Budget(window=5_000))


@pytest.mark.parametrize("spec", [{"name": "sliding_window", "max_messages": 6}, "hard_clear"], ids=str)
def test_what_is_left_of_a_conversation_begins_with_a_question(spec: str | dict[str, Any]) -> None:
    view = view_of(conversation(10))
    plan = strategy_of(spec).plan(view, SMALL, COUNTER)
    assert plan is not None
    shown = validate("", view, plan, SMALL).messages
    assert [message.role.value for message in shown] == ["system", "user", "agent", "tool", "agent"]


@pytest.mark.parametrize("spec", [{"name": "sliding_window", "max_messages": 6}, "hard_clear"], ids=str)
def test_an_answer_that_must_stay_keeps_its_question(spec: str | dict[str, Any]) -> None:
    told = conversation(10)
    told[8] = Message.agent("Never deploy on a Friday.", metadata={"pinned": True})
    view = view_of(told)
    plan = strategy_of(spec).plan(view, SMALL, COUNTER)
    assert plan is not None
    shown = validate("", view, plan, SMALL).messages
    assert [message.seq for message in shown[:3]] == [1, 6, 9]


async def test_a_part_of_a_summary_cannot_be_left_out(store: Store) -> None:
    session = await filled(store, conversation(10))
    folds = strategy_of({"name": "summarize", "keep_recent_turns": 2})
    compaction = await Compactor(store, folds, counter=COUNTER).compact(session, SMALL)
    assert compaction is not None
    behind = Plan(dropped=((compaction.last_seq - 3, compaction.last_seq + 4),))
    with pytest.raises(PlanRefused, match=f"I1: messages 2–{compaction.last_seq} belong together"):
        validate("hostile", await read_view(store, session, COUNTER), behind, SMALL)


async def test_a_refused_plan_changes_nothing(store: Store) -> None:
    session = await filled(store, conversation(4))
    with pytest.raises(PlanRefused, match="Nothing was changed"):
        await Compactor(store, Fixed(folding(2, 3)), counter=COUNTER).compact(session, SMALL)
    assert [*await store.list_compactions(session)] == []


async def test_a_view_that_cannot_fit_is_an_error_that_says_so(store: Store) -> None:
    session = await filled(store, [Message.system("rule " * 4_000), *conversation(3)[1:]])
    with pytest.raises(PlanRefused, match="I6"):
        await Compactor(store, strategy_of("summarize"), counter=COUNTER).compact(session, SMALL)


@pytest.mark.parametrize("fault", ["raises", "empty", "unstorable", "slow"])
async def test_a_summariser_that_fails_changes_nothing(store: Store, fault: str) -> None:
    session = await filled(store, conversation(12))
    before = await read_view(store, session, COUNTER)

    async def faulty(request: SummaryRequest) -> str:
        match fault:
            case "raises":
                raise RuntimeError("the model is down")
            case "slow":
                await asyncio.Event().wait()
        return "a\0b" if fault == "unstorable" else "  "

    patience = 2 if fault == "slow" else TIMEOUT_SECONDS  # planning takes its time of it too
    compactor = Compactor(
        store, strategy_of("summarize"), summarizer=faulty, counter=COUNTER, timeout=patience
    )
    with pytest.raises(SummaryFailed, match="Nothing was changed"):
        await compactor.compact(session, SMALL)
    assert (await read_view(store, session, COUNTER)).messages == before.messages


async def test_what_is_said_during_a_compaction_is_kept_and_shown(store: Store) -> None:
    session = await filled(store, conversation(12))

    async def overtaken(request: SummaryRequest) -> str:
        await store.append_messages(session, [Message.user("hurry up")])
        return await extractive(request)

    compactor = Compactor(store, strategy_of("summarize"), summarizer=overtaken, counter=COUNTER)
    assert await compactor.compact(session, SMALL) is not None
    view = await read_view(store, session, COUNTER)
    assert view.messages[-1].text == "hurry up"
    assert view.items[1].kind is Kind.SUMMARY


async def test_a_session_in_which_somebody_never_stops_talking_is_compacted(store: Store) -> None:
    session = await filled(store, conversation(250))
    compactor = Compactor(store, strategy_of("summarize"), counter=COUNTER)

    over = asyncio.Event()

    async def talk() -> None:
        while not over.is_set():
            await store.append_messages(session, [Message.agent("and ")])

    async with asyncio.TaskGroup() as talking:
        for _ in range(3):
            talking.create_task(talk())
        try:
            compaction = await compactor.compact(session, Budget(window=40_000, target=1_000))
        finally:
            over.set()
    assert compaction is not None
    view = await read_view(store, session, COUNTER)
    assert (view.head, view.last_seq) == (compaction.id, (await store.get_session(session)).message_count)
    assert view.messages[-1].text == "and "


async def test_a_strategy_that_fails_or_never_ends_is_named_and_changes_nothing(store: Store) -> None:
    session = await filled(store, conversation(4))
    over = threading.Event()

    class Endless(Fixed):
        def plan(self, view: View, budget: Budget, counter: Any) -> Plan | None:
            over.wait()
            return None

    class Wrong(Fixed):
        def plan(self, view: View, budget: Budget, counter: Any) -> Plan | None:
            raise ZeroDivisionError("by zero")

    try:
        with pytest.raises(StrategyFailed, match=r"'fixed' made no plan: it took longer than 0.05 seconds"):
            await Compactor(store, Endless(Plan()), timeout=0.05).compact(session, SMALL)
    finally:
        over.set()
    with pytest.raises(StrategyFailed, match=r"it failed with ZeroDivisionError\('by zero'\)"):
        await Compactor(store, Wrong(Plan())).compact(session, SMALL)
    assert [*await store.list_compactions(session)] == []


async def test_of_two_compactions_at_once_one_is_recorded(store: Store) -> None:
    session = await filled(store, conversation(12))
    both = asyncio.Barrier(2)

    async def together(request: SummaryRequest) -> str:
        await both.wait()
        return await extractive(request)

    compactor = Compactor(store, strategy_of("summarize"), summarizer=together, counter=COUNTER)
    outcomes = await asyncio.gather(
        *(compactor.compact(session, SMALL) for _ in range(2)), return_exceptions=True
    )
    assert sorted(type(outcome).__name__ for outcome in outcomes) == ["Compaction", Superseded.__name__]
    assert len(await store.list_compactions(session)) == 1


async def test_compacting_again_without_anything_new_records_nothing(store: Store) -> None:
    session = await filled(store, conversation(12))
    for name in STRATEGIES:
        compactor = Compactor(store, strategy_of(name), counter=COUNTER)
        await compactor.compact(session, SMALL)
        count = (await store.get_session(session)).compaction_count
        assert await compactor.compact(session, SMALL) is None, name
        assert (await store.get_session(session)).compaction_count == count


async def test_asking_for_a_compaction_again_without_anything_new_records_nothing(store: Store) -> None:
    session = await filled(store, conversation(30))
    policy = CompactionPolicy()
    done = [await compact_on_demand(store, await store.get_session(session), policy) for _ in range(4)]
    assert [each is not None for each in done] == [True, False, False, False]
    await store.append_messages(session, conversation(30)[1:])
    assert await compact_on_demand(store, await store.get_session(session), policy) is not None


async def test_a_compacted_session_is_compacted_until_something_is_said(store: Store) -> None:
    session = await filled(store, conversation(12))
    compaction = await Compactor(store, strategy_of("summarize"), counter=COUNTER).compact(session, SMALL)
    assert (await store.get_session(session)).status is SessionStatus.COMPACTED
    await store.append_messages(session, [Message.user("more")])
    assert (await store.get_session(session)).status is SessionStatus.ACTIVE
    assert compaction is not None
    await store.undo_compaction(session, compaction.id)
    assert (await store.get_session(session)).status is SessionStatus.ACTIVE


@pytest.mark.req("STO-20")
async def test_another_agent_may_not_compact_a_session(store: Store) -> None:
    session = await filled(store, conversation(12), agent="main")
    other = store.as_agent("other")
    with pytest.raises(AccessDenied, match=r"belongs to agent 'main'; agent 'other' has no access"):
        await Compactor(other, strategy_of("summarize"), counter=COUNTER).compact(session, SMALL)
    assert (await store.get_session(session)).compaction_count == 0


def test_the_names_of_the_document_mean_our_strategies() -> None:
    meant = {
        "None": "none",
        "SlidingWindow": "sliding_window",
        "Summarize": "summarize",
        "Summary": "summarize",
        "AdaptiveChunking": "hierarchical",
        "HardClear": "hard_clear",
        "ToolResultTruncation": "tool_result_trim",
    }
    assert {name: strategy_of(name).name for name in meant} == meant
    assert strategy_of({"name": "Summary", "keep_recent": 4}) == strategy_of(
        {"name": "summarize", "keep_recent_messages": 4}
    )
    with pytest.raises(InvalidInput, match="there are none, sliding_window"):
        strategy_of("magic")
    with pytest.raises(InvalidInput, match="keep_all"):
        strategy_of({"name": "summarize", "keep_all": True})
