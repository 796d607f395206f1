"""Commands that an agent runs through us: decided like any permission, run as decided, and on record."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast.agents.asking import Asking
from holdfast.agents.command import Command
from holdfast.agents.permissions import Decision, Policy, Rule
from holdfast.agents.protocol import CreateTerminal
from holdfast.agents.wire import Refusal
from holdfast.model.question import QuestionStatus
from tests.agents.people import World as People
from tests.agents.people import choice, raw, running
from tests.agents.test_permissions_in_sessions import asked, choose
from tests.agents.worlds import World, working

ALLOW = {"optionId": "yes", "name": "Allow", "kind": "allow_once"}
REJECT = {"optionId": "no", "name": "Reject", "kind": "reject_once"}


@pytest.fixture
def people(tmp_path: Path) -> People:
    people = People(tmp_path)
    (people.workspace.root / "src").mkdir()
    return people


def command(people: People, *line: str, cwd: str | None = None, env: Mapping[str, str] = {}) -> Command:
    variables = [{"name": name, "value": value} for name, value in env.items()]
    given = {"command": line[0], "args": list(line[1:]), "cwd": cwd, "env": variables}
    asked = msgspec.convert(given, CreateTerminal)
    return Command.of(
        people.workspace,
        {"PATH": "/usr/bin:/bin"},
        asked.command,
        asked.args or (),
        asked.env or (),
        asked.cwd,
    )


def rule(decision: str, **more: str) -> Rule:
    return msgspec.convert({"decision": decision, **more}, Rule)


def policy(*rules: Rule, default: Decision = Decision.ASK) -> Policy:
    return Policy(default=default, rules=rules)


async def outcome(asking: Asking, each: Command) -> str:
    """What becomes of a command that nobody is there to be asked about."""
    try:
        await asking.command(each)
    except Refusal as refusal:
        return str(refusal)
    return "runs"


@pytest.mark.parametrize(
    ("rules", "line", "runs"),
    [
        ((rule("allow", kind="execute"),), ("ls", "-l"), True),
        ((rule("allow", command="ls"),), ("ls",), True),
        ((rule("allow", command="ls"),), ("ls", "-l"), False),
        ((rule("allow", command="ls *"),), ("ls",), True),
        ((rule("allow", command="ls *"),), ("ls", "-l", "src"), True),
        ((rule("allow", command="ls -?"),), ("ls", "-l"), True),
        ((rule("allow", command="ls *"),), ("cat", "ls"), False),
        ((rule("allow", command="ls *"),), ("env", "ls"), False),
        # A text for a shell may do anything: no rule allows it, and its words can still be forbidden.
        ((rule("allow", kind="execute"),), ("sh", "-c", "ls"), False),
        ((rule("allow", command="sh *"),), ("/bin/sh", "-c", "ls"), False),
        ((rule("allow", kind="execute"),), ("bash", "--norc", "-ec", "ls"), False),
        ((rule("allow", command="ls *"),), ("ls; rm -r src",), False),
        ((rule("deny", command="rm *"), rule("allow", command="ls *")), ("rm", "x"), False),
    ],
)
async def test_a_rule_is_compared_with_each_word(
    people: People, rules: tuple[Rule, ...], line: tuple[str, ...], runs: bool
) -> None:
    asking = people.asking(policy(*rules), nobody=True)
    assert (await outcome(asking, command(people, *line)) == "runs") is runs
    ((action, said, detail),) = people.audited
    assert (action, said) == ("agent.command", "allowed" if runs else "denied")
    assert detail["repository"] == str(people.workspace.root)


@pytest.mark.parametrize(
    "line",
    [
        ("rm", "x"),
        ("sh", "-c", "ls && rm x"),
        ("ls; rm x",),
        ("bash", "-lc", "rm 'x"),
    ],
)
async def test_what_is_denied_is_denied_in_a_shell_too(people: People, line: tuple[str, ...]) -> None:
    asking = people.asking(policy(rule("deny", command="rm *"), default=Decision.ALLOW))
    said = "The person's policy does not allow it (rule 1: deny rm *)."
    assert await outcome(asking, command(people, *line)) == said
    assert await outcome(asking, command(people, "ls")) == "runs"


@pytest.mark.parametrize("name", ["PATH", "LD_PRELOAD", "GIT_EXTERNAL_DIFF"])
async def test_no_rule_allows_a_command_with_variables_of_its_own(people: People, name: str) -> None:
    asking = people.asking(policy(rule("allow", command="ls *")), nobody=True)
    assert await outcome(asking, command(people, "ls", env={name: "/bin"})) != "runs"
    assert await outcome(asking, command(people, "ls", env={"NO_COLOR": "1"})) == "runs"


async def test_a_person_sees_the_whole_command_and_it_runs_once(people: People) -> None:
    asking = people.asking()
    each = command(people, "ls", "-l", "two words", cwd="src", env={"LD_PRELOAD": "./x.so", "TERM": "dumb"})
    async with running(asking.command(each)):
        asked = await people.asked()
        assert asked.questions[0].prompt == (
            "gemini asks for permission: LD_PRELOAD=./x.so ls -l 'two words'\nDirectory: src"
        )
        await people.say(asked, choice("Allow"))
    async with running(asking.command(each)):
        await people.say(await people.asked(2), choice("Allow"))
    assert [(action, said, detail["person"]) for action, said, detail in people.audited] == [
        ("agent.command", "allowed", "ada")
    ] * 2


async def test_a_refused_command_does_not_run_and_the_agent_is_told_why(people: People) -> None:
    request = asyncio.create_task(people.asking().command(command(people, "ls")))
    await people.box.reject((await people.asked()).id, "not now", by="ada", door="tui")
    with pytest.raises(Refusal, match="was not allowed: not now"):
        await request
    assert [(action, said) for action, said, _ in people.audited] == [("agent.command", "denied")]


SEEN: dict[str, tuple[Any, tuple[str, ...], dict[str, Any]]] = {
    "as words": ({"command": "ls -l src"}, ("ls", "-l", "src"), {}),
    "as a list": ({"command": ["ls", "-l"]}, ("ls", "-l"), {}),
    "with arguments apart": ({"command": "ls", "args": ["-l"]}, ("ls", "-l"), {}),
    "as a text for a shell": ({"command": "ls | wc"}, ("sh", "-c", "ls | wc"), {}),
    "as a line without arguments": ({"command": "ls | wc"}, ("ls | wc",), {}),
    "in a directory": ({"command": "ls", "cwd": "src"}, ("ls",), {"cwd": "src"}),
    "with variables for its looks": ({"command": "ls"}, ("ls",), {"env": {"NO_COLOR": "1"}}),
}

NOT_SEEN: dict[str, tuple[Any, tuple[str, ...], dict[str, Any]]] = {
    "another argument": ({"command": "ls -l"}, ("ls", "-l", "src"), {}),
    "a word that was two": ({"command": "ls -l src"}, ("ls", "-l src"), {}),
    "more for the shell": ({"command": "ls"}, ("sh", "-c", "ls; id"), {}),
    "arguments of the shell's": ({"command": "ls $0"}, ("sh", "-c", "ls $0", "/"), {}),
    "another directory": ({"command": "ls"}, ("ls",), {"cwd": "src"}),
    "a variable": ({"command": "ls"}, ("ls",), {"env": {"LD_PRELOAD": "./x.so"}}),
    "nothing": ({}, ("ls",), {}),
    "no object": ("ls", ("ls",), {}),
}


async def permitted(people: People, asking: Asking, raw_input: Any, answer: str = "Allow") -> None:
    call = {"toolCallId": "1", "title": "A tool", "kind": "execute", "rawInput": raw_input}
    params = raw({"sessionId": "1", "options": [ALLOW, REJECT], "toolCall": call})
    async with running(asking.permission(params)):
        await people.say(await people.asked(), choice(answer))


@pytest.mark.parametrize("case", SEEN)
async def test_what_a_person_has_allowed_runs_once_without_another_question(
    people: People, case: str
) -> None:
    raw_input, line, more = SEEN[case]
    asking = people.asking()
    await permitted(people, asking, raw_input)
    each = command(people, *line, **more)
    assert await outcome(asking, each) == "runs"
    async with running(asking.command(each)):  # the second one is asked
        await people.say(await people.asked(2), choice("Allow"))


@pytest.mark.parametrize("case", NOT_SEEN)
async def test_anything_else_is_asked(people: People, case: str) -> None:
    raw_input, line, more = NOT_SEEN[case]
    asking = people.asking()
    await permitted(people, asking, raw_input)
    async with running(asking.command(command(people, *line, **more))):
        await people.say(await people.asked(2), choice("Allow"))


async def test_what_was_refused_or_is_over_allows_nothing(people: People) -> None:
    asking = people.asking()
    await permitted(people, asking, {"command": "ls"}, "Reject")
    async with running(asking.command(command(people, "ls"))):
        await people.say(await people.asked(2), choice("Allow"))
    asking = people.asking()
    people.noted.clear()
    await permitted(people, asking, {"command": "ls"})
    asking.forget_granted()
    async with running(asking.command(command(people, "ls"))):
        await people.say(await people.asked(2), choice("Allow"))


@pytest.mark.parametrize(
    "path", [".git/hooks/pre-commit", ".git", "src/.GIT/config", ".gitmodules", "src/../.git/x"]
)
async def test_a_write_into_git_needs_a_person_whatever_the_policy_allows(people: People, path: str) -> None:
    assert people.workspace.is_of_git(path)
    asking = people.asking(policy(rule("allow", kind="edit"), default=Decision.ALLOW))
    async with running(asking.write(path, "#!/bin/sh\n")):
        asked = await people.asked()
        assert asked.tool is not None
        assert asked.tool["content"][0]["newText"] == "#!/bin/sh\n"
        await people.say(asked, choice("Allow"))
    refusing = people.asking(policy(default=Decision.DENY))
    with pytest.raises(Refusal, match="does not allow it"):
        await refusing.write(path, "#!/bin/sh\n")
    assert [said for _, said, _ in people.audited] == ["allowed", "denied"]


@pytest.mark.parametrize("path", ["src/a", "git", ".github/x", "src/.gitignore", "a.git/config"])
async def test_other_files_need_nobody(people: People, path: str) -> None:
    assert not people.workspace.is_of_git(path)


async def test_with_everything_denied_nothing_runs_and_it_is_on_record(world: World) -> None:
    rules = (rule("deny", kind="execute"),)
    world.agents["demo"] = msgspec.structs.replace(world.demo, rules=rules, permissions=Decision.DENY)
    async with working(world) as (supervisor, session):
        turn = await world.ask(supervisor, session, "run cat /etc/hostname")
        assert turn.agent_answer_summary == "Then I leave it. "
    (entry,) = await world.store.list_audit()
    assert (entry.action, entry.outcome, entry.subject) == ("agent.command", "denied", session.id)
    assert entry.detail == {
        "command": ["sh", "-c", "cat /etc/hostname"],
        "variables": {},
        "directory": str(world.repository),
        "repository": str(world.repository),
        "agent": "demo",
        "rule": "rule 1: deny execute",
    }


async def test_a_command_and_its_end_are_on_record_after_its_session_is_purged(world: World) -> None:
    async with working(world) as (supervisor, session):
        turn = await supervisor.prompt(world.store, session.id, "run exit 3")
        await world.box.answer((await asked(world)).id, choose("Allow"), by="ada", door="test")
        await world.ended(session, turn)
        await supervisor.complete(world.store, session.id)
    await world.store.delete(session.id)
    ended, allowed = await world.store.list_audit()
    assert (allowed.action, allowed.outcome, allowed.subject) == ("agent.command", "allowed", session.id)
    assert (allowed.detail["person"], allowed.detail["command"]) == ("ada", ["sh", "-c", "exit 3"])
    assert (ended.action, ended.outcome, ended.subject) == ("agent.command", "exited", session.id)
    assert (ended.detail["exit_code"], ended.detail["agent"]) == (3, "demo")


async def test_a_cancelled_turn_runs_no_command(world: World) -> None:
    async with working(world) as (supervisor, session):
        turn = await supervisor.prompt(world.store, session.id, "run touch here")
        question = await asked(world)
        await supervisor.cancel_turn(world.store, session.id)
        await world.ended(session, turn)
    assert (await world.box.get(question.id)).status is QuestionStatus.REJECTED
    assert not (world.repository / "here").exists()
