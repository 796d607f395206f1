"""`holdfast run` and `holdfast sessions`, as a person and a script use them, with the demo agent."""

import asyncio
import json
import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from holdfast import open_store
from holdfast.agents.process import mark_of, strays
from tests.agents.scripts import script
from tests.agents.worlds import PYTHON, repository
from tests.cli.command import Cli, a_server
from tests.settings import configure


@pytest.fixture
def cli(tmp_path: Path, process: None) -> Cli:
    """A command line in a repository."""
    cli = Cli(repository(tmp_path / "project"))
    cli.environment |= {
        "HOLDFAST_DATA_DIR": str(tmp_path / "data"),
        "AUQ_SESSION_DIR": str(tmp_path / "questions"),
        "HOLDFAST_QUESTIONS_SOFT_RETURN_SECONDS": "0",  # who is slow to answer is waited for
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
    assert "✓ List files\n☒ Look at the files\n☒ Answer\nYou said: hello — I see 1 files here." in ran.stdout
    kept = session_id(cli)
    assert f"holdfast sessions resume {kept}" in ran.stderr
    shown = cli("sessions", "show", kept[-8:])
    assert shown.stdout.startswith("› hello\n")
    assert "You said: hello" in shown.stdout


@pytest.mark.parametrize("given", ["nothing", "a file"])
def test_the_demo_agent_answers_what_there_is_to_read_and_ends(cli: Cli, tmp_path: Path, given: str) -> None:
    question = tmp_path / "question.json"
    question.write_text('{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}\n')
    with Path(os.devnull if given == "nothing" else question).open() as standard_input:
        ended = subprocess.run(
            [sys.executable, "-m", "holdfast", "demo-agent"],
            stdin=standard_input,
            env=cli.environment,
            capture_output=True,
            text=True,
            check=False,
        )
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ('"protocolVersion":1' in ended.stdout) == (given == "a file")


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


def test_a_session_goes_on_in_its_repository_wherever_you_are(cli: Cli, tmp_path: Path) -> None:
    run(cli, "say one")
    kept = session_id(cli)
    (tmp_path / "project" / "only-here.txt").write_text("here")
    cli.home = repository(tmp_path / "another")
    assert (
        "only-here.txt has 4 characters." in cli("sessions", "resume", kept[-8:], "read only-here.txt").stdout
    )
    cli.home = tmp_path
    assert run(cli, "--session", kept[-8:], "say two").stdout == "two \n"
    assert cli("sessions", "fork", kept[-8:], "say three").stdout == "three \n"


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


def test_an_empty_prompt_starts_no_agent(cli: Cli) -> None:
    for ran in (run(cli, " "), cli("run", "--agent", "demo", "-", typed="\n")):
        assert (ran.returncode, ran.stderr) == (
            1,
            "holdfast: The prompt is empty; say what the agent should do.\n",
        )
    assert cli("sessions", "list").stdout.startswith("There is no session here yet.")


def test_a_permission_is_answered_at_the_terminal(cli: Cli) -> None:
    with cli.at_terminal("run", "--agent", "demo", "write a.txt: hello") as terminal:
        terminal.until("demo asks")
        terminal.until("> ")
        assert "New file · " in terminal.shown
        assert "+ hello" in terminal.shown
        assert "your own words, which refuse it and say what to do instead." in terminal.shown
        terminal.type("1")
        terminal.until("I wrote a.txt.")
        assert terminal.ended() == 0
    assert (cli.home / "a.txt").read_text() == "hello\n"


def test_a_question_that_comes_through_the_mcp_server_is_answered_at_the_terminal(cli: Cli) -> None:
    with cli.at_terminal("run", "--agent", "demo", "consult Which way? Left | Right") as terminal:
        terminal.until("Which way?")
        terminal.until("> ")
        terminal.type("2")
        terminal.until("Right")
        assert terminal.ended() == 0
    (asked,) = json.loads(cli("questions", "list", "--all", "--json").stdout)
    assert (asked["status"], asked["answers"][0]["selectedOption"]) == ("completed", "Right")


def test_a_permission_that_is_answered_elsewhere_is_not_waited_for(cli: Cli) -> None:
    with cli.at_terminal("run", "--agent", "demo", "write a.txt: hello") as terminal:
        terminal.until("> ")
        (asked,) = json.loads(cli("questions", "list", "--json").stdout)
        answered = cli("answer", asked["id"], "--answers", '{"0": {"selectedOption": "Allow"}}')
        assert answered.returncode == 0
        terminal.until("Answered by ")
        terminal.until("through command line")
        terminal.until("I wrote a.txt.")
        assert terminal.ended() == 0


def test_a_key_that_was_pressed_before_the_question_came_answers_nothing(cli: Cli) -> None:
    with cli.at_terminal("run", "--agent", "demo", "say heron\nwrite a.txt: hello") as terminal:
        terminal.type("1")
        terminal.until("> ")
        terminal.type("")
        terminal.until("Nothing is decided yet.")
        terminal.until("> ")
        terminal.type("not now")
        terminal.until("Then I leave it.")
        assert terminal.ended() == 0
    assert not (cli.home / "a.txt").exists()


def test_a_form_is_offered_only_what_it_takes(cli: Cli) -> None:
    with cli.at_terminal("run", "--agent", "demo", "ask Which colour? red | blue") as terminal:
        terminal.until("> ")
        assert "A number; or the value itself; Enter to pass over." in terminal.shown
        terminal.type("blue")
        terminal.until("You chose blue.")
        assert terminal.ended() == 0


def test_permissions_that_are_asked_at_once_are_answered_one_after_the_other(
    cli: Cli, tmp_path: Path
) -> None:
    body = """
options = [{"optionId": "yes", "name": "Yes", "kind": "allow_once"}]
answers = []
for line in lines():
    match line.get("method"):
        case "initialize": send({"jsonrpc": "2.0", "id": line["id"], "result": {"protocolVersion": 1}})
        case "session/new": send({"jsonrpc": "2.0", "id": line["id"], "result": {"sessionId": "s"}})
        case "session/prompt":
            prompt = line["id"]
            for number in (1, 2):
                tool = {"toolCallId": str(number), "title": f"Tool {number}"}
                params = {"sessionId": "s", "toolCall": tool, "options": options}
                method = "session/request_permission"
                send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        case None:
            answers.append(line["result"])
            if len(answers) == 2:
                send({"jsonrpc": "2.0", "id": prompt, "result": {"stopReason": "end_turn"}})
"""
    command, *args = script(tmp_path, body)
    configure(cli.home, f"[agents.eager]\ncommand = {command!r}\nargs = {args!r}\n")
    with cli.at_terminal("run", "--agent", "eager", "go") as terminal:
        terminal.until("> ")
        while len(waiting := json.loads(cli("questions", "list", "--json").stdout)) < 2:
            pass
        for each in waiting:
            terminal.until(f"? asked (permission {each['id'][:8]})")
        terminal.type("1")
        terminal.until("> ")
        terminal.type("1")
        assert terminal.ended() == 0
    asked = json.loads(cli("questions", "list", "--all", "--json").stdout)
    assert [each["status"] for each in asked] == ["completed", "completed"]


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


def test_when_it_is_told_to_end_it_ends_the_agent_and_what_that_started(cli: Cli) -> None:
    trusted = {"command": sys.executable, "args": ["-m", "holdfast.agents.demo"], "permissions": "allow"}
    entry = "\n".join(f"{name} = {json.dumps(value)}" for name, value in trusted.items())
    configure(cli.home, f"[agents.trusted]\n{entry}\n")
    with cli.running("run", "--agent", "trusted", "say heron\nrun echo $$ > pid; exec sleep 600") as process:
        while not (cli.home / "pid").exists() or not (cli.home / "pid").read_text():
            assert process.poll() is None
        file = Path(cli.environment["HOLDFAST_DATA_DIR"]) / "holdfast.db"
        with closing(sqlite3.connect(file)) as database:
            ((owner,),) = database.execute("SELECT DISTINCT owner FROM processes").fetchall()
        mark = mark_of(session_id(cli), owner)
        assert strays(mark)
        process.send_signal(signal.SIGTERM)
        process.communicate()
        assert process.returncode == -signal.SIGTERM
    assert strays(mark) == []
    (kept,) = json.loads(cli("sessions", "list", "--json").stdout)["sessions"]
    assert kept["status"] == "cancelled"


@pytest.mark.usefixtures("process")
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
        "npm install -g @google/gemini-cli (`holdfast agents` shows those that are there; demo always is.)",
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


def test_sessions_are_found_by_what_was_said_in_them(cli: Cli) -> None:
    assert cli("sessions", "list", "--search", "heron").stdout == "No session fits.\n"
    run(cli, "say a grey heron")
    heron = session_id(cli)
    run(cli, "say a white swan")
    listed = cli("sessions", "list", "--search", "HERON gre").stdout
    assert heron[-8:] in listed
    assert session_id(cli)[-8:] not in listed
    assert "a grey heron" in listed.splitlines()[2]
    (found,) = json.loads(cli("sessions", "list", "--json", "--search", "heron").stdout)["sessions"]
    assert found["match"]["seq"] == 2
    assert {"text": "heron", "hit": True} in found["match"]["snippet"]
    assert "No session fits" in cli("sessions", "list", "--search", "heron", "--status", "active").stdout


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
    for part in ("- [x] one\n", "> hm\n", "````json", "I wrote a.txt. \n", "done"):
        assert part in markdown
    target = tmp_path / "session.jsonl"
    exported = cli("sessions", "export", kept, "--format", "jsonl", "--output", str(target))
    assert exported.stderr == f"{target} holds {target.stat().st_size:,} bytes.\n"
    first, *messages = [json.loads(line) for line in target.read_text().splitlines()]
    assert (first["id"], len(messages)) == (kept, first["messageCount"])
    assert json.loads(cli("export", kept, "--format", "json").stdout)["messages"] == messages


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


def test_the_data_directory_is_its_owners_alone_whichever_command_comes_first(cli: Cli) -> None:
    assert run(cli, "say heron").stdout == "heron \n"
    data = Path(cli.environment["HOLDFAST_DATA_DIR"])
    assert [path.stat().st_mode & 0o777 for path in (data, *(data / "sandboxes").rglob("*/demo"))] == [
        0o700
    ] * 2


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


def test_a_store_that_is_not_the_servers_is_the_one_that_is_used(cli: Cli, tmp_path: Path) -> None:
    other = ("--store", f"sqlite:///{tmp_path}/other.db")
    with a_server(cli):
        assert run(cli, *other, "say heron").stdout == "heron \n"
        assert "say heron" in cli("sessions", "list", *other).stdout
        assert "There is no session here yet" in cli("sessions", "list").stdout


def test_a_run_goes_on_in_a_session_that_is_named_by_its_end(cli: Cli) -> None:
    run(cli, "say heron")
    assert cli("run", "--session", session_id(cli)[-8:], "say again").stdout == "again \n"
    refused = cli("run", "--agent", "gemini", "--session", session_id(cli), "say x")
    assert "stays with its agent, demo; leave --agent out." in refused.stderr


def test_a_run_that_is_interrupted_while_its_agent_starts_leaves_none_behind(
    cli: Cli, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    start = f"read line < {gate}; exec {sys.executable} -m holdfast demo-agent"
    configure(
        cli.home,
        f"[agents.late]\ncommand = 'sh'\nargs = ['-c', {json.dumps(start)}]\n"
        f"sees = {json.dumps([*PYTHON, str(gate)])}\n",
    )
    with a_server(cli), cli.running("run", "--agent", "late", "say heron") as process:
        with gate.open("w") as opened:  # which waits until the agent's program reads
            process.send_signal(signal.SIGINT)
            opened.write("go on\n")
        process.communicate()
        assert process.returncode == 130
        (kept,) = json.loads(cli("sessions", "list", "--json").stdout)["sessions"]
        assert kept["status"] == "cancelled"


def test_when_the_server_dies_it_says_so_and_ctrl_c_ends_it(cli: Cli) -> None:
    with cli.running("serve", "--port", "0") as server:
        assert server.stdout is not None
        while "http://" not in server.stdout.readline():
            assert server.poll() is None
        with cli.running("run", "--agent", "demo", "say heron\nwait") as process:
            assert process.stdout is not None
            assert process.stderr is not None
            assert process.stdout.read(5) == "heron"
            server.kill()
            assert process.stderr.readline() == "The server does not answer, waiting… (Ctrl-C gives up.)\n"
            process.send_signal(signal.SIGINT)
            _, err = process.communicate()
            assert process.returncode == 130
            assert f"To go on: holdfast sessions resume {session_id(cli)}" in err


@pytest.mark.parametrize("how", ["a closed pipe", "SIGTERM"])
def test_a_run_that_ends_before_its_turn_leaves_no_agent_on_the_server(cli: Cli, how: str) -> None:
    with a_server(cli):
        with cli.running("run", "--agent", "demo", "say heron\nslow 20\nwait") as process:
            assert process.stdout is not None
            assert process.stdout.read(5) == "heron"
            if how == "SIGTERM":
                process.send_signal(signal.SIGTERM)
            else:
                process.stdout.close()
            process.wait()
        (kept,) = json.loads(cli("sessions", "list", "--json").stdout)["sessions"]
        assert kept["status"] == "cancelled"
