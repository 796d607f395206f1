"""Contents: typed where known, unchanged where not."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import InvalidInput
from holdfast.model.content import (
    CompactionContent,
    Content,
    JsonContent,
    PlanContent,
    QuestionContent,
    ResourceContent,
    TextContent,
    ThoughtContent,
    ToolContent,
    decode_content,
    encode_content,
    interrupted,
    is_open,
)
from holdfast.model.message import Message, Role

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | text,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(text, inner, max_size=4),
    max_leaves=12,
)
typed = st.one_of(
    st.builds(TextContent, text=text, partial=st.none() | st.booleans()),
    st.builds(ThoughtContent, text=text, partial=st.none() | st.booleans()),
    st.builds(PlanContent, steps=st.lists(json_values, max_size=3).map(tuple)),
    st.builds(ToolContent, tool=text, args=json_values, result=json_values, status=st.none() | text),
    st.builds(ResourceContent, uri=text, name=st.none() | text, text=st.none() | text),
    st.builds(QuestionContent, question_set_id=text, questions=st.lists(json_values, max_size=2).map(tuple)),
    st.builds(
        CompactionContent, compaction_id=text, summary=text, first_seq=st.integers(1, 9), last_seq=st.just(9)
    ),
)


@given(typed)
def test_a_typed_content_round_trips(content: Content) -> None:
    assert decode_content(encode_content(content)) == content


@given(json_values)
def test_any_json_survives_unchanged(value: Any) -> None:
    original = json.dumps({"type": "from_the_future", "payload": value}, indent=1).encode()
    content = decode_content(original)
    assert isinstance(content, JsonContent)
    assert encode_content(content) == original
    assert content.value["payload"] == value


@pytest.mark.parametrize(
    "original",
    [
        b'{"type":"text","text":5}',
        b'{"type":["text"]}',
        b'{"text":"no type"}',
        b"[1,2]",
        b"null",
        b'{"type":"x","n":123456789012345678901234567890,"f":1.0,"e":1e5}',
    ],
)
def test_json_of_another_shape_is_kept_and_not_refused(original: bytes) -> None:
    content = decode_content(original)
    assert isinstance(content, JsonContent)
    assert encode_content(content) == original


@pytest.mark.parametrize("bad", [b"{", b"{'a': 1}", b'{"a":"\xff"}', b""])
def test_what_is_not_json_is_refused(bad: bytes) -> None:
    with pytest.raises(InvalidInput, match="not valid JSON"):
        encode_content(JsonContent(bad))


def test_half_a_surrogate_pair_is_refused_in_a_sentence() -> None:
    with pytest.raises(InvalidInput, match="cannot be written as JSON"):
        Message.user("half \ud800")


def test_a_value_json_cannot_hold_is_refused() -> None:
    with pytest.raises(InvalidInput, match="content"):
        JsonContent.of({"type": "x", "value": object()})


@pytest.mark.req("SES-14")
def test_a_prompt_is_plain_text_of_the_user() -> None:
    message = Message.user("fix the bug")
    assert message.role is Role.USER
    assert msgspec.json.decode(bytes(message.content_json)) == {"type": "text", "text": "fix the bug"}


@pytest.mark.req("SES-15")
@pytest.mark.parametrize("partial", [True, False])
def test_an_agents_text_always_says_whether_more_is_expected(partial: bool) -> None:
    message = Message.agent("so far", partial=partial)
    assert message.role is Role.AGENT
    expected = {"type": "text", "text": "so far", "partial": partial}
    assert msgspec.json.decode(bytes(message.content_json)) == expected
    assert message.open is partial


@pytest.mark.req("SES-16")
def test_a_plan_keeps_its_steps() -> None:
    steps = ({"content": "read", "status": "completed"}, {"content": "write", "status": "pending"})
    message = Message.of("system", PlanContent(steps=steps))
    assert message.role is Role.SYSTEM
    assert msgspec.json.decode(bytes(message.content_json)) == {"type": "plan", "steps": list(steps)}


@pytest.mark.req("SES-17")
def test_a_tool_call_keeps_name_arguments_and_result() -> None:
    content = ToolContent(tool="grep", args={"pattern": "x"}, result={"lines": [1, 2]})
    message = Message.of("system", content)
    assert msgspec.json.decode(bytes(message.content_json)) == {
        "type": "tool",
        "tool": "grep",
        "args": {"pattern": "x"},
        "result": {"lines": [1, 2]},
    }


@pytest.mark.parametrize(
    ("status", "open_"), [("pending", True), ("in_progress", True), ("completed", False), (None, False)]
)
def test_a_tool_is_open_while_it_runs(status: str | None, open_: bool) -> None:
    assert ToolContent(tool="t", args={}, status=status).open is open_


def test_an_interrupted_content_is_closed_and_says_so() -> None:
    assert interrupted({"type": "text", "text": "half", "partial": True})["partial"] is False
    assert interrupted({"type": "tool", "tool": "t", "status": "pending"})["status"] == "interrupted"
    asked = {"type": "question", "questionSetId": "q-1", "status": "pending"}
    assert is_open(json.dumps(asked).encode())
    assert not is_open(json.dumps(interrupted(asked)).encode())


@pytest.mark.req("SES-02")
def test_assistant_is_read_as_agent_and_other_roles_are_refused() -> None:
    assert Message.of("assistant", TextContent(text="hi")).role is Role.AGENT
    with pytest.raises(InvalidInput, match="not a role"):
        Message.of("robot", TextContent(text="hi"))
