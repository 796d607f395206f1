"""Agents ask for permission, people or the policy answer: through a real directory of question sets."""

import asyncio
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from acp.schema import RequestPermissionRequest, RequestPermissionResponse
from hypothesis import given
from hypothesis import strategies as st

from holdfast.agents.labels import unique_labels
from holdfast.agents.permission_request import PermissionRequest
from holdfast.agents.permissions import Decision, Policy, Rule, ToolKind
from holdfast.agents.wire import Refusal
from holdfast.errors import StoreFull
from holdfast.model.question import (
    AlreadySettled,
    NewQuestionSet,
    Question,
    QuestionKind,
    QuestionSet,
    QuestionStatus,
)
from holdfast.questions import QuestionBox, locks
from holdfast.questions.locks import guard
from tests.agents.people import SESSION, World, choice, form, raw, running, several, text
from tests.waiting import SECONDS, returned, until

ONCE = {"optionId": "proceed_once", "name": "Allow", "kind": "allow_once"}
ALWAYS = {"optionId": "proceed_always", "name": "Allow for this session", "kind": "allow_always"}
REJECT = {"optionId": "cancel", "name": "Reject", "kind": "reject_once"}
NEVER = {"optionId": "never", "name": "Never", "kind": "reject_always"}

SELECTED = {
    option["optionId"]: {"outcome": {"outcome": "selected", "optionId": option["optionId"]}}
    for option in (ONCE, ALWAYS, REJECT, NEVER)
}
CANCELLED = {"outcome": {"outcome": "cancelled"}}


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def permission(*options: dict[str, str], **call: Any) -> msgspec.Raw:
    """A request as Gemini CLI sends it."""
    diff = {"type": "diff", "path": "hello.txt", "oldText": "", "newText": "hi\n"}
    tool = {
        "toolCallId": "write_file__0",
        "status": "pending",
        "title": "Writing to hello.txt",
        "content": [diff],
        "locations": [{"path": "hello.txt"}],
        "kind": "edit",
    } | call
    params = {"sessionId": "55b1", "options": list(options or (ALWAYS, ONCE, REJECT)), "toolCall": tool}
    RequestPermissionRequest.model_validate(params)
    return raw(params)


async def permitted(coroutine: Any) -> dict[str, Any]:
    async with running(coroutine) as task:
        pass
    result = task.result()
    RequestPermissionResponse.model_validate(result)
    return result


# Permissions


@pytest.mark.parametrize(
    ("option", "outcome"), [(ONCE, "allowed"), (ALWAYS, "allowed"), (REJECT, "denied")], ids=str
)
async def test_the_option_that_a_person_chooses_is_the_answer(
    world: World, option: dict[str, str], outcome: str
) -> None:
    asking = world.asking()
    async with running(asking.permission(permission())) as task:
        asked = await world.asked()
        assert asking.pending == 1
        await world.say(asked, choice(option["name"]))
    RequestPermissionResponse.model_validate(task.result())
    assert task.result() == SELECTED[option["optionId"]]
    assert asking.pending == 0
    (entry,) = world.audited
    assert entry[:2] == ("agent.permission", outcome)
    assert entry[2] == {
        "tool": "Writing to hello.txt",
        "kind": "edit",
        "paths": ["hello.txt"],
        "question_set": asked.id,
        "status": "completed",
        "person": "ada",
        "door": "tui",
        "option": option["name"],
    }
    assert (await world.box.get(asked.id)).read_at is not None


async def test_the_question_shows_what_is_asked_for(world: World) -> None:
    asking = world.asking()
    request = permission(ONCE, NEVER, title="Run it", rawInput={"command": ["rm", "-r", "a b"]})
    async with running(asking.permission(request)):
        asked = await world.box.get((await world.asked()).id)
        (question,) = asked.questions
        assert question.prompt == (
            "gemini asks for permission: Run it\nCommand: rm -r 'a b'\nFiles: hello.txt"
        )
        assert [(option.label, option.description) for option in question.options] == [
            ("Allow", "Allow this time only"),
            ("Never", "Refuse now, and do not ask again"),
        ]
        assert (asked.kind, asked.agent, asked.session_id) == (QuestionKind.PERMISSION, "gemini", SESSION)
        assert asked.working_directory == str(world.workspace.root)
        assert asked.tool is not None
        assert asked.tool["content"][0]["newText"] == "hi\n"
        await world.say(asked, choice("Allow"))


@pytest.mark.parametrize(
    ("title", "command", "shown"),
    [
        ("Show details", "ls", "Show details\nCommand: ls\nFiles: hello.txt"),
        ("`make test`", "make test", "`make test`\nFiles: hello.txt"),
        ("Write 'hello.txt'", None, "Write 'hello.txt'"),
        ("Write othello.txt", None, "Write othello.txt\nFiles: hello.txt"),
    ],
)
async def test_a_command_or_file_that_the_title_only_resembles_is_named(
    world: World, title: str, command: str | None, shown: str
) -> None:
    request = permission(ONCE, title=title, rawInput={"command": command} if command else {})
    async with running(world.asking().permission(request)):
        asked = await world.asked()
        assert asked.questions[0].prompt == f"gemini asks for permission: {shown}"
        await world.say(asked, choice("Allow"))


async def test_options_with_the_same_name_are_told_apart(world: World) -> None:
    options = [{"optionId": str(number), "name": "Yes", "kind": "allow_once"} for number in range(3)]
    async with running(world.asking().permission(permission(*options))) as task:
        asked = await world.asked()
        assert [option.label for option in asked.questions[0].options] == ["Yes", "Yes (2)", "Yes (3)"]
        await world.say(asked, choice("Yes (2)"))
    assert task.result()["outcome"]["optionId"] == "1"


NAMES = st.lists(
    st.text(max_size=3) | st.sampled_from(["", "A", "A (2)", "A (3)", " A ", "Option 1"]), min_size=1
)


@given(NAMES)
def test_labels_are_as_many_as_names_and_no_two_alike(names: list[str]) -> None:
    labels = unique_labels(names)
    assert len(set(labels)) == len(labels) == len(names)
    assert all(labels)


@given(NAMES)
def test_every_label_leads_back_to_its_option(names: list[str]) -> None:
    options = [{"optionId": str(number), "name": name, "kind": "x"} for number, name in enumerate(names)]
    request = msgspec.convert({"toolCall": {}, "options": options}, PermissionRequest)
    labels = [option.label for option in request.question("demo").options]
    assert [request.option(label).option_id for label in labels] == [str(n) for n in range(len(names))]


def test_many_equal_names_take_no_time() -> None:
    assert unique_labels(["A"] * 50_000)[-1] == "A (50000)"


REFUSALS: dict[str, tuple[list[dict[str, str]], dict[str, Any]]] = {
    "the option that refuses least": ([ONCE, NEVER, REJECT], SELECTED["cancel"]),
    "the only one that refuses": ([ONCE, NEVER], SELECTED["never"]),
    "none that refuses": ([ONCE, ALWAYS], CANCELLED),
}


@pytest.mark.parametrize(("options", "result"), REFUSALS.values(), ids=REFUSALS)
@pytest.mark.parametrize("word", ["rejected", "own text", "two choices"])
async def test_anything_but_one_choice_is_a_refusal(
    world: World, options: list[dict[str, str]], result: dict[str, Any], word: str
) -> None:
    async with running(world.asking().permission(permission(*options))) as task:
        asked = await world.asked()
        if word == "rejected":
            await world.box.reject(asked.id, "not now", by="ada", door="web")
        elif word == "own text":
            await world.say(asked, text("not now"))
        else:
            await world.say(asked, several(*(option["name"] for option in options[:2])))
    assert task.result() == result
    RequestPermissionResponse.model_validate(result)
    ((_, outcome, detail),) = world.audited
    assert outcome == ("cancelled" if result is CANCELLED else "denied")
    assert detail["person"] == "ada"
    assert word == "two choices" or detail["reason"] == "not now"


async def test_when_the_time_is_over_it_is_refused(world: World, tmp_path: Path) -> None:
    hasty = QuestionBox(tmp_path / "questions", timeout=0.01)
    assert await permitted(world.asking(box=hasty).permission(permission())) == SELECTED["cancel"]
    ((_, outcome, detail),) = world.audited
    assert (outcome, detail["status"]) == ("denied", "timed_out")
    (withdrawn,) = await world.box.list()
    assert withdrawn.status is QuestionStatus.REJECTED
    assert "person" not in detail


async def test_when_nobody_can_be_asked_it_is_refused(world: World) -> None:
    assert await permitted(world.asking(nobody=True).permission(permission())) == SELECTED["cancel"]
    ((_, outcome, detail),) = world.audited
    assert outcome == "denied"
    assert "no place for questions" in detail["reason"]
    assert world.told == [f"The agent was refused without anybody being asked: {detail['reason']}"]


@pytest.mark.req("SEC-17")
async def test_a_permission_is_asked_for_also_where_questions_have_taken_their_room(
    world: World, tmp_path: Path
) -> None:
    full = QuestionBox(tmp_path / "questions", limit=1)
    await full.ask(NewQuestionSet(questions=(Question(title="Which?", prompt="Which?"),)))
    asking = world.asking(box=full)
    async with running(asking.permission(permission())) as answered:
        await world.say(await world.asked(), choice("Allow"))
        assert (await answered)["outcome"]["outcome"] == "selected"
    assert world.told == []


async def test_a_set_that_cannot_be_noted_is_withdrawn_and_refused(world: World) -> None:
    async def fail(question_set: QuestionSet) -> None:
        raise StoreFull("The store is full.")

    assert await permitted(world.asking(noted=fail).permission(permission())) == SELECTED["cancel"]
    (withdrawn,) = await world.box.list()
    assert withdrawn.status is QuestionStatus.REJECTED


async def test_nothing_is_allowed_that_cannot_be_audited(world: World) -> None:
    async def fail(action: str, outcome: str, detail: dict[str, Any]) -> None:
        raise StoreFull("The store is full.")

    with pytest.raises(StoreFull):
        await world.asking(Policy(default=Decision.ALLOW), audit=fail).permission(permission())


async def test_a_cancelled_turn_answers_every_open_request_and_withdraws_it(world: World) -> None:
    asking = world.asking()
    async with (
        running(asking.permission(permission())) as first,
        running(asking.elicitation(form(name={"type": "string"}))) as second,
    ):
        await world.asked(2)
        assert asking.pending == 2
        asking.cancel_all()
    assert first.result() == CANCELLED
    assert second.result() == {"action": "cancel"}
    assert asking.pending == 0
    assert {each.status for each in await world.box.list()} == {QuestionStatus.REJECTED}
    assert sorted((action, outcome) for action, outcome, _ in world.audited) == [
        ("agent.elicitation", "cancelled"),
        ("agent.permission", "cancelled"),
    ]
    assert {detail["reason"] for _, _, detail in world.audited} == {"the turn was cancelled"}
    async with running(asking.permission(permission())) as third:  # the next turn can ask again
        await world.say(await world.asked(3), choice("Allow"))
    assert third.result() == SELECTED["proceed_once"]


async def test_when_the_agent_is_gone_its_question_is_withdrawn(world: World) -> None:
    asking = world.asking()
    task = asyncio.create_task(asking.permission(permission()))
    asked = await world.asked()
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
    assert asking.pending == 0
    assert (await world.box.get(asked.id)).status is QuestionStatus.REJECTED


async def test_what_is_cancelled_while_it_is_being_asked_is_withdrawn(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.box.directory.mkdir(mode=0o700)
    asking = world.asking()
    with guard(world.box.directory):
        taken = returned(monkeypatch, locks, "_try_flock")
        request = asyncio.create_task(asking.permission(permission()))
        await until(lambda: False in taken)  # the new set waits for its place
        asking.cancel_all()
    assert await request == CANCELLED
    assert [each.status for each in await world.box.list()] == [QuestionStatus.REJECTED]
    assert [each.status for each in world.over] == [QuestionStatus.REJECTED]


async def test_what_is_cancelled_while_it_is_noted_is_noted_first(world: World) -> None:
    told: list[QuestionStatus] = []
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def note(question_set: QuestionSet) -> None:
        begun.set()
        await go_on.wait()
        told.append(question_set.status)

    asking = world.asking(noted=note)
    async with running(asking.permission(permission())) as task:
        await begun.wait()
        asking.cancel_all()
        asyncio.get_running_loop().call_soon(go_on.set)
    assert task.result() == CANCELLED
    assert told == [QuestionStatus.PENDING, QuestionStatus.REJECTED]


async def test_nobody_can_allow_what_the_agent_no_longer_waits_for(world: World) -> None:
    asking = world.asking()
    async with running(asking.permission(permission())):
        asked = await world.asked()
        asking.cancel_all()
    with pytest.raises(AlreadySettled, match="already rejected by gemini through its withdrawal"):
        await world.say(asked, choice("Allow"))


async def test_several_requests_are_answered_each_by_its_own_set(world: World) -> None:
    asking = world.asking()
    tasks = [asyncio.create_task(asking.permission(permission(title=f"Tool {n}"))) for n in range(5)]
    await world.asked(5)
    for asked in reversed(world.noted):
        even = int(asked.questions[0].prompt.splitlines()[0][-1]) % 2 == 0
        await world.say(asked, choice("Allow" if even else "Reject"))
    results = [await asyncio.wait_for(task, SECONDS) for task in tasks]
    assert [each["outcome"]["optionId"] for each in results] == ["proceed_once", "cancel"] * 2 + [
        "proceed_once"
    ]


# The policy


@pytest.mark.parametrize(
    ("decision", "options", "result", "outcome"),
    [
        (Decision.ALLOW, [ALWAYS, ONCE, REJECT], SELECTED["proceed_once"], "allowed"),
        (Decision.ALLOW, [ALWAYS, REJECT], SELECTED["proceed_always"], "allowed"),
        (Decision.DENY, [NEVER, REJECT, ONCE], SELECTED["cancel"], "denied"),
        (Decision.DENY, [NEVER, ONCE], SELECTED["never"], "denied"),
        (Decision.DENY, [ONCE], CANCELLED, "cancelled"),
    ],
)
async def test_the_policy_decides_without_a_question(
    world: World, decision: Decision, options: list[dict[str, str]], result: dict[str, Any], outcome: str
) -> None:
    policy = Policy(rules=(Rule(decision=decision, kind=ToolKind.EDIT, path="*.txt"),))
    assert await permitted(world.asking(policy).permission(permission(*options))) == result
    assert world.noted == []
    ((_, audited, detail),) = world.audited
    assert (audited, detail["rule"]) == (outcome, f"rule 1: {decision} edit *.txt")


async def test_what_may_be_allowed_but_has_no_such_option_is_asked(world: World) -> None:
    asking = world.asking(Policy(default=Decision.ALLOW))
    async with running(asking.permission(permission(REJECT))) as task:
        await world.say(await world.asked(), choice("Reject"))
    assert task.result() == SELECTED["cancel"]


async def test_what_is_outside_the_workspace_is_asked(world: World) -> None:
    asking = world.asking(Policy(default=Decision.ALLOW))
    async with running(asking.permission(permission(locations=[{"path": "/etc/passwd"}]))):
        asked = await world.asked()
        assert "/etc/passwd" in asked.questions[0].prompt
        await world.say(asked, choice("Reject"))
    assert world.audited[0][1] == "denied"


async def test_what_was_said_of_a_tool_call_before_counts(world: World) -> None:
    said = {"call-1": {"kind": "execute", "title": "Run make", "rawInput": {"command": "make"}}}
    policy = Policy(default=Decision.ALLOW, rules=(Rule(decision=Decision.DENY, kind=ToolKind.EXECUTE),))
    request = raw(
        {"sessionId": "1", "toolCall": {"toolCallId": "call-1", "title": None}, "options": [ONCE, REJECT]}
    )
    asking = world.asking(policy, known=lambda call: said.get(call, {}))
    assert await permitted(asking.permission(request)) == SELECTED["cancel"]
    assert world.audited[0][2]["tool"] == "Run make"


# Odd requests

ODD: list[Any] = [
    {},
    {"toolCall": {}, "options": []},
    {"toolCall": {}, "options": None},
    {"toolCall": {}, "options": [{}]},
    {"toolCall": {}, "options": [{"optionId": 1, "name": "a", "kind": "b"}]},
    {"toolCall": 7, "options": [ONCE]},
    {"options": [ONCE]},
    [],
    None,
]


@pytest.mark.parametrize("params", ODD, ids=json.dumps)
async def test_a_malformed_request_is_refused_and_nobody_is_asked(world: World, params: Any) -> None:
    with pytest.raises((Refusal, msgspec.ValidationError)):
        await world.asking().permission(raw(params))
    assert world.noted == []


@pytest.mark.parametrize(
    "call",
    [
        {},
        {"title": "", "kind": {}, "locations": 7, "content": "x", "rawInput": [1]},
        {"title": "a\0b", "locations": [{"path": "x\0y"}, 7, {}], "rawInput": {"command": "\0"}},
        {"title": 7, "content": [{"type": "diff"}], "rawInput": {"command": [1, None]}},
    ],
    ids=str,
)
async def test_an_odd_tool_call_is_asked_about_all_the_same(world: World, call: dict[str, Any]) -> None:
    request = raw({"toolCall": call, "options": [{"optionId": "1", "name": "\0", "kind": "new_kind"}]})
    async with running(world.asking().permission(request)) as task:
        asked = await world.asked()
        await world.say(asked, choice(asked.questions[0].options[0].label))
    assert task.result()["outcome"]["optionId"] == "1"
    assert world.audited[0][1] == "answered"
