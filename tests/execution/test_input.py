"""Three kinds of clients, one input: after it nobody knows which of them called."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import InvalidInput
from holdfast.execution.input import MAX_FILES, MAX_INSTRUCTION, ActiveFile, ExecutionInput, Mode, normalized

SESSION = "01a1e2ed-5995-71fd-92b8-f0ee51793149"
REQUEST = {
    "instruction": "Rename it",
    "agentContextId": "reviewer",
    "conversationContextId": "holdfast",
    "sessionId": SESSION,
    "mode": "edit",
    "repo": "holdfast",
    "language": "python",
    "activeFiles": [{"path": "src/a.py", "content": "a = 1\n", "isTouched": True}],
}


@pytest.mark.req("EXE-02")
def test_the_same_request_of_any_client_is_the_same_input() -> None:
    inputs = [normalized({**REQUEST, "clientType": client}) for client in ("browser", "cli", "thick")]
    assert inputs == [normalized(REQUEST)] * 3
    assert inputs[0] == ExecutionInput(
        instruction="Rename it",
        agent_context="reviewer",
        conversation_context="holdfast",
        session_id=SESSION,  # type: ignore[arg-type]
        mode=Mode.EDIT,
        repository="holdfast",
        language="python",
        active_files=(ActiveFile(path="src/a.py", content="a = 1\n", is_touched=True),),
    )


@pytest.mark.req("EXE-02")
def test_the_thin_cli_leaves_the_language_to_its_files() -> None:
    named: dict[str, Any] = {"instruction": "Look", "activeFiles": [{"path": "src/a.rs"}, {"path": "notes"}]}
    assert normalized({**named, "clientType": "cli"}).language == "rust"
    assert normalized({**named, "clientType": "cli", "language": "go"}).language == "go"
    assert normalized({**named, "clientType": "thick"}).language is None


def test_of_a_file_that_came_twice_the_last_counts() -> None:
    files = [{"path": "a", "content": "old"}, {"path": "b", "content": ""}, {"path": "a", "content": "new"}]
    (a, b) = normalized({"instruction": "x", "activeFiles": files}).active_files
    assert (a.path, a.content, b.path) == ("a", "new", "b")


@pytest.mark.parametrize(
    ("request_", "sentence"),
    [
        ({}, "missing required field `instruction`"),
        ({"instruction": " \n"}, "The instruction is empty"),
        ({"instruction": "x" * (MAX_INSTRUCTION + 1)}, "put the long part into a file"),
        ({"instruction": "a\0b"}, "NUL"),
        ({"instruction": "x", "mode": "destroy"}, "Invalid enum value 'destroy'"),
        ({"instruction": "x", "clientType": "fax"}, "'fax' is no kind of client"),
        ({"instruction": "x", "sessionId": "mine"}, "must be a UUID"),
        ({"instruction": "x", "agentContextId": ""}, "agent context must not be empty"),
        ({"instruction": "x", "surprise": 1}, "unknown field `surprise`"),
        (
            {
                "instruction": "x",
                "activeFiles": [{"path": f"{n}", "content": ""} for n in range(MAX_FILES + 1)],
            },
            "at most 200",
        ),
    ],
)
def test_a_request_that_cannot_be_executed_is_refused_in_a_sentence(
    request_: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(InvalidInput, match=sentence):
        normalized(request_)


@pytest.mark.parametrize(
    "path",
    ["", "/etc/passwd", "../up", "a/../../up", "a\\b", "a\nb", "a\0b", "C:\\x", "x" * 2000],
)
def test_a_hostile_path_is_refused(path: str) -> None:
    with pytest.raises(InvalidInput):
        normalized({"instruction": "x", "activeFiles": [{"path": path, "content": ""}]})


@given(
    request_=st.dictionaries(st.sampled_from([*REQUEST, "clientType"]), st.none() | st.text() | st.integers())
)
def test_whatever_comes_is_an_input_or_a_sentence(request_: dict[str, Any]) -> None:
    try:
        instruction = normalized(request_).instruction
    except InvalidInput:
        return
    assert instruction.strip()
