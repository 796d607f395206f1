"""Finding the binding for a message without looking at all of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Sequence

from holdfast.routing.binding import Rule, Tier, is_room
from holdfast.routing.incoming import Incoming, Peer


class RuleIndex:
    """The places of rules, by tier and by what a message must have for them to matter.

    Patterns are found by what they begin with: a lookup tries the message's peer cut to each length
    that some pattern's beginning has.
    """

    def __init__(self, rules: Sequence[Rule]) -> None:
        self._rules = rules
        self._places: dict[Hashable, list[int]] = defaultdict(list)
        lengths: dict[Hashable, set[int]] = defaultdict(set)
        for place, rule in enumerate(rules):
            for key in _keys(rule):
                self._places[key].append(place)
            if rule.is_pattern:
                assert rule.peer is not None
                lengths[rule.channel, is_room(rule.peer.kind)].add(len(rule.literal))
        self._lengths = {key: sorted(found) for key, found in lengths.items()}

    def choose(self, message: Incoming) -> tuple[Tier, Rule] | None:
        """The first of the most specific rules that match."""
        for tier, keys in self._lookups(message):
            places = [place for key in keys for place in self._places.get(key, ())]
            for place in sorted(places) if len(places) > 1 else places:
                if self._rules[place].mismatch(message) is None:
                    return tier, self._rules[place]
        return None

    def _lookups(self, message: Incoming) -> Iterator[tuple[Tier, Iterable[Hashable]]]:
        channel, peer = message.channel, message.peer
        yield Tier.PEER, [_peer(channel, peer)]
        if message.parent is not None:
            yield Tier.PARENT_PEER, [_peer(channel, message.parent)]
        room = is_room(peer.kind)
        lengths = self._lengths.get((channel, room), ())
        yield Tier.WILDCARD_PEER, [(Tier.WILDCARD_PEER, channel, room, peer.id[:n]) for n in lengths]
        if message.guild is not None:
            roles = dict.fromkeys(message.roles)
            yield Tier.GUILD_ROLES, [(Tier.GUILD_ROLES, channel, message.guild, role) for role in roles]
            yield Tier.GUILD, [(Tier.GUILD, channel, message.guild)]
        if message.team is not None:
            yield Tier.TEAM, [(Tier.TEAM, channel, message.team)]
        yield Tier.ACCOUNT, [(Tier.ACCOUNT, channel, message.account)]
        yield Tier.CHANNEL, [(Tier.CHANNEL, channel)]


def _keys(rule: Rule) -> Iterator[Hashable]:
    match rule.tier:
        case Tier.PEER:
            assert rule.peer is not None
            yield _peer(rule.channel, rule.peer)
        case Tier.WILDCARD_PEER:
            assert rule.peer is not None
            yield Tier.WILDCARD_PEER, rule.channel, is_room(rule.peer.kind), rule.literal
        case Tier.GUILD_ROLES:
            for role in rule.roles:
                yield Tier.GUILD_ROLES, rule.channel, rule.binding.guild, role
        case Tier.GUILD:
            yield Tier.GUILD, rule.channel, rule.binding.guild
        case Tier.TEAM:
            yield Tier.TEAM, rule.channel, rule.binding.team
        case Tier.ACCOUNT:
            yield Tier.ACCOUNT, rule.channel, rule.account
        case Tier.CHANNEL:
            yield Tier.CHANNEL, rule.channel


def _peer(channel: str, peer: Peer) -> Hashable:
    return Tier.PEER, channel, is_room(peer.kind), peer.id
