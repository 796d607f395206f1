"""Keys as text: injective, and parsed back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import InvalidInput
from holdfast.model.key import OWN_CHANNEL, PeerKind, SessionKey

parts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=20)
tricky = st.text(":%23A5", min_size=1, max_size=8)
names = st.from_regex(r"\s?[a-zA-Z0-9][a-zA-Z0-9_.-]{0,8}\s?", fullmatch=True)
peers = {
    "peer_kind": st.sampled_from(PeerKind),
    "peer_id": parts | tricky,
    "thread": st.none() | parts | tricky,
}
chats = st.builds(
    SessionKey, agent_id=names, channel=names | st.just("*"), account_id=names | st.just("*"), **peers
)
own = st.builds(
    SessionKey, agent_id=parts | tricky, channel=st.just(OWN_CHANNEL), account_id=parts | tricky, **peers
)
keys = chats | own


@given(keys)
def test_a_key_is_parsed_back_from_its_text(key: SessionKey) -> None:
    assert SessionKey.parse(str(key)) == key


@given(keys, keys)
def test_no_two_keys_share_a_text(one: SessionKey, other: SessionKey) -> None:
    assert (str(one) == str(other)) == (one == other)


def test_a_separator_inside_a_part_does_not_move_the_border() -> None:
    one = SessionKey("a", "b", "c", PeerKind.DM, "d:e")
    other = SessionKey("a", "b", "c", PeerKind.DM, "d", "e")
    assert str(one) == "a:b:c:dm:d%3Ae"
    assert str(one) != str(other)


@pytest.mark.req("STO-07")
def test_agents_channels_and_accounts_have_one_normal_form_whoever_makes_the_key() -> None:
    key = SessionKey("Main", " IRC", "Default ", PeerKind.GROUP, "#X")
    assert key == SessionKey("main", "irc", "default", PeerKind.GROUP, "#X")
    assert str(key) == "main:irc:default:group:#X"
    assert SessionKey.parse("Main:IRC:Default:group:#X") == key


@pytest.mark.parametrize("wrong", ["a b", "a/b", "a:b", "é", "\u212a", "-a", "", " ", "a\0", "a" * 513])
def test_what_is_no_name_is_refused_and_never_rewritten(wrong: str) -> None:
    for parts in ((wrong, "irc", "me"), ("main", wrong, "me"), ("main", "irc", wrong)):
        with pytest.raises(InvalidInput):
            SessionKey(*parts, PeerKind.DM, "ada")


def test_no_agent_is_called_every_agent() -> None:
    with pytest.raises(InvalidInput, match="The agent id '\\*' is no name"):
        SessionKey("*", "irc", "me", PeerKind.DM, "ada")


@pytest.mark.parametrize("text", ["", "a:b:c", "a:b:c:dm:e:f:g", "a:b:c:friend:e", "a::c:dm:e"])
def test_text_that_is_no_key_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        SessionKey.parse(text)


@pytest.mark.parametrize("bad", ["", "nul\0", "half \ud800", "x" * 513])
def test_a_part_that_cannot_be_stored_is_refused(bad: str) -> None:
    with pytest.raises(InvalidInput, match="peer id"):
        SessionKey("main", "irc", "me", PeerKind.DM, bad)
