"""Deciding who answers a message, among ten thousand bindings."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

from benchmarks.measure import Result, Run, Spread, Suite, blocking_latencies
from holdfast import PeerKind, SessionKey
from holdfast.routing.binding import Binding, Tier
from holdfast.routing.bindings import Bindings
from holdfast.routing.incoming import Incoming, Peer
from holdfast.routing.policy import RoutingPolicy

BINDINGS = 10_000
ROUNDS = 20
AT_MOST = 50e-6


class Question(NamedTuple):
    """A message, and what decides about it."""

    what: str
    bindings: Bindings
    message: Incoming
    tier: Tier


def _bindings(*kinds: Any) -> Bindings:
    """Ten thousand, of these kinds in turn."""
    return Bindings(
        [
            Binding(agent=f"agent-{n % 50}", channel="discord", **kinds[n % len(kinds)](n))
            for n in range(BINDINGS)
        ],
        RoutingPolicy(default_agent="main"),
    )


def _said(peer: str, **fields: Any) -> Incoming:
    return Incoming(channel="discord", peer=Peer.parse(peer), **fields)


def _questions() -> list[Question]:
    """Those of a company's chats, and sets of bindings that all name the same but for one thing."""
    company = _bindings(
        *(lambda n: {"peer": f"group:room-{n}"},) * 6,
        lambda n: {"peer": f"group:family-{n}-*"},
        lambda n: {"guild": f"guild-{n}", "roles": (f"role-{n % 7}", "admin")},
        lambda n: {"team": f"team-{n}"},
        lambda n: {"account": f"account-{n}"},
    )
    among_many = {
        Tier.PEER: _said("group:room-9995"),
        Tier.WILDCARD_PEER: _said("group:family-9996-blue"),
        Tier.GUILD_ROLES: _said("channel:c", guild="guild-9997", roles=("x", "y", "admin")),
        Tier.TEAM: _said("dm:ada", team="team-9998", guild="g"),
        Tier.ACCOUNT: _said("dm:ada", account="account-9999"),
        Tier.DEFAULT: _said("dm:ada", guild="g", team="t", roles=("a",)),
    }
    endings = _bindings(lambda n: {"peer": f"group:*-p{n}"})
    both_ends = _bindings(lambda n: {"peer": f"group:#room-*{n}x"})
    one_guild = _bindings(lambda n: {"guild": "g", "team": f"team-{n}"})
    one_room = _bindings(lambda n: {"peer": "group:#room", "account": f"account-{n}"})
    return [
        *(Question(f"matched by {tier.label}", company, said, tier) for tier, said in among_many.items()),
        Question("patterns that differ at their end", endings, _said("group:x-p9999"), Tier.WILDCARD_PEER),
        Question("the same, no match", endings, _said("group:x-p10000"), Tier.DEFAULT),
        Question(
            "patterns with one beginning", both_ends, _said("group:#room-blue-9999x"), Tier.WILDCARD_PEER
        ),
        Question("teams of one guild", one_guild, _said("dm:ada", guild="g", team="team-9999"), Tier.GUILD),
        Question("accounts in one room", one_room, _said("group:#room", account="account-9999"), Tier.PEER),
    ]


async def decisions(run: Run) -> list[Result]:
    """Routing: a decision by each kind of match. The floor is a lookup in a dictionary and the key alone."""
    by_peer = {f"room-{n}": f"agent-{n % 50}" for n in range(BINDINGS)}

    def floor() -> SessionKey:
        return SessionKey(by_peer["room-9995"], "discord", "default", PeerKind.GROUP, "room-9995")

    count = run.size(500, 50)
    results = []
    for what, bindings, message, tier in _questions():
        assert bindings.decide(message).matched_by is tier
        taken = await run.p50(
            {
                "ours": partial(blocking_latencies, partial(bindings.decide, message), count),
                "floor": partial(blocking_latencies, floor, count),
            },
            ROUNDS,
        )
        ours, least = Spread.of(taken["ours"]), Spread.of(taken["floor"])
        results.append(
            Result(
                "routing",
                f"a decision among {BINDINGS:,} bindings, {what}",
                f"{ours.median * 1e6:.1f} µs",
                f"{least.median * 1e6:.1f} µs",
                Spread(*(value * 1e6 for value in ours)),
                unit=" µs",
                at_most=AT_MOST * 1e6,
            )
        )
    return results


SUITE = Suite("routing", {"decisions": decisions}, plot="performance-routing.png")
