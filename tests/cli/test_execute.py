"""`holdfast execute`, `replay` and `contexts`, as a person or a script runs them."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.execution.demo import DemoModel
from tests.cli.command import Cli


@pytest.fixture
def model() -> Iterator[DemoModel]:
    with DemoModel() as serving:
        yield serving


@pytest.fixture
def cli(tmp_path: Path, model: DemoModel) -> Cli:
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


def test_doctor_says_which_model_answers(cli: Cli, model: DemoModel) -> None:
    def models() -> str:
        findings = json.loads(cli("doctor", "--json").stdout)["findings"]
        return next(str(finding["says"]) for finding in findings if finding["part"] == "models")

    assert models() == f"default: demo at {model.url}"
    del cli.environment["OPENAI_API_KEY"]
    assert models() == "default: demo, whose key is missing (OPENAI_API_KEY)"


def test_contexts_are_listed(cli: Cli) -> None:
    (cli.home / "holdfast.toml").write_text('[contexts.reviewer]\nmodel = "strict"\n[conversations.docs]\n')
    listed = json.loads(cli("contexts", "--json").stdout)
    assert [context["name"] for context in listed["agents"]] == ["default", "reviewer"]
    assert [context["name"] for context in listed["conversations"]] == ["docs"]
    assert "reviewer  agent" in cli("contexts").stdout


def test_the_demo_model_says_how_to_ask_it(cli: Cli) -> None:
    with cli.running("demo-model", "--port", "0") as serving:
        assert serving.stdout is not None
        shown = [serving.stdout.readline() for _ in range(4)]
    assert "export OPENAI_BASE_URL=http://127.0.0.1:" in shown[2]
