"""Summaries: of the session's own words, and of a model's."""

from typing import Any

import pytest

from holdfast import Message, NewSession, Store
from holdfast.compaction.budget import Budget
from holdfast.compaction.compactor import Compactor
from holdfast.compaction.errors import SummaryFailed
from holdfast.compaction.extractive import extract
from holdfast.compaction.on_demand import compact_on_demand
from holdfast.compaction.policy import policy_of
from holdfast.compaction.responses import ResponsesSummarizer
from holdfast.compaction.strategies import strategy_of
from holdfast.compaction.tokens import ExactCounter
from holdfast.compaction.views import read_view
from holdfast.config import ProviderSettings
from holdfast.errors import InvalidInput
from holdfast.model.content import CompactionContent, PlanContent
from tests.compaction.model_server import model_server, responded
from tests.compaction.sessions import COUNTER, SMALL, conversation, filled, placed, result

EXACT = ExactCounter()

SUMMARIZE: dict[str, Any] = {"strategy": "summarize"}

TALK = [
    Message.user("Please find out why the login in src/auth/session.py fails for user 4711. It is urgent."),
    result("c1", "Traceback (most recent call last):\n  ...\nTokenExpired: token 9f8e7d6c5b4a is expired"),
    Message.agent("The clock is skewed. We decided to allow 30 s of leeway, because NTP drifts."),
    Message.agent("Thanks. It was a pleasure. Should the same hold for refresh tokens?"),
]


def test_names_decisions_failures_and_open_questions_are_kept() -> None:
    summary = extract(placed(TALK), 200, EXACT)
    for kept in ("src/auth/session.py", "30 s of leeway", "TokenExpired", "refresh tokens?", "9f8e7d6c5b4a"):
        assert kept in summary
    assert EXACT.count(summary) <= 200


def test_a_persons_terms_and_next_steps_have_their_places_and_pleasantries_none() -> None:
    said = [
        Message.user("Please add a retry to src/client.py. It must not retry POST requests."),
        Message.agent("Let me look. Next step: update docs/client.md for the new option."),
        Message.user("Never push to main. Thanks!"),
    ]
    assert extract(placed(said), 200, EXACT).splitlines()[:-1] == [
        "Asked:",
        "- Please add a retry to src/client.py.",
        "Required:",
        "- It must not retry POST requests.",
        "- Never push to main.",
        "Open:",
        "- Next step: update docs/client.md for the new option.",
        "Names:",
    ]


def test_of_a_plan_only_what_the_last_one_leaves_open_is_open() -> None:
    def plan(*statuses: str) -> Message:
        steps = ({"content": f"Step {n}", "status": status} for n, status in enumerate(statuses))
        return Message.of("system", PlanContent(steps=tuple(steps)))

    said = [Message.user("Go through the steps of the plan."), plan("pending", "pending")]
    assert "- Step 0\n- Step 1" in extract(placed(said), 200, EXACT)
    summary = extract(placed([*said, plan("completed", "in_progress")]), 200, EXACT)
    assert "Step 0" not in summary
    assert "Open:\n- Step 1" in summary


def test_short_orders_and_reports_are_kept() -> None:
    said = [
        Message.user("Refactor the parser in src/parse.py, please. Do not push. Use tabs only. Thank you."),
        Message.agent("Sure. Tests fail. It is done."),
    ]
    summary = extract(placed(said), 200, EXACT)
    for kept in ("- Do not push.", "- Use tabs only.", "- Tests fail.", "- It is done."):
        assert kept in summary.splitlines()
    assert "Thank you" not in summary
    assert "Sure" not in summary


def test_a_long_listing_does_not_take_the_place_of_names_that_were_said() -> None:
    listing = "\n".join(f"def step_{n}(value): return value" for n in range(200))
    said = [Message.user("Look at src/steps.py, please: something is slow there."), result("c1", listing)]
    summary = extract(placed(said), 60, EXACT)
    assert "src/steps.py" in summary.splitlines()[-1]


def test_what_stands_out_is_kept_among_much_that_is_routine() -> None:
    said = [
        Message.user("The nightly import is broken. Can you look into BackgroundCompaction, please?"),
        Message.agent("Let's go with Redis for the queue. The module billing.invoice drops the thread."),
        Message.user("OK, switch to Redis then. Ask ada@example.org for the password of db-prod-03:5432."),
        Message.agent("I switched the queue to Redis. Waiting for your word on the retention period."),
        Message.agent("I am not sure whether that is 30 days. Let me know which one you want."),
    ]
    for step in range(40):
        said += [
            Message.user(f"Continue with step {step} please, thank you very much indeed"),
            Message.agent(
                f"Step {step} is complete and everything looks good so far in this part of the work"
            ),
        ]
    summary = extract(placed(said), 300, EXACT)
    for kept in (
        *("BackgroundCompaction", "billing.invoice", "ada@example.org", "db-prod-03:5432"),
        *("go with Redis", "Waiting for your word", "not sure whether", "Let me know"),
    ):
        assert kept in summary
    assert summary.count("Continue with step") == 1


@pytest.mark.parametrize("tokens", [1, 5, 20, 60, 150, 1_000])
def test_a_summary_fits_and_is_the_same_every_time(tokens: int) -> None:
    said = placed([*TALK, *conversation(20), Message.user("🧵" * 500)])
    summary = extract(said, tokens, EXACT)
    assert EXACT.count(summary) <= tokens
    assert summary
    assert summary == extract(said, tokens, EXACT)


def test_a_summary_of_a_summary_keeps_what_the_first_one_kept() -> None:
    first = extract(placed(TALK), 300, EXACT)
    content = CompactionContent(compaction_id="", summary=first, first_seq=1, last_seq=4)
    second = extract([Message.of("system", content), *placed(conversation(2))], 400, EXACT)
    for kept in ("src/auth/session.py", "30 s of leeway", "refresh tokens?", "part_2 returns 2"):
        assert kept in second


async def test_a_model_is_asked_for_a_summary_through_the_responses_api(store: Store) -> None:
    session = await filled(store, conversation(12))
    async with model_server() as model:
        summarizer = ResponsesSummarizer("small", base_url=model.url, api_key="none")
        strategy = strategy_of({"name": "summarize", "instructions": "Mention the tests."})
        compactor = Compactor(store, strategy, summarizer=summarizer, counter=COUNTER)
        compaction = await compactor.compact(session, SMALL)
    assert compaction is not None
    assert compaction.summary == "They agreed on PostgreSQL."
    (request,) = model.requests
    assert request["model"] == "small"
    assert "Mention the tests." in request["instructions"]
    assert "What is in src/part_1.py" in request["input"]
    view = await read_view(store, session, COUNTER)
    assert "They agreed on PostgreSQL." in str(view.messages[1].content)


async def test_what_is_too_long_for_the_model_is_summarised_in_stretches(store: Store) -> None:
    said = [
        *conversation(40),
        Message.user("one long word " * 1_000),
        Message.agent("done"),
        Message.user("?"),
    ]
    session = await filled(store, said)
    async with model_server() as model:
        summarizer = ResponsesSummarizer("small", base_url=model.url, api_key="none", window=2_000)
        strategy = strategy_of({"name": "summarize", "keep_recent_messages": 1})
        compactor = Compactor(store, strategy, summarizer=summarizer, counter=COUNTER)
        done = await compactor.compact(session, Budget(window=100_000, target=1_000))
    assert done is not None
    assert done.summary == "They agreed on PostgreSQL."
    *stretches, last = [request["input"] for request in model.requests]
    assert len(stretches) > 2
    assert all(COUNTER.count(each) <= 1_500 for each in (*stretches, last))
    assert all(any(f"src/part_{turn}.py" in each for each in stretches) for turn in range(1, 41))
    assert last.count("They agreed on PostgreSQL.") == len(stretches)


@pytest.mark.parametrize("fault", ["error", "cut off"])
async def test_a_model_that_fails_or_is_cut_off_changes_nothing(store: Store, fault: str) -> None:
    session = await filled(store, conversation(12))
    async with model_server() as model:
        if fault == "error":
            model.status, model.answer = 400, {"error": {"message": "no such model", "type": "invalid"}}
        else:
            model.answer = responded("They agr", "incomplete")
        summarizer = ResponsesSummarizer("small", base_url=model.url, api_key="none")
        with pytest.raises(SummaryFailed, match="no such model" if fault == "error" else "cut off"):
            await Compactor(store, strategy_of("summarize"), summarizer=summarizer, counter=COUNTER).compact(
                session, SMALL
            )
    assert (await store.get_session(session)).compaction_count == 0


@pytest.mark.parametrize(
    ("context", "stored"),
    [
        ({"provider": "local", "compaction": SUMMARIZE | {"model": "small"}}, False),
        ({"provider": "elsewhere", "compaction": SUMMARIZE | {"model": "small", "provider": "local"}}, False),
        ({"compaction": SUMMARIZE | {"model": "small", "provider": "local"}}, True),
    ],
)
async def test_a_session_is_summarised_at_its_contexts_provider_and_nowhere_else(
    store: Store, monkeypatch: pytest.MonkeyPatch, context: dict[str, Any], stored: bool
) -> None:
    context_id = "0198-stored" if stored else "default"
    session = await store.create_session(NewSession(agent="default", agent_context_id=context_id))
    await store.append_messages(session.id, conversation(12))
    async with model_server() as local, model_server() as other:
        monkeypatch.setenv("OPENAI_BASE_URL", other.url)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-of-somebody-else")
        monkeypatch.setenv("LOCAL_KEY", "sk-local")
        providers = {
            "local": ProviderSettings(base_url=local.url, api_key_env="LOCAL_KEY"),
            "elsewhere": ProviderSettings(base_url=other.url),
        }
        policy = policy_of(session, {}, {"default": context}, providers)
        done = await compact_on_demand(store, session, policy)
        assert done is not None
        assert done.summary == "They agreed on PostgreSQL."
        assert (local.keys, other.requests) == (["Bearer sk-local"], [])


@pytest.mark.parametrize(
    ("context", "context_id", "refused"),
    [
        ({"provider": "local", "compaction": {"model": "small"}}, "default", r"add \[providers.local\]"),
        (
            {"compaction": {"model": "small"}},
            "0198-stored",
            "Nobody knows where .*'small' is: add `provider`",
        ),
        ({"compaction": {"model": "small"}}, "default", "needs a key: set OPENAI_API_KEY"),
    ],
)
async def test_a_model_whose_server_or_key_is_not_known_is_not_asked(
    store: Store, monkeypatch: pytest.MonkeyPatch, context: dict[str, Any], context_id: str, refused: str
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    session = await store.create_session(NewSession(agent="default", agent_context_id=context_id))
    await store.append_messages(session.id, conversation(12))
    with pytest.raises(InvalidInput, match=refused):
        await compact_on_demand(store, session, policy_of(session, {}, {"default": context}, {}))
