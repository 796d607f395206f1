"""`holdfast execute`, `replay` and `contexts`, as a person or a script runs them."""

import asyncio
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast import open_store
from holdfast.execution.demo import DemoModel
from holdfast.model.turn import ActiveFileRef
from tests.cli.command import Cli, a_server
from tests.settings import configure


@pytest.fixture
def model() -> Iterator[DemoModel]:
    with DemoModel() as serving:
        yield serving


@pytest.fixture
def cli(tmp_path: Path, model: DemoModel, process: None) -> Cli:
    """A command in a repository, with a model to ask."""
    home = tmp_path / "project"
    home.mkdir()
    subprocess.run(["git", "init", "-q"], cwd=home, check=True)
    cli = Cli(home)
    cli.environment |= {
        "HOLDFAST_DATA_DIR": str(tmp_path / "data"),
        "OPENAI_BASE_URL": model.url,
        "OPENAI_API_KEY": "none",
        "HOLDFAST_MODEL": "demo",
    }
    return cli


def answered(cli: Cli, *arguments: str, typed: str = "") -> dict[str, Any]:
    done = cli("execute", "--json", *arguments, typed=typed)
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def test_an_answer_is_printed_with_its_files_and_can_be_gone_on_with(cli: Cli, model: DemoModel) -> None:
    (cli.home / "notes.md").write_text("notes\n")
    first = cli("execute", "-f", "notes.md", "Look")
    assert (first.returncode, first.stdout) == (0, "It is in one of these:\n\n- notes.md\n")
    assert "Nothing is indexed here yet: run `holdfast index PATH`." in first.stderr
    session = first.stderr.split("session ")[1].split(",")[0]
    again = answered(cli, "--session", session[-8:], "--changed", "-", typed="And now?")
    assert again["sessionId"] == session
    assert len(model.requests[1]["input"]) == 3  # what was asked, what was answered, and what is asked now


async def files_of(cli: Cli, answer: dict[str, Any]) -> tuple[ActiveFileRef, ...]:
    async with open_store(f"sqlite:///{cli.environment['HOLDFAST_DATA_DIR']}/holdfast.db") as store:
        return (await store.get_turn(answer["sessionId"], answer["turnId"])).active_file_refs


def test_the_changed_files_are_those_since_the_last_commit_and_are_marked_so(cli: Cli) -> None:
    for name in ("kept.py", "staged.py", "changed.py"):
        (cli.home / name).write_text("1\n")
    identity = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org"]
    for command in (["add", "."], [*identity, "commit", "-qm", "Begin"]):
        subprocess.run(["git", *command], cwd=cli.home, check=True)
    for name in ("staged.py", "added.py"):
        (cli.home / name).write_text("2\n")
        subprocess.run(["git", "add", name], cwd=cli.home, check=True)
    (cli.home / "changed.py").write_text("2\n")
    (cli.home / "new.py").write_text("2\n")
    answer = answered(cli, "--changed", "--file", "kept.py", "Look")
    assert {ref.path: ref.is_touched for ref in asyncio.run(files_of(cli, answer))} == {
        "kept.py": False,
        "staged.py": True,
        "added.py": True,
        "changed.py": True,
        "new.py": True,
    }


def test_a_changed_file_that_is_no_text_is_left_out_and_named(cli: Cli) -> None:
    (cli.home / "picture.png").write_bytes(b"\x89PNG\xff")
    (cli.home / "notes.md").write_text("notes\n")
    done = cli("execute", "--changed", "Look")
    assert (done.returncode, "- notes.md" in done.stdout) == (0, True)
    assert "picture.png is not text and cannot be sent. It is left out." in done.stderr
    assert cli("execute", "--file", "picture.png", "Look").returncode == 1


def test_a_directory_without_a_name_is_no_repository(cli: Cli) -> None:
    cli.home = Path("/")
    assert answered(cli, "Look")["kind"] == "answer"


def test_two_files_that_would_have_one_name_are_refused(cli: Cli, tmp_path: Path) -> None:
    for place in ("one", "two"):
        (tmp_path / place).mkdir()
        (tmp_path / place / "notes.md").write_text(place)
    files = [part for place in ("one", "two") for part in ("--file", str(tmp_path / place / "notes.md"))]
    done = cli("execute", *files, "Look")
    assert (done.returncode, "would both be sent as notes.md" in done.stderr) == (1, True)


@pytest.mark.parametrize("verb", ["resume", "fork"])
def test_who_would_start_an_agent_for_a_models_session_is_told_how_to_go_on(cli: Cli, verb: str) -> None:
    session = answered(cli, "Look")["sessionId"]
    refused = cli("sessions", verb, session, "And now?")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert f"holdfast execute --session {session} PROMPT" in refused.stderr


def test_a_replay_is_identical_until_something_is_missing(cli: Cli, tmp_path: Path) -> None:
    turn = answered(cli, "Look")["turnId"]
    made = cli("replay", turn)
    assert (made.returncode, made.stdout.split(":")[0]) == (0, "identical")
    sent = json.loads(cli("replay", "--json", turn).stdout)["sentHash"]
    (kept,) = (tmp_path / "data" / "blobs").rglob(f"{sent}*")
    kept.unlink()
    lost = cli("replay", turn)
    assert (lost.returncode, lost.stdout.split(":")[0]) == (1, "not identical")
    assert sent in lost.stdout
    unknown = cli("replay", "01a1e252-d321-7308-bdae-db93e6f71518")
    assert (unknown.returncode, unknown.stderr.count("\n")) == (1, 1)
    assert "No turn 01a1e252" in unknown.stderr


def test_changes_are_shown_and_made_when_the_person_agrees(cli: Cli) -> None:
    refused = cli("execute", "--apply", "EDIT", typed="n\n")
    assert "+hello" in refused.stderr
    assert "Nothing was changed." in refused.stderr
    assert not (cli.home / "hello.txt").exists()
    made = cli("execute", "--apply", "EDIT", typed="y\n")
    assert "Changed 1 file." in made.stderr
    assert (cli.home / "hello.txt").read_text() == "hello\n"
    there = cli("execute", "--apply", "--yes", "EDIT")
    assert (there.returncode, "it is there already" in there.stderr) == (1, True)


def test_a_failure_is_one_sentence_and_an_exit_code(cli: Cli) -> None:
    failed = cli("execute", "ERR500")
    assert (failed.returncode, failed.stdout) == (1, "")
    assert (
        "holdfast: The model's server refused the request (500): The model is out of order.\n"
        in failed.stderr
    )
    (cli.home / "binary").write_bytes(b"\xff")
    for path, sentence in (("binary", "is not text"), ("gone", "No such file")):
        refused = cli("execute", "-f", path, "Look")
        assert refused.returncode == 1
        assert sentence in refused.stderr
    del cli.environment["HOLDFAST_MODEL"]
    assert "Set HOLDFAST_MODEL and OPENAI_API_KEY" in cli("execute", "Look").stderr
    assert "not set: HOLDFAST_MODEL" in cli("contexts").stdout


def test_where_a_server_without_a_model_executes_that_is_said(cli: Cli) -> None:
    variables = dict(cli.environment)
    del cli.environment["HOLDFAST_MODEL"]
    with a_server(cli):
        cli.environment = variables
        refused = cli("execute", "Look")
    assert refused.returncode == 1
    assert "Set HOLDFAST_MODEL and OPENAI_API_KEY" in refused.stderr
    assert "with what was set when it was started: set them there, and start it again." in refused.stderr


def test_doctor_says_which_model_answers(cli: Cli, model: DemoModel) -> None:
    def models() -> str:
        findings = json.loads(cli("doctor", "--json").stdout)["findings"]
        return next(str(finding["says"]) for finding in findings if finding["part"] == "models")

    assert models() == f"default: demo at {model.url}"
    del cli.environment["OPENAI_API_KEY"]
    assert models() == "default: demo, whose key is missing (OPENAI_API_KEY)"


def test_contexts_are_listed(cli: Cli) -> None:
    configure(cli.home, '[contexts.reviewer]\nmodel = "strict"\n[conversations.docs]\n')
    listed = json.loads(cli("contexts", "--json").stdout)
    assert [context["name"] for context in listed["agents"]] == ["default", "reviewer"]
    assert [context["name"] for context in listed["conversations"]] == ["docs"]
    assert "reviewer  agent" in cli("contexts").stdout


def test_the_demo_model_says_how_to_ask_it(cli: Cli) -> None:
    with cli.running("demo-model", "--port", "0") as serving:
        assert serving.stdout is not None
        shown = [serving.stdout.readline() for _ in range(4)]
        port = shown[2].split("127.0.0.1:")[1].split("/")[0]
        taken = cli("demo-model", "--port", port)
        assert taken.stderr == (
            f"holdfast: Cannot listen on port {port}: Address already in use. Give another one with --port.\n"
        )
    assert "export OPENAI_BASE_URL=http://127.0.0.1:" in shown[2]


async def test_a_session_that_needs_it_is_compacted_before_the_command_ends(cli: Cli) -> None:
    configure(
        cli.home,
        '[contexts.default.compaction]\nmessages = 4\nstrategy = { name = "hard_clear", keep_recent = 2 }\n',
    )
    session = answered(cli, "One")["sessionId"]
    answered(cli, "--session", session, "Two")
    async with open_store(f"sqlite:///{cli.environment['HOLDFAST_DATA_DIR']}/holdfast.db") as store:
        (done,) = await store.list_compactions(session)
    assert done.strategy == "hard_clear"
