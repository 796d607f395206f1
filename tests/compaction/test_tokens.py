"""Token counts: exact, estimated, calibrated, and made once."""

import base64
import json
import random
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import Message, NewSession, Role, Store, TextContent, ToolContent, open_store
from holdfast.compaction import tokens
from holdfast.compaction.budget import Budget
from holdfast.compaction.standing import SessionStanding
from holdfast.compaction.tokens import EstimatingCounter, ExactCounter, UnusableTokenizer, default_counter
from holdfast.errors import InvalidInput, MissingExtra
from holdfast.model.content import JsonContent, ThoughtContent
from holdfast.model.ids import MessageId
from holdfast.model.tokens import MEDIA_TOKENS, MESSAGE_OVERHEAD, message_tokens
from tests.compaction.sessions import calling

CHANCE = random.Random(1)
NOISE = CHANCE.randbytes(1500)

SAMPLES = {
    "prose": "The session goes on where it was left, whoever talks in it and whatever died meanwhile. " * 20,
    "code": "async def read_view(store: Store, ref: SessionRef) -> View:\n    return View(await store)\n"
    * 20,
    "json": json.dumps([{"id": n, "name": f"row {n}", "tags": ["a", "b"], "ok": True} for n in range(40)]),
    "chinese": "会话在中断的地方继续，无论谁在其中说话。" * 60,
    "russian": "Сессия продолжается с того места, где она прервалась. " * 30,
    "base64": base64.b64encode(NOISE).decode(),
    "hex": NOISE.hex(),
    "log": "2026-11-16T03:04:05.678Z INFO worker-7 handled 200 GET /api/sessions/42 in 13.7 ms\n" * 25,
    "letters": "".join(CHANCE.choices(string.ascii_letters, k=2000)),
}


@pytest.mark.parametrize("kind", SAMPLES)
def test_the_estimate_lies_within_its_stated_bounds(kind: str) -> None:
    text = SAMPLES[kind]
    ratio = EstimatingCounter().count(text) / ExactCounter().count(text)
    assert 0.75 <= ratio <= 2.2, ratio


OTHER_SCRIPTS = {
    "accented": "éèàùçîôû" * 100,
    "Amharic": "ሰላም እንዴት ነህ " * 40,
    "Georgian": "გამარჯობა როგორ ხარ " * 40,
    "Hebrew with points": "שָׁלוֹם עֲלֵיכֶם " * 50,
    "Hindi": "नमस्ते आप कैसे हैं " * 40,
    "rare Chinese": "".join(chr(0x3400 + place) for place in range(600)),
    "Thai": "สวัสดีครับ วันนี้อากาศดีมาก " * 40,
    "Tibetan": "བོད་སྐད་ཡིག་ " * 40,
}


@pytest.mark.parametrize("script", OTHER_SCRIPTS)
def test_the_estimate_of_other_scripts_lies_within_wider_bounds(script: str) -> None:
    text = OTHER_SCRIPTS[script]
    assert 0.25 <= EstimatingCounter().count(text) / ExactCounter().count(text) <= 3.2


@given(st.text())
def test_no_count_is_more_than_the_bytes_of_the_text(text: str) -> None:
    size = len(text.encode())
    assert 0 <= EstimatingCounter().count(text) <= size
    assert ExactCounter().count(text) <= size


def test_text_that_spells_a_special_token_is_counted_as_text() -> None:
    assert ExactCounter().count("<|endoftext|>") > 1


def test_a_tokenizer_that_counts_wrongly_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(tokens.KNOWN_COUNTS, "cl100k_base", {"hello world": 11})
    tokens._tokenizer.cache_clear()
    with pytest.raises(UnusableTokenizer, match="counts 2 tokens in 'hello world' where there are 11"):
        ExactCounter("cl100k_base")
    tokens._tokenizer.cache_clear()


def test_without_a_tokenizer_the_estimate_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "find_spec", lambda name: None)
    tokens._tokenizer.cache_clear()
    assert default_counter().name == "estimate"
    with pytest.raises(MissingExtra, match=r"holdfast\[tokens\]"):
        ExactCounter()


def test_a_picture_counts_flat_and_calls_count() -> None:
    counter = ExactCounter()
    picture = Message.of(Role.USER, JsonContent.of({"type": "image", "data": "A" * 100_000}))
    assert message_tokens(picture, counter) == MEDIA_TOKENS + MESSAGE_OVERHEAD
    assert message_tokens(calling("a"), counter) > message_tokens(Message.agent(""), counter)


async def test_messages_are_counted_once_when_they_are_stored(store_url: str) -> None:
    counter = ExactCounter()
    async with open_store(store_url, counter=counter) as store:
        session = (await store.create_session(NewSession())).id
        (said,) = await store.append_messages(session, [Message.user("hello world")])
        (told,) = await store.append_messages(session, [Message.user("hello world", token_count=99)])
        tool = ToolContent(tool="read", args={"path": "a"}, status="in_progress")
        (running,) = await store.append_messages(session, [Message.of(Role.TOOL, tool)])
        stream = await store.open_stream(session, Message.agent("", partial=True))
        stream.write("streamed ")
        stream.write("text")
        streamed = await stream.end()
        final = await store.revise_message(
            session, MessageId(running.id or ""), ToolContent(tool="read", args={}, result="x" * 100)
        )
        page = await store.get_history(session)
    assert (said.token_count, said.tokenizer) == (2 + MESSAGE_OVERHEAD, "o200k_base")
    assert (told.token_count, told.tokenizer, running.token_count) == (99, None, None)
    assert streamed.token_count == counter.count("streamed text") + MESSAGE_OVERHEAD
    assert (final.token_count, final.tokenizer) == (message_tokens(final, counter), "o200k_base")
    assert page.messages == [said, told, final, streamed]


async def test_a_store_without_a_counter_leaves_messages_as_they_are(store: Store) -> None:
    session = (await store.create_session(NewSession())).id
    thought = Message.of(Role.AGENT, ThoughtContent(text="hm", partial=False))
    stored = await store.append_messages(session, [thought, Message.of("user", TextContent(text="a"))])
    assert [(message.token_count, message.tokenizer) for message in stored] == [(None, None)] * 2


def test_reported_usage_calibrates_the_budget_slowly_and_nonsense_does_not() -> None:
    standing = SessionStanding()
    for _ in range(20):
        standing = standing.reported(counted=1_000, reported=1_200)
    assert 1.19 < standing.token_ratio <= 1.2
    assert standing.reported(counted=10, reported=1_000_000) == standing
    assert standing.reported(counted=0, reported=5) == standing
    assert Budget(window=1_200, target=600).calibrated(1.2) == Budget(window=1_000, target=500)


def test_a_window_without_room_is_refused() -> None:
    with pytest.raises(InvalidInput, match="no room"):
        Budget(window=1_000, reserve=600, overhead=400)
