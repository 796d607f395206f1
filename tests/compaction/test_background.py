"""Compaction after a run: when it is due, and never in the way."""

import asyncio
import logging
from typing import Any

import pytest

from holdfast import Message, NewCompaction, Store
from holdfast.compaction.background import BackgroundCompaction
from holdfast.compaction.budget import Budget
from holdfast.compaction.extractive import extractive
from holdfast.compaction.items import Kind
from holdfast.compaction.plan import Plan
from holdfast.compaction.policy import CompactionPolicy, policies_of
from holdfast.compaction.standing import SessionStanding
from holdfast.compaction.strategy import CompactionStrategy
from holdfast.compaction.summaries import SummaryRequest
from holdfast.compaction.view import View
from holdfast.compaction.views import read_view
from holdfast.errors import InvalidInput
from holdfast.model.tokens import TokenCounter
from tests.compaction.sessions import COUNTER, conversation, filled

AGENTS: dict[str, dict[str, Any]] = {
    "helper": {"compaction": {"window": 4_000, "strategy": {"name": "summarize", "keep_recent_turns": 2}}},
    "terse": {"compaction": {"messages": 20, "share": 1.0, "strategy": "sliding_window"}},
    "manual": {"compaction": {"window": 4_000, "after_run": False}},
    "plain": {},
}


def background(store: Store, **parts: object) -> BackgroundCompaction:
    return BackgroundCompaction(store, policies_of(AGENTS), counter=COUNTER, **parts)  # type: ignore[arg-type]


class Faulty:
    name = "faulty"
    version = 1

    def plan(self, view: View, budget: Budget, counter: TokenCounter) -> Plan | None:
        raise ZeroDivisionError("by zero")


class FaultyPolicy(CompactionPolicy, frozen=True, kw_only=True):
    def planner(self) -> CompactionStrategy:
        return Faulty()


async def failing(request: SummaryRequest) -> str:
    raise RuntimeError("the model is down")


@pytest.mark.req("STO-16")
async def test_after_a_run_a_session_that_needs_it_is_compacted_as_its_agent_is_configured(
    store: Store,
) -> None:
    long = await filled(store, conversation(30), agent="helper")
    short = await filled(store, conversation(3), agent="helper")
    unconfigured = await filled(store, conversation(30), agent="plain")
    manual = await filled(store, conversation(30), agent="manual")
    async with background(store) as work:
        for session in (long, short, unconfigured, manual):
            work.after_run(session)
        (compaction, *others) = [
            await work.settled(session) for session in (long, short, unconfigured, manual)
        ]
    assert others == [None, None, None]
    assert compaction is not None
    assert (compaction.strategy, compaction.params["keep_recent_turns"]) == ("summarize", 2)
    view = await read_view(store, long, COUNTER)
    assert [item.kind for item in view.items].count(Kind.SUMMARY) == 1
    for session in (short, unconfigured, manual):
        assert (await store.get_session(session)).compaction_count == 0


@pytest.mark.parametrize(
    ("policy", "due"),
    [
        ({"share": 0.8, "window": 10_000}, False),
        ({"share": 0.2, "window": 10_000}, True),
        ({"share": None, "tokens": 2_000}, True),
        ({"share": None, "tokens": 200_000}, False),
        ({"share": None, "messages": 41}, True),
        ({"share": None, "messages": 42}, False),
        ({"share": None, "tokens": 1, "strategy": "none"}, False),
    ],
)
async def test_any_of_the_triggers_makes_it_due(store: Store, policy: dict[str, object], due: bool) -> None:
    view = await read_view(store, await filled(store, conversation(10)), COUNTER)
    chosen = CompactionPolicy.of(policy)
    assert (chosen.due(view) is not None) is due


@pytest.mark.parametrize(
    "trigger", [{"share": 0.8, "window": 5_000}, {"tokens": 3_000}, {"messages": 60}], ids=str
)
async def test_each_trigger_shortens_a_session_with_the_default_strategy(
    store: Store, trigger: dict[str, Any]
) -> None:
    session = await filled(store, conversation(30))
    policy = CompactionPolicy.of(trigger)
    before = await read_view(store, session, COUNTER)
    async with BackgroundCompaction(store, lambda _: policy, counter=COUNTER) as work:
        work.after_run(session)
        done = await work.settled(session)
    assert done is not None
    after = await read_view(store, session, COUNTER)
    assert after.tokens <= before.tokens * 0.5
    assert policy.due(after) is None or "messages" in trigger


async def test_a_session_of_too_many_messages_has_fewer_after_some_runs(store: Store) -> None:
    session = await filled(store, conversation(30))
    policy = CompactionPolicy(messages=60)
    async with BackgroundCompaction(store, lambda _: policy, counter=COUNTER) as work:
        for _ in range(3):
            await store.append_messages(session, [Message.user("and now?"), Message.agent("so it is")])
            work.after_run(session)
            await work.settled(session)
    assert len((await read_view(store, session, COUNTER)).items) < 60


async def test_the_next_message_does_not_wait_for_a_summary(store: Store) -> None:
    session = await filled(store, conversation(30), agent="helper")
    asked, answer = asyncio.Event(), asyncio.Event()

    async def slow(request: SummaryRequest) -> str:
        asked.set()
        await answer.wait()
        return await extractive(request)

    async with background(store, summarizer=slow) as work:
        work.after_run(session)
        await asked.wait()
        await store.append_messages(session, [Message.user("meanwhile")])
        answer.set()
        assert await work.settled(session) is not None
    assert (await read_view(store, session, COUNTER)).messages[-1].text == "meanwhile"


async def test_a_compaction_that_is_cancelled_leaves_the_session_as_it_was(store: Store) -> None:
    session = await filled(store, conversation(30), agent="helper")
    asked = asyncio.Event()

    async def endless(request: SummaryRequest) -> str:
        asked.set()
        await asyncio.Event().wait()
        return ""

    async with background(store, summarizer=endless) as work:
        work.after_run(session)
        await asked.wait()
        await work.cancel(session)
    after = await store.get_session(session)
    assert (after.compaction_count, SessionStanding.of(after).failures) == (0, 0)


async def test_what_a_cancelled_compaction_had_begun_to_write_is_written_when_the_cancel_returns(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = await filled(store, conversation(30), agent="helper")
    begun, go_on = asyncio.Event(), asyncio.Event()
    commit = Store.commit_compaction

    async def slow(*args: Any, **kwargs: Any) -> Any:
        begun.set()
        await go_on.wait()
        return await commit(*args, **kwargs)

    monkeypatch.setattr(Store, "commit_compaction", slow)
    async with background(store) as work:
        work.after_run(session)
        await begun.wait()
        asyncio.get_running_loop().call_soon(go_on.set)
        await work.cancel(session)
        assert (await store.get_session(session)).compaction_count == 1


async def test_after_repeated_failure_it_stops_and_says_so_until_one_on_demand_succeeds(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    session = await filled(store, conversation(30), agent="helper")
    asked = 0

    async def counted(request: SummaryRequest) -> str:
        nonlocal asked
        asked += 1
        return await failing(request)

    with caplog.at_level(logging.WARNING, "holdfast.compaction"):
        async with background(store, summarizer=counted) as work:
            for _ in range(5):
                work.after_run(session)
                await work.settled(session)
    assert asked == 3
    stopped = SessionStanding.of(await store.get_session(session)).stopped
    assert stopped is not None
    assert "failed 3 times in a row" in stopped
    assert "the model is down" in stopped
    assert stopped in caplog.text
    async with background(store) as work:
        assert await work.compact(session) is not None
    assert SessionStanding.of(await store.get_session(session)) == SessionStanding()


async def test_a_strategy_with_a_fault_is_stopped_after_some_runs_and_named(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    policy = FaultyPolicy(messages=1, share=None)
    session = await filled(store, conversation(3), agent="helper")
    with caplog.at_level(logging.WARNING, "holdfast.compaction"):
        async with BackgroundCompaction(store, lambda _: policy, counter=COUNTER) as work:
            for _ in range(5):
                work.after_run(session)
                assert await work.settled(session) is None
    stopped = SessionStanding.of(await store.get_session(session)).stopped or ""
    assert "failed 3 times in a row" in stopped
    assert "The strategy 'faulty' made no plan: it failed with ZeroDivisionError('by zero')." in stopped
    assert caplog.text.count("was not compacted: The strategy 'faulty' made no plan") == 3


async def test_being_overtaken_by_another_compaction_is_no_failure(store: Store) -> None:
    session = await filled(store, conversation(30), agent="helper")

    async def overtaken(request: SummaryRequest) -> str:
        by_hand = NewCompaction(first_seq=2, last_seq=5, strategy="by hand", summary="one")
        compaction = await store.commit_compaction(session, by_hand)
        await store.undo_compaction(session, compaction.id)
        return await extractive(request)

    async with background(store, summarizer=overtaken) as work:
        for _ in range(4):
            work.after_run(session)
            assert await work.settled(session) is None
    assert SessionStanding.of(await store.get_session(session)) == SessionStanding()


async def test_reported_usage_is_learned_and_makes_the_room_smaller(store: Store) -> None:
    session = await filled(store, conversation(3), agent="helper")
    async with background(store) as work:
        for _ in range(10):
            await work.report_usage(session, counted=1_000, reported=1_500)
    ratio = SessionStanding.of(await store.get_session(session)).token_ratio
    assert 1.4 < ratio <= 1.5
    policy = CompactionPolicy.of(AGENTS["helper"]["compaction"])
    assert policy.budget(ratio).room < policy.budget().room * 0.75


@pytest.mark.parametrize(
    "wrong",
    [
        {"share": 1.5},
        {"share": 0.5, "target": 0.9},
        {"share": 0.5, "target": 0.5},
        {"share": None},
        {"tokens": -5},
        {"messages": 0},
        {"reserve": -1},
        {"failures": 0},
        {"timeout_seconds": float("nan")},
        {"window": 10, "overhead": 20},
        {"colour": "red"},
        {"strategy": "magic"},
        {"strategy": {"name": "sliding_window", "max_messages": -1}},
        {"strategy": {"name": "summarize", "keep_recent_turns": -3}},
        {"strategy": {"name": "summarize", "summary_budget": -5}},
        {"strategy": {"name": "tool_result_trim", "head": -1500, "tail": 1600}},
        {"strategy": {"name": "tool_result_clear", "keep": -5}},
        {"strategy": {"name": "hard_clear", "keep_recent": -2}},
        {"strategy": {"name": "hierarchical", "leaf_tokens": 0}},
    ],
    ids=str,
)
def test_settings_that_cannot_be_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        CompactionPolicy.of(wrong)
