"""Words: what counts as one, what of a message a person reads, and where a search finds it."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.model.content import (
    Content,
    JsonContent,
    PlanContent,
    QuestionContent,
    TextContent,
    ThoughtContent,
    ToolContent,
)
from holdfast.model.message import Message, ToolCall
from holdfast.model.words import AFTER, BEFORE, LONGEST, MOST, READ, Sought, readable, words_of


def body_of(content: Content, **fields: object) -> str:
    return msgspec.json.encode(Message.of("agent", content, **fields)).decode()


def shown(text: str, looked_for: str) -> str:
    """A snippet, with brackets around what was found."""
    return "".join(
        f"[{piece.text}]" if piece.hit else piece.text for piece in Sought.of(looked_for).snippet(text)
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("The quick, brown fox!", {"the", "quick", "brown", "fox"}),
        ("Résumé RÉSUMÉ re\u0301sume\u0301 ｒｅｓｕｍｅ", {"resume"}),
        ("Straße ΣΊΣΥΦΟΣ ﬁne", {"strasse", "σισυφοσ", "fine"}),
        ("store.open_stream(x=3)", {"store", "open", "stream", "x", "3"}),
        ("東京タワー", {"東", "京", "タ", "ワ", "ー"}),
        ("½ ⑴ “ ” — … 🦊", {"12", "1"}),
        ("x" * 500, {"x" * LONGEST}),
        ("", set()),
    ],
)
def test_a_word_is_letters_and_digits_however_they_are_written(text: str, words: set[str]) -> None:
    assert words_of(text) == words


@given(st.text())
def test_whoever_looks_for_a_word_of_a_text_finds_it(text: str) -> None:
    words = words_of(text)
    assert all(word.isalnum() and word == word.casefold() for word in words)
    sought = Sought.of(text)
    assert set(sought.words) <= words
    assert len(sought.words) == min(len(words), MOST)
    assert any(piece.hit for piece in sought.snippet(text)) is bool(words)


@given(st.text(alphabet="ab é\n"), st.text(alphabet="abé", min_size=1))
def test_a_snippet_is_some_of_the_text_in_one_line(text: str, word: str) -> None:
    pieces = Sought.of(word).snippet(f"{text} {word} {text}")
    line = "".join(piece.text for piece in pieces)
    assert "\n" not in line
    assert line.strip("… ") in " ".join(f"{text} {word} {text}".split())


def test_a_snippet_is_short_also_where_a_word_is_not() -> None:
    pieces = Sought.of("deadbeef").snippet("see " + "deadbeef" * 10_000)
    assert sum(len(piece.text) for piece in pieces) < 300
    assert pieces[-2].hit
    assert pieces[-1].text == "…"


def test_a_snippet_shows_what_the_words_stand_in() -> None:
    text = f"{'before ' * 50}the stripe\n\n  Webhook failed{' after' * 50}"
    found = shown(text, "stripe webh")
    assert "before the [stripe] [Webhook] failed after" in found
    assert found.startswith("…before ")
    assert found.endswith("…")
    assert len(found) < BEFORE + AFTER + 10
    assert shown("a cat, a catalogue, a dog", "dog cat") == "a [cat], a [catalogue], a [dog]"
    assert shown("a dog", "cat") == ""


def test_only_the_last_word_may_be_the_beginning_of_one_and_only_from_three_letters_on() -> None:
    assert Sought.of("web hook").meets("hooks")
    assert not Sought.of("hook web").meets("hooks")
    assert not Sought.of("ho").meets("hook")
    assert not Sought.of(" … ").has_prefix


@pytest.mark.parametrize(
    ("content", "read"),
    [
        (TextContent(text="Hello there", partial=False), "Hello there"),
        (ThoughtContent(text="Hmm"), "Hmm"),
        (
            PlanContent(steps=({"content": "Read it", "status": "pending", "priority": "high"}, "Mend it")),
            "Read it\nMend it",
        ),
        (
            ToolContent(
                tool="bash",
                args={"command": ["make", "test"], "timeout": 3},
                title="Run the tests",
                status="completed",
                tool_call_id="call-1",
                kind="execute",
                content=({"type": "content", "content": {"type": "text", "text": "3 passed"}},),
                locations=({"path": "src/webhooks.py", "line": 3},),
            ),
            "bash\nmake\ntest\nRun the tests\n3 passed\nsrc/webhooks.py",
        ),
        (
            QuestionContent(
                question_set_id="q-1", questions=({"title": "Deploy?", "options": [{"label": "Yes"}]},)
            ),
            "Deploy?\nYes",
        ),
        (JsonContent.of({"type": "newer", "said": {"deep": ["words", None, True]}}), "words"),
        (JsonContent.of("bare"), "bare"),
    ],
)
def test_a_person_reads_texts_and_not_the_names_of_fields_nor_ids(content: Content, read: str) -> None:
    assert readable(body_of(content)) == read


def test_the_calls_a_model_asked_for_are_read_too() -> None:
    call = ToolCall(id="call-1", name="search_code", arguments={"query": "webhooks"})
    assert readable(body_of(TextContent(text="Wait"), tool_calls=(call,))) == "Wait\nsearch_code\nwebhooks"


def test_of_a_very_long_message_the_beginning_is_read() -> None:
    assert len(readable(body_of(TextContent(text="word " * READ)))) == READ
    many = JsonContent.of({"type": "list", "items": ["word"] * READ})
    assert READ - len("word") <= len(readable(body_of(many))) <= READ


def test_what_is_nested_too_deep_to_read_does_no_harm() -> None:
    deep = "[" * 5000 + '"x"' + "]" * 5000
    assert readable(f'{{"role":"agent","content":{{"type":"deep","value":{deep}}}}}') == ""
