"""What may be said about a session, and who may see it."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import InvalidInput
from holdfast.model.ids import id_bytes, id_text
from holdfast.model.principal import Principal
from holdfast.model.session import NewSession, SessionPatch, merge_custom
from holdfast.model.times import from_ms, iso, to_ms
from holdfast.model.usage import TokenUsage


def test_custom_metadata_is_merged_and_none_removes_a_key() -> None:
    before = {"keep": 1, "drop": 2, "deep": {"a": 1, "b": 2}}
    after = merge_custom(before, {"drop": None, "deep": {"b": None, "c": 3}, "new": [1]})
    assert after == {"keep": 1, "deep": {"a": 1, "c": 3}, "new": [1]}
    assert before["drop"] == 2


def test_a_patch_that_says_nothing_is_empty() -> None:
    assert SessionPatch().is_empty
    assert not SessionPatch(title=None).is_empty


@pytest.mark.parametrize("bad", [{"title": "a\0b"}, {"description": "half \ud800"}])
def test_text_that_cannot_be_stored_is_refused(bad: dict[str, str]) -> None:
    with pytest.raises(InvalidInput):
        SessionPatch(**bad)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput):
        NewSession(**bad)  # type: ignore[arg-type]


def test_usage_adds_up_and_is_never_negative() -> None:
    assert TokenUsage(1, 2) + TokenUsage(3, 4) == TokenUsage(4, 6)
    with pytest.raises(InvalidInput):
        TokenUsage(-1, 0)


def test_a_principal_is_somebody() -> None:
    with pytest.raises(InvalidInput, match="user"):
        Principal("acme", "")


@given(st.binary(min_size=16, max_size=16))
def test_ids_round_trip(raw: bytes) -> None:
    assert id_bytes(id_text(raw)) == raw


@pytest.mark.parametrize("bad", ["", "123", "zzzzzzzz-0000-0000-0000-000000000000", "0" * 34])
def test_what_is_no_uuid_is_refused(bad: str) -> None:
    with pytest.raises(InvalidInput, match="must be a UUID"):
        id_bytes(bad, "session id")


@given(st.integers(0, 253402300799999))
def test_moments_round_trip_to_the_millisecond(ms: int) -> None:
    moment = from_ms(ms)
    assert to_ms(moment) == ms
    assert datetime.fromisoformat(iso(moment)) == moment


def test_a_moment_is_shown_in_utc_and_must_have_a_zone() -> None:
    assert iso(datetime(2026, 1, 1, 1, tzinfo=timezone(timedelta(hours=1)))) == "2026-01-01T00:00:00.000Z"
    assert iso(datetime(2026, 1, 1, 0, 0, 0, 999_999, tzinfo=UTC)) == "2026-01-01T00:00:00.999Z"
    with pytest.raises(InvalidInput, match="time zone"):
        to_ms(datetime(2026, 1, 1))  # noqa: DTZ001
