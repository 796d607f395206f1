"""Lines of an agent: how deep they are nested, and what is made of bytes that are no text."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.agents.lines import MAX_DEPTH, depth, mended

BRACKETS = st.text(alphabet='[]{}"\\a', max_size=20)
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | BRACKETS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(BRACKETS, inner, max_size=4),
)


def nesting(value: Any) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if inner is None else 1 + max(map(nesting, inner), default=0)


@given(VALUES)
def test_the_depth_of_a_long_line_is_that_of_its_json(value: Any) -> None:
    padding: Any = [[]] * (MAX_DEPTH + 1)
    assert depth(json.dumps([value, padding]).encode()) == 1 + max(nesting(value), 2)


@pytest.mark.parametrize("line", [b"", b"{}", b"[" * MAX_DEPTH, b"[" * 150 + b"]" * 150])
def test_no_short_line_and_none_with_few_brackets_is_too_deep(line: bytes) -> None:
    assert depth(line) <= MAX_DEPTH


@pytest.mark.parametrize("line", [b"[" * 201, b'{"a":' * 1000 + b"1" + b"}" * 1000])
def test_what_is_nested_too_deep_is_known(line: bytes) -> None:
    assert depth(line) > MAX_DEPTH


@given(st.text())
def test_text_is_left_as_it_is(text: str) -> None:
    for ascii_only in (True, False):
        line = json.dumps(text, ensure_ascii=ascii_only).encode()
        assert mended(line) == line


@given(st.lists(st.sampled_from(["a", "\\\\", "\\n", "\\ud83d", "\\uDE00", "\\u0041", "\\ude00", "d83d"])))
def test_halves_of_pairs_become_replacement_characters_and_nothing_else_changes(parts: list[str]) -> None:
    line = f'"{"".join(parts)}"'
    lenient: str = json.loads(line)
    expected = "".join("\ufffd" if "\ud800" <= char <= "\udfff" else char for char in lenient)
    assert msgspec.json.decode(mended(line.encode())) == expected


@given(st.binary())
def test_whatever_the_bytes_are_the_line_is_text_afterwards(raw: bytes) -> None:
    text = mended(raw).decode()
    assert text.encode() == raw or "\ufffd" in text or r"\ufffd" in text
