"""`holdfast ask`, `answer` and `questions`: real processes that talk through files alone."""

import asyncio
import json
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast.cli.prompts import answer_from_text
from holdfast.errors import InvalidInput
from holdfast.model.question import Answer, NewQuestionSet, Question
from holdfast.model.times import iso
from holdfast.questions import QuestionBox
from holdfast.questions.wire import question_set_json
from tests.cli.command import Cli
from tests.questions.sets import FEATURES, LANGUAGE, OtherProgram, rewrite
from tests.settings import configure
from tests.waiting import SECONDS

QUESTIONS = {
    "questions": [
        {
            "title": "Language",
            "prompt": "Which language?",
            "options": [{"label": "Python (Recommended)", "description": "Fast to write"}, {"label": "Rust"}],
            "multiSelect": False,
        },
        {
            "title": "Features",
            "prompt": "Which features do you want?",
            "options": [{"label": "Auth"}, {"label": "Metrics"}],
            "multiSelect": True,
        },
    ]
}
RUST = '{"0": {"selectedOption": "Rust"}}'
YES = '{"0": {"selectedOption": "yes"}}'
BOTH = {"selectedOptions": ["Auth"], "customText": "it's SSO"}


@pytest.fixture
def directory(cli: Cli) -> Path:
    directory = cli.home / "sessions"
    cli.environment["AUQ_SESSION_DIR"] = str(directory)
    return directory


@pytest.fixture
def asked(directory: Path) -> str:
    """The id of a set that waits."""
    questions = msgspec.convert(QUESTIONS["questions"], tuple[Question, ...])
    return asyncio.run(QuestionBox(directory).ask(NewQuestionSet(questions=questions))).id


def first_set(directory: Path) -> str:
    """The id of a set that another process is asking, once it is there."""
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        for found in directory.glob("*-*/request.json"):
            return found.parent.name
        time.sleep(0.01)
    raise AssertionError("nothing was asked")


def stored(directory: Path, set_id: str) -> dict[str, Any]:
    """A set as the files have it, in JSON."""
    question_set = asyncio.run(QuestionBox(directory).get(set_id))
    as_json: dict[str, Any] = json.loads(json.dumps(question_set_json(question_set)))
    return as_json


def ended_with(result: subprocess.CompletedProcess[str], code: int, sentence: str) -> None:
    """One sentence on standard error, and nothing else."""
    assert (result.returncode, result.stdout, result.stderr) == (code, "", f"holdfast: {sentence}\n")


@pytest.mark.req("ASK-01", "ASK-05", "ASK-25", "ASK-26", "ASK-27")
def test_one_process_asks_and_another_answers(cli: Cli, directory: Path) -> None:
    with cli.running("ask", json.dumps(QUESTIONS)) as asking:
        set_id = first_set(directory)
        said = {"0": {"selectedOption": "Python (Recommended)"}, "1": BOTH}
        answering = cli("answer", set_id[:8], "--answers", json.dumps(said))
        assert (answering.returncode, answering.stdout) == (0, f"Answered {set_id[:8]}.\n")
        output, errors = asking.communicate(timeout=SECONDS)
    assert (asking.returncode, errors) == (0, "")
    assert output == (
        "Here are the user's answers:\n\n"
        "1. Which language?\n→ Python (Recommended) — Fast to write\n\n"
        "2. Which features do you want?\n→ Auth\n→ Other: 'it\\'s SSO'\n"
    )
    answered = json.loads(cli("questions", "show", set_id, "--json").stdout)
    assert (answered["status"], answered["answeredFrom"]) == ("completed", "command line")
    assert answered["answeredBy"]
    assert "readAt" in answered


@pytest.mark.req("ASK-06", "ASK-18")
def test_a_rejection_has_an_exit_code_of_its_own(cli: Cli, directory: Path) -> None:
    with cli.running("ask", "--simple", "Deploy?", "yes", "no") as asking:
        set_id = first_set(directory)
        rejecting = cli("questions", "reject", set_id[:8], "--reason", "not today")
        assert (rejecting.returncode, rejecting.stdout) == (0, f"Rejected {set_id[:8]}.\n")
        output, _ = asking.communicate(timeout=SECONDS)
    assert asking.returncode == 3
    assert output == 'User rejected this question set.\n\nRejection reason: "not today"\n'


def test_the_answers_can_be_had_as_json(cli: Cli, directory: Path) -> None:
    with cli.running("ask", "--simple", "Deploy?", "yes", "no", "--json", "--agent", "ci") as asking:
        set_id = first_set(directory)
        answered = json.loads(cli("answer", set_id, "--answers", YES, "--json").stdout)
        output, _ = asking.communicate(timeout=SECONDS)
    heard = json.loads(output)
    assert heard["answers"] == answered["answers"] == [{"questionIndex": 0, "selectedOption": "yes"}]
    assert (heard["agent"], heard["workingDirectory"]) == ("ci", str(cli.home))


@pytest.mark.parametrize("how", ["argument", "list", "file", "pipe", "dash"])
def test_questions_come_as_an_argument_a_file_or_on_standard_input(
    cli: Cli, directory: Path, how: str
) -> None:
    text = json.dumps(QUESTIONS["questions"] if how == "list" else QUESTIONS)
    (cli.home / "questions.json").write_text(text)
    given = {"argument": [text], "list": [text], "file": ["--file", "questions.json"], "dash": ["-"]}
    typed = text if how in ("pipe", "dash") else ""
    result = cli("ask", *given.get(how, []), "--no-wait", typed=typed)
    assert (result.returncode, result.stderr) == (0, "")
    assert stored(directory, result.stdout.strip())["questions"] == QUESTIONS["questions"]


@pytest.mark.req("ASK-07")
@pytest.mark.parametrize("set_by", ["flag", "environment", "file"])
def test_a_wait_ends_after_the_time_that_is_set(cli: Cli, directory: Path, set_by: str) -> None:
    if set_by == "environment":
        cli.environment["HOLDFAST_QUESTIONS_TIMEOUT_SECONDS"] = "0.2"
    if set_by == "file":
        configure(cli.home, "[questions]\ntimeout_seconds = 0.2\n")
    flag = ["--timeout", "0.2"] if set_by == "flag" else []
    result = cli("ask", "--simple", "Deploy?", "yes", "no", *flag)
    set_id = first_set(directory)
    ended_with(
        result,
        4,
        f"Session {set_id} timed out waiting for user response: Timeout waiting for user response",
    )
    assert stored(directory, set_id)["status"] == "timed_out"
    late = cli("answer", set_id, "--answers", YES)
    assert late.stdout.startswith(f"Answered {set_id[:8]}. Its asker no longer waits")


def test_the_directory_comes_from_the_file_when_the_environment_names_none(cli: Cli) -> None:
    configure(cli.home, '[questions]\ndirectory = "here"\n')
    cli("ask", "--simple", "Deploy?", "yes", "no", "--no-wait")
    assert first_set(cli.home / "here")


def test_the_limit_that_is_set_holds(cli: Cli, asked: str) -> None:
    cli.environment["HOLDFAST_QUESTIONS_LIMIT"] = "1"
    refused = cli("ask", "--simple", "Deploy?", "yes", "no")
    ended_with(refused, 1, "1 question sets wait for an answer, which is the limit; answer or reject some.")


@pytest.mark.req("ASK-23")
def test_asking_sweeps_what_is_past_the_retention_that_is_set(cli: Cli, directory: Path) -> None:
    old = OtherProgram(directory).ask()
    then = iso(datetime.now(UTC) - timedelta(days=3))
    rewrite(directory, old, "status.json", createdAt=then, lastModified=then)
    cli("ask", "--simple", "First?", "--no-wait")
    assert (directory / old).exists()
    cli.environment["HOLDFAST_QUESTIONS_RETENTION_DAYS"] = "2"
    cli("ask", "--simple", "Second?", "--no-wait")
    assert not (directory / old).exists()


def test_an_interrupted_asker_says_how_to_answer_later(cli: Cli, directory: Path) -> None:
    with cli.running("ask", "--simple", "Deploy?", "yes", "no") as asking:
        set_id = first_set(directory)
        asking.send_signal(signal.SIGINT)
        output, errors = asking.communicate(timeout=SECONDS)
    assert (asking.returncode, output) == (130, "")
    assert errors == (
        "holdfast: Nobody waits any more, but the questions can still be answered: "
        f"holdfast answer {set_id[:8]}\n"
    )
    assert stored(directory, set_id)["status"] == "abandoned"


@pytest.mark.parametrize("told", [signal.SIGTERM, signal.SIGHUP])
def test_an_asker_that_is_told_to_end_leaves_its_questions_abandoned(
    cli: Cli, directory: Path, told: signal.Signals
) -> None:
    with cli.running("ask", "--simple", "Deploy?", "yes", "no") as asking:
        set_id = first_set(directory)
        asking.send_signal(told)
        asking.communicate(timeout=SECONDS)
    assert asking.returncode == -told
    assert stored(directory, set_id)["status"] == "abandoned"


@pytest.mark.req("ASK-17", "ASK-29", "ASK-31")
@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (["answer", "deadbeef", "--answers", RUST], 5, "Session not found: deadbeef"),
        (["questions", "show", "deadbeef"], 5, "Session not found: deadbeef"),
        (["questions", "reject", "deadbeef"], 5, "Session not found: deadbeef"),
        (["questions", "export", "deadbeef"], 5, "Session not found: deadbeef"),
        (["answer", "nonsense", "--answers", RUST], 2, "Invalid session ID format: nonsense"),
        (["ask", "{"], 2, "The questions are not JSON: Expecting property name enclosed in double quotes"),
        (["ask", "[]"], 2, "At least one question is required to create a session"),
        (["ask", '[{"title": "T"}]'], 2, "These are no questions: Object missing required field `prompt`"),
        (["ask"], 2, "Give the questions as JSON, with --file or with --simple, or pipe the JSON in."),
        (["ask", "--file", "nowhere"], 2, "nowhere cannot be read"),
        (["ask", "--simple", "Q?", "a", "a"], 2, "Two options of question 1 have the same label."),
        (["ask", "--simple", "Q?", "--timeout", "-1"], 2, "The setting 'questions.timeout_seconds' is wrong"),
    ],
)
def test_what_cannot_be_done_is_one_sentence_and_a_code(
    cli: Cli, directory: Path, arguments: list[str], code: int, sentence: str
) -> None:
    result = cli(*arguments)
    assert (result.returncode, result.stdout, result.stderr.count("\n")) == (code, "", 1)
    assert result.stderr.startswith(f"holdfast: {sentence}")


@pytest.mark.req("ASK-29")
@pytest.mark.parametrize(
    ("answers", "sentence"),
    [
        ('{"0": {"selectedOption": "Cobol"}}', "Answer for question 0 references non-existent option: Cobol"),
        ('{"7": {"customText": "x"}}', "Answer references invalid question index: 7"),
        ("{}", "No answers provided"),
        ('{"0": {"selectOption": "Rust"}}', "Answer for question 0 has neither selectedOption"),
        ('{"first": {}}', "The answers cannot be understood"),
        ("Rust", "The answers cannot be understood"),
    ],
)
def test_answers_that_do_not_fit_are_refused_and_change_nothing(
    cli: Cli, directory: Path, asked: str, answers: str, sentence: str
) -> None:
    result = cli("answer", asked, "--answers", answers)
    assert (result.returncode, result.stderr.count("\n")) == (2, 1)
    assert result.stderr.startswith(f"holdfast: {sentence}")
    assert stored(directory, asked)["status"] == "pending"


def test_the_first_answer_stands(cli: Cli, asked: str) -> None:
    cli("answer", asked, "--answers", RUST)
    for second in (["answer", asked, "--answers", YES], ["answer", asked], ["questions", "reject", asked]):
        refused = cli(*second)
        assert refused.returncode == 6
        assert "was already answered by " in refused.stderr
        assert "through command line" in refused.stderr


def test_a_short_id_that_two_sets_share_is_refused_with_both(cli: Cli, directory: Path) -> None:
    alike = [f"aaaaaaaa-0000-4000-8000-00000000000{number}" for number in (1, 2)]
    for set_id in alike:
        OtherProgram(directory).ask(set_id=set_id)
    refused = cli("answer", "aaaaaaaa", "--answers", RUST)
    ended_with(refused, 2, f"aaaaaaaa could be any of {', '.join(alike)}; give the whole id.")
    assert cli("answer", alike[0], "--answers", RUST).returncode == 0


def test_answering_at_a_terminal(cli: Cli, directory: Path, asked: str) -> None:
    with cli.at_terminal("answer", asked[:8]) as terminal:
        terminal.until(
            "1. Language: Which language?\n   1) Python (Recommended) — Fast to write\n   2) Rust\n"
        )
        terminal.until("pass over.")
        terminal.type("3")
        terminal.until("There is no option 3; they go from 1 to 2.")
        terminal.type("2")
        terminal.until("2. Features: Which features do you want?")
        terminal.until("pass over.")
        terminal.type("1, 2")
        assert terminal.ended() == 0
        assert f"Answered {asked[:8]}." in terminal.shown
    assert stored(directory, asked)["answers"] == [
        {"questionIndex": 0, "selectedOption": "Rust"},
        {"questionIndex": 1, "selectedOptions": ["Auth", "Metrics"]},
    ]


def test_passing_everything_over_sends_nothing(cli: Cli, directory: Path, asked: str) -> None:
    with cli.at_terminal("answer", asked) as terminal:
        for number in "12":
            terminal.until(f"{number}. ")
            terminal.until("pass over.")
            terminal.type("")
        assert terminal.ended() == 2
        assert "Nothing was answered, so nothing was sent." in terminal.shown
    assert stored(directory, asked)["status"] == "pending"


def test_without_a_terminal_nobody_is_prompted(cli: Cli, asked: str) -> None:
    refused = cli("answer", asked)
    ended_with(refused, 2, "Give the answers with --answers; without a terminal there is nobody to ask.")


def test_at_a_terminal_the_asker_says_how_to_answer(cli: Cli, directory: Path) -> None:
    with cli.at_terminal("ask", "--simple", "Deploy?", "yes", "no") as terminal:
        set_id = first_set(directory)
        terminal.until(f"Waiting for the answer: holdfast answer {set_id[:8]}")
        cli("answer", set_id, "--answers", YES)
        assert terminal.ended() == 0
        assert "1. Deploy?\n→ yes\n" in terminal.shown


@pytest.mark.parametrize(
    ("question", "typed", "answer"),
    [
        (LANGUAGE, "2", Answer(question_index=0, selected_option="Rust")),
        (LANGUAGE, " ", None),
        (LANGUAGE, "neither", Answer(question_index=0, custom_text="neither")),
        (FEATURES, "3 1 3", Answer(question_index=0, selected_options=("Search", "Auth"))),
        (FEATURES, "None", Answer(question_index=0, selected_options=())),
        (Question(title="Port", prompt="Which port?"), "80", Answer(question_index=0, custom_text="80")),
    ],
)
def test_what_is_typed_is_understood(question: Question, typed: str, answer: Answer | None) -> None:
    assert answer_from_text(0, question, typed) == answer


def test_a_question_mark_asks_the_agent_to_elaborate() -> None:
    answer = answer_from_text(0, LANGUAGE, "? which is faster")
    assert answer is not None
    assert answer.custom_text is not None
    assert answer.custom_text.startswith("[ELABORATE_REQUEST] ")
    assert answer.custom_text.endswith('User guidance: "which is faster"')


@pytest.mark.parametrize(("question", "typed"), [(LANGUAGE, "1 2"), (LANGUAGE, "0"), (FEATURES, "1,4")])
def test_numbers_that_name_no_option_are_refused(question: Question, typed: str) -> None:
    with pytest.raises(InvalidInput):
        answer_from_text(0, question, typed)


def test_lists_say_who_waits_and_for_what(cli: Cli, directory: Path) -> None:
    assert cli("questions", "list").stdout == ("Nobody waits for an answer. --all lists what was answered.\n")
    assert cli("questions", "list", "--all").stdout == "Nobody has asked anything.\n"
    first = cli("ask", json.dumps(QUESTIONS), "--no-wait", "--agent", "gemini").stdout.strip()
    second = cli("ask", "--simple", "Deploy?", "yes", "no", "--no-wait", "--agent", "ci").stdout.strip()
    assert cli("questions", "list").stdout == (
        "ID        STATUS   AGE  ASKER   ABOUT\n"
        f"{first[:8]}  pending  now  gemini  Language, Features\n"
        f"{second[:8]}  pending  now  ci      Deploy?\n"
    )
    cli("answer", second, "--answers", YES)
    assert [each["id"] for each in json.loads(cli("questions", "list", "--json").stdout)] == [first]
    everything = json.loads(cli("questions", "list", "--all", "--json").stdout)
    assert [each["status"] for each in everything] == ["pending", "completed"]


def test_a_set_is_shown_with_its_answers(cli: Cli, asked: str) -> None:
    cli("answer", asked, "--answers", RUST)
    lines = cli("questions", "show", asked[:8]).stdout.splitlines()
    assert lines[0] == f"# {asked}: completed"
    assert "1. Language: Which language?" in lines
    assert "   - Python (Recommended) — Fast to write" in lines
    assert any(line.startswith("Answered by ") and " through command line at " in line for line in lines)
    assert lines[-1] == "→ Rust"


def test_what_a_permission_is_asked_for_is_shown_and_cannot_steer_the_terminal(
    cli: Cli, directory: Path
) -> None:
    tool = {"title": "Run a command", "command": "rm -rf \x1b[2K/tmp/\u202ecod"}
    set_id = OtherProgram(directory).ask(kind="permission", agent="x\x1b[31m", tool=tool)
    output = cli("questions", "show", set_id).stdout
    assert "\x1b" not in output
    assert "\u202e" not in output
    assert "rm -rf ␛[2K/tmp/⟨U+202E⟩cod" in output
    assert "x␛[31m" in cli("questions", "list").stdout


def test_sets_are_exported_as_markdown_and_as_json(cli: Cli, directory: Path, asked: str) -> None:
    cli("answer", asked, "--answers", RUST)
    other = cli("ask", "--simple", "Deploy?", "yes", "no", "--no-wait").stdout.strip()
    markdown = cli("questions", "export").stdout
    assert [line for line in markdown.splitlines() if line.startswith("# ")] == [
        f"# {asked}: completed",
        f"# {other}: pending",
    ]
    result = cli("questions", "export", asked[:8], "--json", "--output", "sets.json")
    assert result.stdout == "sets.json holds 1 question sets.\n"
    (exported,) = json.loads((cli.home / "sets.json").read_text())
    assert exported == stored(directory, asked)
    assert set(exported["answers"][0]) == {"questionIndex", "selectedOption"}
    refused = cli("questions", "export", "--output", "no/such/place")
    ended_with(refused, 2, "no/such/place cannot be written: No such file or directory.")


def test_a_set_of_another_program_is_exported_whatever_it_holds(
    cli: Cli, directory: Path, asked: str
) -> None:
    request = directory / asked / "request.json"
    request.write_text(request.read_text().replace("Which language?", r"Which \ud800 language?"))
    assert cli("questions", "export", "--json", "--output", "sets.json").returncode == 0
    (exported,) = json.loads((cli.home / "sets.json").read_text())
    assert exported["questions"][0]["prompt"] == "Which \ud800 language?"


def test_the_examples_of_the_documentation_work_as_they_are_written(cli: Cli, directory: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "questions.md").read_text(encoding="utf-8")
    commands = [line.removeprefix("$ ") for line in page.splitlines() if line.startswith("$ ")]
    assert len(commands) > 5
    holdfast = f'holdfast() {{ "{sys.executable}" -m holdfast "$@"; }}'
    result = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", "\n".join([holdfast, *commands])],
        cwd=cli.home,
        env=cli.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (result.returncode, result.stderr) == (0, "")
    assert (cli.home / "questions.md").read_text().count("# ") == 1
