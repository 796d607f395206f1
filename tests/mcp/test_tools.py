"""The tools as an agent uses them: asked through the SDK's client, answered by a person."""

import asyncio
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest
from mcp.shared.exceptions import MCPError

from holdfast.mcp.clients import UNKNOWN_CLIENT_SECONDS, patience
from holdfast.model.question import Answer, QuestionStatus
from holdfast.model.times import iso
from holdfast.questions import QuestionBox
from tests.mcp.clients import (
    ANSWERED,
    COLOUR,
    ERAS,
    LANGUAGE,
    ask,
    connected,
    fetch,
    in_process,
    text,
    texts,
    the_pending,
)
from tests.questions.sets import RUST, OtherProgram, rewrite
from tests.waiting import until

BLUE = Answer(question_index=0, selected_option="Blue")


@pytest.mark.usefixtures("process")
@pytest.mark.parametrize("era", ERAS)
async def test_both_tools_are_offered_with_the_limits_of_auq(directory: Path, era: str) -> None:
    async with connected(directory, era=era) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    assert tools.keys() == {"ask_user_questions", "get_answered_questions"}
    asking = tools["ask_user_questions"]
    questions = asking.input_schema["properties"]["questions"]
    assert (questions["minItems"], questions["maxItems"]) == (1, 5)
    assert questions["items"]["required"] == ["prompt", "title", "options", "multiSelect"]
    options = questions["items"]["properties"]["options"]
    assert (options["minItems"], options["maxItems"]) == (2, 5)
    assert options["items"]["required"] == ["label"]
    assert asking.input_schema["properties"]["nonBlocking"]["default"] is False
    assert asking.annotations is not None
    assert (asking.annotations.read_only_hint, asking.annotations.open_world_hint) == (False, True)
    fetching = tools["get_answered_questions"].input_schema
    assert (fetching["required"], fetching["properties"]["blocking"]["default"]) == (["session_id"], False)
    assert "$ref" not in str(asking.input_schema)


@pytest.mark.usefixtures("process")
@pytest.mark.req("ASK-01", "ASK-05", "ASK-25")
@pytest.mark.parametrize("era", ERAS)
async def test_a_question_is_answered_while_the_agent_waits(
    directory: Path, box: QuestionBox, era: str
) -> None:
    async with connected(directory, era=era) as client:
        call = asyncio.create_task(ask(client))
        asked = await the_pending(box)
        assert (asked.agent, asked.working_directory) == ("a-client", str(directory.parent))
        assert asked.call_id is not None
        await box.answer(asked.id, [RUST], by="ada", door="test")
        result = await call
    assert (text(result), result.is_error) == (
        f"[Session: {asked.short_id} | Questions: 1]\n\n{ANSWERED}",
        False,
    )
    assert (await box.get(asked.id)).read_at is not None


@pytest.mark.parametrize("era", ERAS)
async def test_an_agent_that_does_not_wait_fetches_the_answer_later(
    directory: Path, box: QuestionBox, era: str
) -> None:
    async with in_process(directory, era=era) as client:
        submitted = text(await ask(client, nonBlocking=True))
        asked = await the_pending(box)
        short = asked.short_id
        assert submitted == (
            f"[Session: {short} | Questions: 1 | Status: pending]\n\nQuestions submitted successfully.\n"
            f'Use get_answered_questions(session_id="{short}") or `auq fetch-answers {short}` '
            "to retrieve answers."
        )
        assert asked.call_id is None
        assert text(await fetch(client, short)) == f"[Session: {short} | Status: pending]\n\nNo answers yet."
        waiting = asyncio.create_task(fetch(client, short, blocking=True))
        await box.answer(asked.id, [RUST], by="ada", door="test")
        answer = f"[Session: {short} | Questions: 1]\n\n{ANSWERED}"
        assert text(await waiting) == text(await fetch(client, asked.id)) == answer


@pytest.mark.req("ASK-06", "ASK-18", "ASK-19")
@pytest.mark.parametrize(
    ("reason", "told", "fetched"),
    [
        ("not now", 'Rejection reason: "not now"\n\n', ' Reason: "not now"'),
        (None, "No reason provided.\n\n", ""),
    ],
)
async def test_a_rejection_is_told_with_its_reason_on_every_path(
    directory: Path, box: QuestionBox, reason: str | None, told: str, fetched: str
) -> None:
    async with in_process(directory) as client:
        call = asyncio.create_task(ask(client))
        asked = await the_pending(box)
        fetching = asyncio.create_task(fetch(client, asked.short_id, blocking=True))
        await box.reject(asked.id, reason, by="ada", door="test")
        result = await call
        assert (text(result), result.is_error) == (f"User rejected this question set.\n\n{told}", False)
        header = f"[Session: {asked.short_id} | Status: rejected]\n\n"
        expected = f"{header}User rejected this question set.{fetched}"
        assert text(await fetching) == text(await fetch(client, asked.id)) == expected


@pytest.mark.parametrize("era", ERAS)
async def test_a_waiting_call_says_so_at_once_and_again_and_again(
    directory: Path, box: QuestionBox, era: str
) -> None:
    beats: list[tuple[float, str | None]] = []

    async def heard(progress: float, total: float | None, message: str | None) -> None:
        beats.append((progress, message))

    async with in_process(directory, era=era, heartbeat_seconds=0.05) as client:
        call = asyncio.create_task(ask(client, beats=heard))
        asked = await the_pending(box)
        await until(lambda: len(beats) >= 4)
        await box.answer(asked.id, [RUST], by="ada", door="test")
        await call
    counts = [count for count, _ in beats]
    assert counts == sorted(set(counts))
    assert {message for _, message in beats} == {f"waiting for user · session {asked.short_id} · 1 question"}


@pytest.mark.parametrize("era", ERAS)
async def test_a_call_returns_before_its_client_gives_up_and_says_how_to_go_on(
    directory: Path, box: QuestionBox, era: str
) -> None:
    async with in_process(directory, era=era, soft_return_seconds=0.1) as client:
        returned = await ask(client)
        asked = await the_pending(box)
        assert (text(returned), returned.is_error) == (
            f"[Session: {asked.short_id} | Questions: 1 | Status: pending]\n\n"
            "The user has not answered yet, and can still do so.\n"
            f'Use get_answered_questions(session_id="{asked.short_id}", blocking=true) to go on waiting.',
            False,
        )
        assert text(await fetch(client, asked.short_id, blocking=True)) == text(returned)
        await box.answer(asked.id, [RUST], by="ada", door="test")
        assert ANSWERED in text(await fetch(client, asked.short_id, blocking=True))
    answered = await box.get(asked.id)
    assert (answered.status, answered.late) == (QuestionStatus.COMPLETED, False)


def test_how_long_a_call_waits_depends_on_the_client() -> None:
    assert patience("claude-code") is None
    assert patience("gemini-cli-mcp-client-holdfast") == 570
    assert patience("codex-mcp-client") == patience(None) == UNKNOWN_CLIENT_SECONDS == 50


async def test_asking_the_same_again_asks_the_person_once(directory: Path, box: QuestionBox) -> None:
    async with in_process(directory, soft_return_seconds=0.1) as client:
        first = text(await ask(client))
        assert text(await ask(client)) == first
        assert ANSWERED not in first
    waiting: set[int] = set()

    async def waits(number: int, progress: float, total: float | None, message: str | None) -> None:
        waiting.add(number)

    async with in_process(directory) as client:
        calls = [asyncio.create_task(ask(client, COLOUR, beats=partial(waits, each))) for each in range(3)]
        await until(lambda: len(waiting) == 3)
        asked = await the_pending(box)
        await box.answer(asked.id, [BLUE], by="ada", door="test")
        assert {text(await call) for call in calls} == {
            f"[Session: {asked.short_id} | Questions: 1]\n\n"
            "Here are the user's answers:\n\n1. Which colour?\n→ Blue"
        }
    assert len(await box.list()) == 2


async def test_what_was_heard_is_asked_anew(directory: Path, box: QuestionBox) -> None:
    async with in_process(directory, soft_return_seconds=0.1) as client:
        await ask(client)
        first = await the_pending(box)
        await box.reject(first.id, "no", by="ada", door="test")
        assert 'Rejection reason: "no"' in text(await ask(client))  # heard of it only now
        await ask(client)
        second = await the_pending(box)
        await box.answer(second.id, [RUST], by="ada", door="test")
        assert ANSWERED in text(await ask(client))
        await ask(client)
    assert len(await box.list()) == 3


async def test_the_same_question_of_another_agent_is_another_one(directory: Path, box: QuestionBox) -> None:
    for agent in ("one", "two"):
        async with in_process(directory, agent=agent) as client:
            await ask(client, nonBlocking=True)
    assert len(await box.list()) == 2


@pytest.mark.usefixtures("process")
async def test_the_agent_and_the_session_come_from_arguments_or_the_environment(
    directory: Path, box: QuestionBox
) -> None:
    async with connected(directory, "--agent", "gemini", "--session", "s-1") as client:
        await ask(client, nonBlocking=True)
    async with connected(directory, HOLDFAST_AGENT="claude", HOLDFAST_SESSION="s-2") as client:
        await ask(client, nonBlocking=True)
    assert [(each.agent, each.session_id) for each in await box.list()] == [
        ("gemini", "s-1"),
        ("claude", "s-2"),
    ]


@pytest.mark.usefixtures("process")
@pytest.mark.parametrize("era", ERAS)
async def test_a_cancelled_call_leaves_the_set_answerable_and_the_answer_is_not_lost(
    directory: Path, box: QuestionBox, era: str
) -> None:
    async with connected(directory, era=era) as client:
        call = asyncio.create_task(ask(client))
        asked = await the_pending(box)
        call.cancel()

        async def is_abandoned() -> bool:
            return (await box.get(asked.id)).status is QuestionStatus.ABANDONED

        await until(is_abandoned)
        await box.answer(asked.id, [RUST], by="ada", door="test")
        late = f"[Session: {asked.short_id} | Questions: 1]\n\n{ANSWERED}"
        assert text(await ask(client)) == late
    assert len(await box.list()) == 1


async def test_a_late_answer_comes_with_whatever_is_asked_next(directory: Path, box: QuestionBox) -> None:
    async with in_process(directory) as client:
        calls = [asyncio.create_task(ask(client, question)) for question in (LANGUAGE, COLOUR)]

        async def are_asked() -> bool:
            return len(await box.list({QuestionStatus.PENDING})) == 2

        await until(are_asked)
    for call in calls:
        call.cancel()
    language, colour = sorted(await box.list(), key=lambda each: each.questions[0].title, reverse=True)
    await box.answer(language.id, [RUST], by="ada", door="test")
    await box.reject(colour.id, "grey", by="ada", door="test")
    async with in_process(directory) as client:
        first, *late = texts(await ask(client, {**COLOUR, "title": "Shade"}, nonBlocking=True))
        assert "Questions submitted successfully." in first
        assert set(late) == {
            f"[Session: {language.short_id} | Questions: 1]\n\n{ANSWERED}",
            f"[Session: {colour.short_id} | Status: rejected]\n\n"
            'User rejected this question set. Reason: "grey"',
        }
        assert len(texts(await ask(client, {**COLOUR, "title": "Hue"}, nonBlocking=True))) == 1


@pytest.mark.parametrize("era", ERAS)
async def test_failures_are_marked_and_say_what_is_wrong(directory: Path, era: str) -> None:
    async with in_process(directory, era=era) as client:
        unknown = await fetch(client, "deadbeef")
        assert (text(unknown), unknown.is_error) == (
            "Error fetching answers: Error: Session not found: deadbeef",
            True,
        )
        nothing = await client.call_tool("ask_user_questions", {"questions": []})
        assert nothing.is_error
        assert text(nothing).startswith("Tool 'ask_user_questions' parameter validation failed: ")
        single = await ask(client, {**LANGUAGE, "options": [{"label": "Rust"}]})
        assert single.is_error
        assert "$.questions[0].options" in text(single)
        twice = await ask(client, {**LANGUAGE, "options": [{"label": "Rust"}, {"label": "Rust"}]})
        assert (text(twice), twice.is_error) == (
            "Error in session: Error: Two options of question 1 have the same label.",
            True,
        )
        with pytest.raises(MCPError, match="Unknown tool"):
            await client.call_tool("guess", {})


@pytest.mark.usefixtures("process")
@pytest.mark.req("ASK-07")
async def test_a_time_limit_that_is_set_ends_the_question(directory: Path, box: QuestionBox) -> None:
    async with connected(directory, timeout_seconds=2, soft_return_seconds=0.1) as client:
        assert "go on waiting" in text(await ask(client))
        (asked,) = await box.list()

        async def is_over() -> bool:
            return (await fetch(client, asked.short_id, blocking=True)).is_error

        await until(is_over)
        failed = await fetch(client, asked.id)
        assert text(failed) == (
            f"[Session: {asked.short_id} | Status: timed_out]\n\nSession is no longer active."
        )
    assert (await box.get(asked.id)).status is QuestionStatus.TIMED_OUT


async def test_a_full_directory_refuses_and_the_limit_is_the_one_that_is_set(
    directory: Path, box: QuestionBox
) -> None:
    async with in_process(directory, limit=1) as client:
        await ask(client, nonBlocking=True)
        refused = await ask(client, COLOUR)
        assert refused.is_error
        assert "1 question sets wait for an answer" in text(refused)
        (asked,) = await box.list()
        await box.answer(asked.id, [RUST], by="ada", door="test")
        assert not (await ask(client, COLOUR, nonBlocking=True)).is_error
    assert [each.questions[0].title for each in await box.list({QuestionStatus.PENDING})] == ["Colour"]


@pytest.mark.req("ASK-23")
async def test_asking_sweeps_what_is_past_the_retention_that_is_set(
    directory: Path, box: QuestionBox
) -> None:
    old, new = OtherProgram(directory).ask(), OtherProgram(directory).ask()
    then = iso(datetime.now(UTC) - timedelta(days=3))
    rewrite(directory, old, "status.json", createdAt=then, lastModified=then)
    async with in_process(directory, retention_days=2) as client:
        await ask(client, nonBlocking=True)
    left = {each.id for each in await box.list()}
    assert old not in left
    assert new in left


@pytest.mark.req("ASK-08", "ASK-29")
async def test_answers_of_another_program_that_make_no_sense_are_an_error(
    directory: Path, box: QuestionBox
) -> None:
    async with in_process(directory) as client:
        call = asyncio.create_task(ask(client))
        asked = await the_pending(box)
        OtherProgram(directory).answer(asked.id, {"questionIndex": 0, "selectedOption": "Cobol"})
        result = await call
    assert (text(result), result.is_error) == (
        f"Error in session: Error: Answer validation failed for session {asked.id}: "
        "Answer for question 0 references non-existent option: Cobol",
        True,
    )
    assert (await box.get(asked.id)).status is QuestionStatus.ABANDONED
