"""Keys as text: injective, and parsed back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import InvalidInput
from holdfast.model.key import PeerKind, SessionKey

parts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=20)
tricky = st.text(":%23A5", min_size=1, max_size=8)
keys = st.builds(
    SessionKey,
    agent_id=parts | tricky,
    channel=parts | tricky,
    account_id=parts | tricky,
    peer_kind=st.sampled_from(PeerKind),
    peer_id=parts | tricky,
    thread=st.none() | parts | tricky,
)


@given(keys)
def test_a_key_is_parsed_back_from_its_text(key: SessionKey) -> None:
    assert SessionKey.parse(str(key)) == key


@given(keys, keys)
def test_no_two_keys_share_a_text(one: SessionKey, other: SessionKey) -> None:
    assert (str(one) == str(other)) == (one == other)


def test_a_separator_inside_a_part_does_not_move_the_border() -> None:
    one = SessionKey("a:b", "c", "d", PeerKind.DM, "e")
    other = SessionKey("a", "b:c", "d", PeerKind.DM, "e")
    assert str(one) == "a%3Ab:c:d:dm:e"
    assert str(one) != str(other)


@pytest.mark.parametrize("text", ["", "a:b:c", "a:b:c:dm:e:f:g", "a:b:c:friend:e", "a::c:dm:e"])
def test_text_that_is_no_key_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        SessionKey.parse(text)


@pytest.mark.parametrize("bad", ["", "nul\0", "half \ud800", "x" * 513])
def test_a_part_that_cannot_be_stored_is_refused(bad: str) -> None:
    with pytest.raises(InvalidInput, match="peer id"):
        SessionKey("main", "irc", "me", PeerKind.DM, bad)
