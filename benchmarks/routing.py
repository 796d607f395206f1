"""Deciding who answers a message, among ten thousand bindings."""

from __future__ import annotations

from functools import partial

from benchmarks.measure import Result, Run, Spread, Suite, blocking_latencies
from holdfast import PeerKind, SessionKey
from holdfast.routing.binding import Binding, Tier
from holdfast.routing.bindings import Bindings
from holdfast.routing.incoming import Incoming, Peer
from holdfast.routing.policy import RoutingPolicy

BINDINGS = 10_000
ROUNDS = 20
AT_MOST = 50e-6


def _bindings() -> list[Binding]:
    """A company's chats: most bindings name a room, some a family of rooms, a guild, a team, an account."""
    kinds = (
        *(lambda n: {"peer": f"group:room-{n}"},) * 6,
        lambda n: {"peer": f"group:family-{n}-*"},
        lambda n: {"guild": f"guild-{n}", "roles": (f"role-{n % 7}", "admin")},
        lambda n: {"team": f"team-{n}"},
        lambda n: {"account": f"account-{n}"},
    )
    return [
        Binding(agent=f"agent-{n % 50}", channel="discord", **kinds[n % len(kinds)](n))
        for n in range(BINDINGS)
    ]


MESSAGES = {
    Tier.PEER: Incoming(channel="discord", peer=Peer(PeerKind.GROUP, "room-9995")),
    Tier.WILDCARD_PEER: Incoming(channel="discord", peer=Peer(PeerKind.GROUP, "family-9996-blue")),
    Tier.GUILD_ROLES: Incoming(
        channel="discord", peer=Peer(PeerKind.CHANNEL, "c"), guild="guild-9997", roles=("x", "y", "admin")
    ),
    Tier.TEAM: Incoming(channel="discord", peer=Peer(PeerKind.DM, "ada"), team="team-9998", guild="g"),
    Tier.ACCOUNT: Incoming(channel="discord", peer=Peer(PeerKind.DM, "ada"), account="account-9999"),
    Tier.DEFAULT: Incoming(
        channel="discord", peer=Peer(PeerKind.DM, "ada"), guild="g", team="t", roles=("a",)
    ),
}


async def decisions(run: Run) -> list[Result]:
    """Routing: a decision by each kind of match. The floor is a lookup in a dictionary and the key alone."""
    bindings = Bindings(_bindings(), RoutingPolicy(default_agent="main"))
    by_peer = {f"room-{n}": f"agent-{n % 50}" for n in range(BINDINGS)}

    def floor() -> SessionKey:
        return SessionKey(by_peer["room-9995"], "discord", "default", PeerKind.GROUP, "room-9995")

    count = run.size(500, 50)
    results = []
    for tier, message in MESSAGES.items():
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
                f"a decision among {BINDINGS:,} bindings, matched by {tier.label}",
                f"{ours.median * 1e6:.1f} µs",
                f"{least.median * 1e6:.1f} µs",
                Spread(*(value * 1e6 for value in ours)),
                unit=" µs",
                at_most=AT_MOST * 1e6,
            )
        )
    return results


SUITE = Suite("routing", {"decisions": decisions}, plot="performance-routing.png")
