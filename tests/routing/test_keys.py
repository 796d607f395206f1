"""From a message to its key: one normal form, and never one key for two chats."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from holdfast import PeerKind, SessionKey
from holdfast.errors import InvalidInput
from holdfast.model.key import name
from holdfast.routing.bindings import Bindings
from holdfast.routing.incoming import Incoming, Normal, Peer
from holdfast.routing.policy import RoutingPolicy
from holdfast.routing.scope import DmScope
from tests.routing.messages import said

names = st.from_regex(r"[a-zA-Z0-9][a-zA-Z0-9_.-]{0,8}", fullmatch=True).filter(
    lambda text: text.lower() != "holdfast"
)
ids = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=12)
tricky = st.sampled_from(["main", "*", "=ada", "==ada", "ada", "a:b", "%3A", "direct:u1", "group"])
peers = st.builds(Peer, st.sampled_from(PeerKind), (ids | tricky).filter(lambda text: text.strip() != ""))
messages = st.builds(
    Incoming,
    channel=names | st.sampled_from(["irc", "slack", "matrix"]),
    account=names,
    peer=peers,
    thread=st.none() | tricky,
)
direct = st.builds(Incoming, channel=names, account=names, peer=st.builds(Peer, st.just(PeerKind.DM), tricky))
scopes = st.sampled_from(DmScope)


def key(message: Incoming, scope: DmScope = DmScope.PER_ACCOUNT_CHANNEL_PEER, agent: str = "a") -> SessionKey:
    return (
        Bindings((), RoutingPolicy(default_agent=agent, dm_scope=scope, links={"ada": ("irc:ada",)}))
        .decide(message)
        .key
    )


@pytest.mark.req("STO-07")
@given(messages, scopes)
def test_every_key_parses_back_from_its_text(message: Incoming, scope: DmScope) -> None:
    made = key(message, scope)
    assert SessionKey.parse(str(made)) == made


@pytest.mark.req("STO-07")
@given(messages)
def test_normalising_twice_is_normalising_once(message: Incoming) -> None:
    normal = Normal()
    once = normal.message(message)
    assert normal.message(once) == once


@pytest.mark.req("STO-07", "STO-09")
@given(messages, messages)
def test_two_chats_share_a_key_only_if_they_are_one_chat(one: Incoming, other: Incoming) -> None:
    normal = Normal()
    one, other = normal.message(one), normal.message(other)
    assume((one.channel, one.peer.id) != ("irc", "ada") and (other.channel, other.peer.id) != ("irc", "ada"))
    same = [(m.channel, m.account, m.peer, m.thread) for m in (one, other)]
    assert (key(one) == key(other)) == (same[0] == same[1])


@pytest.mark.req("STO-08")
@given(direct, direct, st.permutations(list(DmScope)))
def test_keys_of_different_scopes_never_meet(one: Incoming, other: Incoming, chosen: list[DmScope]) -> None:
    assert key(one, chosen[0]) != key(other, chosen[1])


@pytest.mark.req("STO-07", "STO-09")
def test_an_account_called_group_does_not_meet_a_group() -> None:
    assert key(said("dm:u1", account="group")) != key(said("group:direct:u1"))


@pytest.mark.req("STO-07")
def test_matrix_keeps_the_case_of_peers_and_irc_folds_it_its_own_way() -> None:
    assert key(said("dm:@Alice:hs.org", channel="matrix")) != key(said("dm:@alice:hs.org", channel="matrix"))
    assert key(said("group:#Dev[1]", channel="irc")) == key(said("group:#dev{1}", channel="IRC "))
    assert key(said("group:#É", channel="irc")) != key(said("group:#é", channel="irc"))


@pytest.mark.req("STO-09")
def test_two_accounts_in_one_group_have_a_session_each() -> None:
    assert key(said("group:g", account="one")) != key(said("group:g", account="two"))


@pytest.mark.req("STO-09")
def test_groups_and_channels_of_one_id_have_a_session_each() -> None:
    assert key(said("group:g")) != key(said("channel:g"))
    assert key(said("group:g", thread="1")) != key(said("group:g", thread="2"))


@pytest.mark.parametrize("text", ["a b", "a/b", "ä", "\u212a", "-a", "*", "", " ", "a\0"])
def test_a_name_is_refused_and_never_rewritten(text: str) -> None:
    with pytest.raises(InvalidInput):
        name(text, "agent")


@pytest.mark.req("STO-07")
def test_names_are_trimmed_and_folded() -> None:
    assert name("  Main-2 ", "agent") == "main-2"
    assert key(said("dm:x", channel=" Slack"), agent="MAIN").agent_id == "main"


def test_the_channel_of_holdfast_itself_is_refused() -> None:
    with pytest.raises(InvalidInput, match="Holdfast's own"):
        key(said("dm:main", channel="Holdfast"))


@pytest.mark.req("STO-08")
def test_direct_messages_collapse_to_main_whoever_sends_them() -> None:
    sent = [said("dm:ada"), said("dm:bob", channel="irc"), said("dm:ada", account="two", thread="7")]
    assert {str(key(message, DmScope.MAIN)) for message in sent} == {"a:holdfast:*:dm:main"}


@pytest.mark.req("STO-08")
@pytest.mark.parametrize(
    ("scope", "sessions"),
    [
        (DmScope.MAIN, 1),
        (DmScope.PER_PEER, 2),
        (DmScope.PER_CHANNEL_PEER, 4),
        (DmScope.PER_ACCOUNT_CHANNEL_PEER, 8),
    ],
)
def test_a_scope_says_how_many_sessions_direct_messages_have(scope: DmScope, sessions: int) -> None:
    sent = [
        said(f"dm:{peer}", channel=channel, account=account)
        for peer in ("u1", "u2")
        for channel in ("slack", "telegram")
        for account in ("one", "two")
    ]
    assert len({key(message, scope) for message in sent}) == sessions


@pytest.mark.req("STO-08")
def test_an_agent_and_a_binding_may_set_the_scope() -> None:
    bindings = Bindings(
        (),
        RoutingPolicy.from_settings(
            {
                "default_agent": "a",
                "agent_dm_scope": {"A": "per-peer"},
                "bindings": [{"agent": "a", "channel": "irc", "dm_scope": "per-channel-peer"}],
            }
        ),
    )
    assert str(bindings.decide(said("dm:u1")).key) == "a:*:*:dm:u1"
    assert str(bindings.decide(said("dm:u1", channel="irc")).key) == "a:irc:*:dm:u1"


@pytest.mark.req("STO-08")
def test_linked_peers_are_one_person_unless_all_share_main() -> None:
    policy = RoutingPolicy(
        default_agent="a", dm_scope=DmScope.PER_PEER, links={"ada": ("irc:Ada", "telegram:123")}
    )
    bindings = Bindings((), policy)
    by_irc = bindings.decide(said("dm:aDA", channel="irc")).key
    assert by_irc == bindings.decide(said("dm:123", channel="telegram")).key
    assert by_irc != bindings.decide(said("dm:ada", channel="telegram")).key  # somebody else of that name
    assert by_irc != bindings.decide(said("dm:=ada", channel="telegram")).key
