"""`holdfast run` and `holdfast sessions`, as a person and a script use them, with the demo agent."""

import asyncio
import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from holdfast import open_store
from tests.agents.worlds import repository
from tests.cli.command import Cli


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    """A command line in a repository."""
    cli = Cli(repository(tmp_path / "project"))
    cli.environment |= {
        "HOLDFAST_DATA_DIR": str(tmp_path / "data"),
        "AUQ_SESSION_DIR": str(tmp_path / "questions"),
    }
    return cli


def run(cli: Cli, *arguments: str) -> subprocess.CompletedProcess[str]:
    return cli("run", "--agent", "demo", *arguments)


def session_id(cli: Cli) -> str:
    """The session that changed last."""

    async def newest() -> str:
        async with open_store(f"sqlite:///{cli.environment['HOLDFAST_DATA_DIR']}/holdfast.db") as store:
            return (await store.list()).sessions[0].id

    return asyncio.run(newest())


def test_a_prompt_is_run_and_shown_and_kept(cli: Cli) -> None:
    ran = run(cli, "hello")
    assert ran.returncode == 0, ran.stderr
    assert "✓ List files\nYou said: hello — I see 1 files here." in ran.stdout
    kept = session_id(cli)
    assert f"holdfast sessions resume {kept}" in ran.stderr
    shown = cli("sessions", "show", kept[-8:])
    assert shown.stdout.startswith("› hello\n")
    assert "You said: hello" in shown.stdout


def test_a_session_goes_on_where_it_stopped(cli: Cli) -> None:
    run(cli, "say one")
    kept = session_id(cli)
    assert cli("sessions", "resume", kept, "say two").stdout == "two \n"
    assert run(cli, "--session", kept, "say three").stdout == "three \n"
    assert session_id(cli) == kept
    whole = json.loads(cli("sessions", "show", kept, "--json").stdout)
    said = [each["content"]["text"] for each in whole["messages"] if each["role"] == "agent"]
    assert said == ["one ", "two ", "three "]
    assert whole["status"] == "completed"


def test_a_session_that_ended_in_an_error_goes_on_as_a_fork(cli: Cli) -> None:
    crashed = run(cli, "say heron\ncrash")
    first = session_id(cli)
    assert f"To go on: holdfast sessions fork {first} PROMPT" in crashed.stderr
    assert cli("sessions", "resume", first, "say on").stderr.endswith("cannot become active.\n")
    assert cli("sessions", "fork", first, "say on").stdout.endswith("on \n")
    assert session_id(cli) != first
    assert "heron I am goi" in cli("sessions", "show", session_id(cli)).stdout


@pytest.mark.parametrize(
    ("prompt", "code", "sentence"),
    [
        ("crash 7", 1, "holdfast: The agent is lost. It ended with exit code 7.\n"),
        ("fail too much", 1, "holdfast: The agent refused session/prompt: too much\n"),
    ],
)
def test_a_script_sees_how_it_ended(cli: Cli, prompt: str, code: int, sentence: str) -> None:
    ran = run(cli, prompt)
    assert ran.returncode == code
    assert ran.stderr.startswith(sentence)


def test_a_prompt_can_come_from_standard_input_and_be_followed_as_json(cli: Cli) -> None:
    ran = cli("run", "--agent", "demo", "--json", "-", typed="say heron")
    changes = [json.loads(line) for line in ran.stdout.splitlines()]
    assert changes[-1]["turns"][0]["stopReason"] == "end_turn"
    assert changes[-1]["rev"] > changes[0]["rev"]


def test_a_permission_is_answered_at_the_terminal(cli: Cli) -> None:
    with cli.at_terminal("run", "--agent", "demo", "write a.txt: hello") as terminal:
        terminal.until("demo asks")
        terminal.until("> ")
        assert "New file · " in terminal.shown
        assert "+ hello" in terminal.shown
        terminal.type("1")
        terminal.until("I wrote a.txt.")
        assert terminal.ended() == 0
    assert (cli.home / "a.txt").read_text() == "hello\n"


def test_a_permission_that_is_answered_elsewhere_is_not_waited_for(cli: Cli) -> None:
    with cli.at_terminal("run", "--agent", "demo", "write a.txt: hello") as terminal:
        terminal.until("> ")
        (asked,) = json.loads(cli("questions", "list", "--json").stdout)
        answered = cli("answer", asked["id"], "--answers", '{"0": {"selectedOption": "Allow"}}')
        assert answered.returncode == 0
        terminal.until("I wrote a.txt.")
        assert terminal.ended() == 0


def test_without_a_terminal_it_says_how_to_answer(cli: Cli) -> None:
    with cli.running("run", "--agent", "demo", "write a.txt: hello") as process:
        assert process.stderr is not None
        line = process.stderr.readline()
        assert "To answer: holdfast answer " in line
        short = line.split("holdfast answer ")[1].split(",")[0]
        cli("questions", "reject", short, "--reason", "no")
        out, _ = process.communicate()
        assert (process.returncode, out.splitlines()[-1]) == (0, "Then I leave it. ")
    assert not (cli.home / "a.txt").exists()


def test_what_is_asked_can_be_allowed_or_denied_for_once(cli: Cli) -> None:
    assert run(cli, "--permissions", "deny", "write a.txt: hello").stdout.endswith("Then I leave it. \n")
    assert run(cli, "--permissions", "allow", "write a.txt: hello").stdout.endswith("I wrote a.txt. \n")


def test_ctrl_c_cancels_the_turn_and_keeps_what_was_said(cli: Cli) -> None:
    with cli.running("run", "--agent", "demo", "say heron\nwait") as process:
        assert process.stdout is not None
        assert process.stdout.read(5) == "heron"
        process.send_signal(signal.SIGINT)
        _, err = process.communicate()
        assert process.returncode == 130
        assert err.startswith("The turn ended: cancelled.\n")
    assert "heron" in cli("sessions", "show", session_id(cli)).stdout


def test_outside_a_repository_it_says_what_to_do(tmp_path: Path) -> None:
    ran = run(Cli(tmp_path), "hello")
    assert ran.returncode == 1
    assert ran.stderr == (
        f"holdfast: {tmp_path} is not in a git repository; run this in one, or make one with: git init\n"
    )


def test_a_missing_agent_is_a_sentence(cli: Cli) -> None:
    cli.environment["GEMINI_CLI_PATH"] = "/nowhere/gemini"
    ran = cli("run", "hello")
    assert (ran.returncode, ran.stderr.splitlines()[-1]) == (
        1,
        "holdfast: The agent's program '/nowhere/gemini' was not found. To install it: "
        "npm install -g @google/gemini-cli",
    )
    assert "known are claude, codex, demo" in cli("run", "--agent", "x", "hello").stderr
    assert cli("sessions", "list").stdout.startswith("There is no session here yet.")


def test_sessions_are_listed_and_found_by_a_part_of_their_id(cli: Cli) -> None:
    run(cli, "say one")
    run(cli, "say two")
    listed = cli("sessions", "list").stdout.splitlines()
    assert listed[0].split() == ["SESSION", "AGENT", "STATUS", "CHANGED", "MESSAGES", "TITLE"]
    assert listed[1].split() == [session_id(cli)[-8:], "demo", "completed", "now", "3", "say", "two"]
    assert cli("sessions", "show", "zzzzzzzz").stderr.startswith("holdfast: No session begins or ends with")
    assert "fits 2 sessions" in cli("sessions", "show", session_id(cli)[:4]).stderr
    assert json.loads(cli("sessions", "list", "--json", "--status", "active").stdout)["total"] == 0


def test_a_running_session_is_followed_to_its_end(cli: Cli) -> None:
    with cli.running("run", "--agent", "demo", "say begin\nslow 20\nsay end") as process:
        assert process.stdout is not None
        process.stdout.read(5)
        followed = cli("sessions", "tail", session_id(cli))
        process.communicate()
    assert followed.returncode == 0
    assert "begin 0 1 2" in followed.stdout
    assert "end " in followed.stdout


def test_a_session_of_another_process_is_not_cancelled_behind_its_back(cli: Cli) -> None:
    with cli.running("run", "--agent", "demo", "say begin\nwait") as process:
        assert process.stdout is not None
        process.stdout.read(5)
        refused = cli("sessions", "cancel", session_id(cli))
        assert (refused.returncode, "is running on another server" in refused.stderr) == (1, True)
        process.send_signal(signal.SIGINT)
        process.communicate()
    run(cli, "say x")
    cancelled = cli("sessions", "cancel", session_id(cli))
    assert "cannot become cancelled" in cancelled.stderr


def test_a_session_is_exported_whole(cli: Cli, tmp_path: Path) -> None:
    run(cli, "plan one; two\nthink hm\nwrite a.txt: ```x```\nsay done", "--permissions", "allow")
    kept = session_id(cli)
    markdown = cli("sessions", "export", kept).stdout
    assert markdown.startswith("# plan one; two\n\n- Session: ")
    for part in ("- [x] one\n", "> hm\n", "````json", "I wrote a.txt. done"):
        assert part in markdown
    target = tmp_path / "session.jsonl"
    exported = cli("sessions", "export", kept, "--format", "jsonl", "--output", str(target))
    assert exported.stderr == f"{target} holds {target.stat().st_size:,} bytes.\n"
    first, *messages = [json.loads(line) for line in target.read_text().splitlines()]
    assert (first["id"], len(messages)) == (kept, first["messageCount"])
    assert json.loads(cli("sessions", "export", kept, "--format", "json").stdout)["messages"] == messages


def test_agents_and_repositories_are_listed(cli: Cli) -> None:
    cli.environment["PATH"] = "/usr/bin:/bin"
    agents = {each["agent"]: each for each in json.loads(cli("agents", "--json").stdout)}
    assert (agents["demo"]["answers"], agents["demo"]["name"]) == (True, "Holdfast demo agent 1")
    assert (agents["gemini"]["path"], agents["gemini"]["answers"]) == (None, False)
    assert "npm install -g @google/gemini-cli" in cli("agents", "--no-start").stdout
    (repo,) = json.loads(cli("repos", "--json").stdout)
    assert (repo["name"], repo["path"], repo["branch"]) == ("project", str(cli.home), "main")
    cli.environment["AGENT_WORKSPACE_ROOT"] = str(cli.home.parent / "data")
    assert "There is no git repository in" in cli("repos").stderr


@contextmanager
def a_server(cli: Cli) -> Iterator[None]:
    """A server for the command line's data directory, which looks for repositories where it is."""
    with cli.running("serve", "--port", "0") as process:
        assert process.stdout is not None
        while "http://" not in process.stdout.readline():
            assert process.poll() is None
        yield
        process.send_signal(signal.SIGTERM)
        process.communicate()


def test_a_running_server_runs_the_agent(cli: Cli) -> None:
    with a_server(cli):
        assert run(cli, "say heron").stdout == "heron \n"
        kept = session_id(cli)
        assert cli("sessions", "resume", kept, "say again").stdout == "again \n"
        refused = run(cli, "--permissions", "allow", "say x")
        assert "decides about permissions" in refused.stderr
        with cli.running("run", "--agent", "demo", "say begin\nwait") as process:
            assert process.stdout is not None
            process.stdout.read(5)
            cancelled = cli("sessions", "cancel", session_id(cli))
            assert cancelled.stdout == f"Session {session_id(cli)} is cancelled.\n"
            _, err = process.communicate()
            assert (process.returncode, err.splitlines()[0]) == (130, "The turn ended: cancelled.")
    assert "heron" in cli("sessions", "show", kept).stdout
