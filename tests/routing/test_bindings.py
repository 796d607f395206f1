"""Which agent answers: the most specific binding, and why not the others."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import InvalidInput
from holdfast.routing.binding import Binding, Rule, Tier
from holdfast.routing.bindings import AgentSelectionRequired, Bindings
from holdfast.routing.incoming import Incoming, Normal
from holdfast.routing.policy import RoutingPolicy
from tests.routing.messages import said

EVERYTHING = (
    Binding(agent="by-channel", channel="discord", account="*"),
    Binding(agent="by-account", channel="discord"),
    Binding(agent="by-team", channel="discord", account="*", team="t1"),
    Binding(agent="by-guild", channel="discord", account="*", guild="g1"),
    Binding(agent="by-roles", channel="discord", account="*", guild="g1", roles=("mod", "admin")),
    Binding(agent="by-pattern", channel="discord", account="*", peer="group:dev-*"),
    Binding(agent="by-peer", channel="discord", account="*", peer="channel:dev-1"),
)


def discord(peer: str, **fields: Any) -> Incoming:
    return said(peer, channel="discord", **fields)


@pytest.mark.req("STO-10")
@pytest.mark.parametrize(
    ("message", "tier"),
    [
        (discord("channel:dev-1", guild="g1", roles=("mod",), team="t1"), Tier.PEER),
        (discord("group:dev-1", guild="g1"), Tier.PEER),
        (discord("channel:thread-9", parent="channel:dev-1", guild="g1"), Tier.PARENT_PEER),
        (discord("channel:dev-2", guild="g1", roles=("mod",)), Tier.WILDCARD_PEER),
        (discord("channel:other", guild="g1", roles=("x", "admin"), team="t1"), Tier.GUILD_ROLES),
        (discord("channel:other", guild="g1", roles=("x",), team="t1"), Tier.GUILD),
        (discord("channel:other", guild="g2", team="t1"), Tier.TEAM),
        (discord("dm:dev-1"), Tier.ACCOUNT),
        (discord("dm:ada", account="second"), Tier.CHANNEL),
        (said("dm:ada", channel="irc"), Tier.DEFAULT),
    ],
)
def test_the_most_specific_binding_wins(message: Incoming, tier: Tier) -> None:
    agents = {
        Tier.PEER: "by-peer",
        Tier.PARENT_PEER: "by-peer",
        Tier.WILDCARD_PEER: "by-pattern",
        Tier.GUILD_ROLES: "by-roles",
        Tier.GUILD: "by-guild",
        Tier.TEAM: "by-team",
        Tier.ACCOUNT: "by-account",
        Tier.CHANNEL: "by-channel",
        Tier.DEFAULT: "main",
    }
    policy = RoutingPolicy(default_agent="main")
    for bindings in (EVERYTHING, EVERYTHING[::-1]):
        decision = Bindings(bindings, policy).decide(message)
        assert (decision.matched_by, decision.agent, decision.key.agent_id) == (
            tier,
            agents[tier],
            agents[tier],
        )


@pytest.mark.req("STO-10")
def test_a_decision_says_why_every_other_binding_was_not_chosen() -> None:
    decision = Bindings(EVERYTHING).decide(discord("channel:dev-1", guild="g1", account="second"))
    reasons = {each.binding.agent: each.reason for each in decision.rejected}
    assert reasons == {
        "by-channel": "a match by peer comes before one by channel",
        "by-account": "it is for account default, and this is second",
        "by-team": "it is for team t1, and this is in none",
        "by-guild": "a match by peer comes before one by guild",
        "by-roles": "it is for roles admin, mod, and the sender has none of them",
        "by-pattern": "a match by peer comes before one by wildcard peer",
    }
    assert decision.ambiguous == []


@pytest.mark.req("STO-10")
def test_of_equally_specific_bindings_the_first_wins_and_the_others_are_named() -> None:
    first, second = (
        Binding(agent="one", channel="irc", peer="group:#a*"),
        Binding(agent="two", channel="irc", peer="group:#*b"),
    )
    for bindings in ((first, second), (second, first)):
        decision = Bindings(bindings).decide(said("group:#ab", channel="irc"))
        assert decision.agent == bindings[0].agent
        (other,) = decision.ambiguous
        assert other.binding is bindings[1]
        assert other.reason == "it is just as specific, and the chosen one stands before it"


@pytest.mark.req("STO-10")
def test_the_bindings_of_the_settings_stand_before_the_others() -> None:
    policy = RoutingPolicy(bindings=(Binding(agent="settings", channel="irc"),))
    decision = Bindings([Binding(agent="stored", channel="irc")], policy).decide(said("dm:x", channel="irc"))
    assert (decision.agent, decision.ambiguous[0].binding.agent) == ("settings", "stored")


@pytest.mark.req("STO-10")
def test_without_a_match_nobody_is_guessed() -> None:
    with pytest.raises(AgentSelectionRequired, match=r"No binding is for dm:ada on irc \(account default\)"):
        Bindings(EVERYTHING, agents=[each.agent for each in EVERYTHING]).decide(said("dm:ada", channel="irc"))


def test_a_sole_agent_answers_everything() -> None:
    assert Bindings(agents=["only"]).decide(said("dm:ada")).agent == "only"


def test_an_unknown_agent_is_an_error_at_once() -> None:
    with pytest.raises(InvalidInput, match="names the agent 'ghost', which is not known; known are main"):
        Bindings([Binding(agent="ghost", channel="irc")], agents=["main"])
    with pytest.raises(InvalidInput, match="default_agent"):
        Bindings([], RoutingPolicy(default_agent="ghost"), agents=["main"])


@pytest.mark.parametrize(
    "wrong",
    [
        {"bindings": [{"agent": "a", "channel": "irc", "pear": "x"}]},
        {"bindings": [{"agent": "a", "channel": "irc", "peer": "everybody"}]},
        {"bindings": [{"agent": "a", "channel": "irc", "roles": ["x"]}]},
        {"bindings": [{"agent": "a b", "channel": "irc"}]},
        {"dm_scope": "per-person"},
        {"reset": {"mode": "daily", "at_hour": 24}},
        {"reset_by_kind": {"room": {"mode": "daily"}}},
    ],
)
def test_wrong_settings_are_refused_in_a_sentence(wrong: dict[str, object]) -> None:
    with pytest.raises(InvalidInput):
        RoutingPolicy.from_settings(wrong)


def test_a_peer_linked_to_two_people_is_refused() -> None:
    with pytest.raises(InvalidInput, match="linked to both 'ada' and 'bob'"):
        Bindings((), RoutingPolicy(links={"ada": ("irc:x",), "bob": ("irc:X",)}))


few = st.sampled_from([None, "1", "2"])
globs = st.text("ab*?[]!-", min_size=1, max_size=6)
kinds = st.sampled_from(["dm", "group", "channel"])
roles = st.lists(st.sampled_from(["mod", "admin", "x"]), max_size=2).map(tuple)


@st.composite
def a_binding(draw: st.DrawFn) -> Binding:
    guild = draw(few)
    return Binding(
        agent="main",
        channel=draw(st.sampled_from(["irc", "discord"])),
        account=draw(st.sampled_from([None, "*", "1", "2"])),
        peer=draw(st.none() | st.builds("{}:{}".format, kinds, globs)),
        guild=guild,
        team=draw(few),
        roles=draw(roles) if guild else (),
    )


@st.composite
def a_message(draw: st.DrawFn) -> Incoming:
    peers = st.builds("{}:{}".format, kinds, st.text("ab[]-", min_size=1, max_size=6))
    return said(
        draw(peers),
        channel=draw(st.sampled_from(["irc", "discord"])),
        account=draw(st.sampled_from(["default", "1", "2"])),
        parent=draw(st.none() | peers),
        guild=draw(few),
        team=draw(few),
        roles=draw(roles),
    )


@pytest.mark.req("STO-10")
@given(st.lists(a_binding(), max_size=30), a_message())
def test_what_is_found_without_looking_at_all_bindings_is_what_looking_at_all_finds(
    bindings: list[Binding], message: Incoming
) -> None:
    decision = Bindings(bindings, RoutingPolicy(default_agent="main")).decide(message)
    rules = [Rule(binding, Normal()) for binding in bindings]
    matches = [(rule.match(decision.message) or Tier.DEFAULT, place) for place, rule in enumerate(rules)]
    tier, place = min(matches, default=(Tier.DEFAULT, 0))
    assert decision.matched_by is tier
    assert decision.binding is (None if tier is Tier.DEFAULT else bindings[place])


def test_no_pattern_and_no_peer_make_a_match_slow() -> None:
    cruel = Binding(agent="a", channel="slack", peer=f"group:{'*a' * 40}*b")
    bindings = Bindings([cruel], RoutingPolicy(default_agent="main"))
    # With backtracking this would outlast the universe, and the time that a test has.
    assert bindings.decide(said(f"group:{'a' * 500}")).agent == "main"
