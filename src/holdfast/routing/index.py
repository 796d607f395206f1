"""Finding the binding for a message without looking at all of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterator, Sequence
from typing import NamedTuple

from holdfast.routing.binding import Rule, Tier, is_room
from holdfast.routing.incoming import Incoming, Peer


class RuleIndex:
    """The places of rules, by tier, then by what they name, then by what a message must have for them.

    A message is looked up once for each combination of things that some rule of the tier names, such as
    guild and team. Of rules that ask for the same only the first can be chosen. Patterns are found by what
    they begin and end with, and tried one after the other where that is the same.
    """

    def __init__(self, rules: Sequence[Rule]) -> None:
        self._rules = rules
        self._shelves: dict[Hashable, dict[_Named, dict[Hashable, list[int]]]] = {}
        for place, rule in enumerate(rules):
            shelf = self._shelves.setdefault(_shelf_of(rule), {})
            named = _Named.by(rule)
            places = shelf.setdefault(named, defaultdict(list))
            for key in named.keys_of_rule(rule):
                if rule.is_pattern or not places[key]:
                    places[key].append(place)

    def choose(self, message: Incoming) -> tuple[Tier, Rule] | None:
        """The first of the most specific rules that match."""
        for tier, shelf, peer in _lookups(message):
            found = [
                place
                for named, places in self._shelves.get(shelf, {}).items()
                for key in named.keys_of_message(message, peer)
                for place in places.get(key, ())
            ]
            for place in sorted(found) if len(found) > 1 else found:
                if self._rules[place].mismatch(message) is None:
                    return tier, self._rules[place]
        return None


class _Named(NamedTuple):
    """What a rule names beside its channel; in a tier of peers the peer, too."""

    account: bool
    guild: bool
    roles: bool
    team: bool
    ends: tuple[int, int] | None
    """Of a pattern, how many characters it has before its first wildcard and after its last."""

    @classmethod
    def by(cls, rule: Rule) -> _Named:
        binding = rule.binding
        return cls(
            account=not rule.any_account,
            guild=binding.guild is not None,
            roles=bool(rule.roles),
            team=binding.team is not None,
            ends=(len(rule.beginning), len(rule.ending)) if rule.is_pattern else None,
        )

    def keys_of_rule(self, rule: Rule) -> Iterator[Hashable]:
        binding = rule.binding
        peer = rule.peer.id if rule.peer else None
        named = rule.account if self.account else None, binding.guild, binding.team
        for role in rule.roles or (None,):
            yield *named, role, (rule.beginning, rule.ending) if rule.is_pattern else peer

    def keys_of_message(self, message: Incoming, peer: Peer | None) -> Iterator[Hashable]:
        named = (
            message.account if self.account else None,
            message.guild if self.guild else None,
            message.team if self.team else None,
        )
        wanted: Hashable = peer.id if peer else None
        if self.ends is not None:
            assert peer is not None
            first, last = self.ends
            wanted = peer.id[:first], peer.id[-last:] if last else ""
        for role in dict.fromkeys(message.roles) if self.roles else (None,):
            yield *named, role, wanted


def _shelf_of(rule: Rule) -> Hashable:
    return rule.tier, rule.channel, is_room(rule.peer.kind) if rule.peer else None


def _lookups(message: Incoming) -> Iterator[tuple[Tier, Hashable, Peer | None]]:
    """The tiers in which a message may have a match, most specific first, and where its rules are."""
    channel, peer, parent = message.channel, message.peer, message.parent
    yield Tier.PEER, (Tier.PEER, channel, is_room(peer.kind)), peer
    if parent is not None:
        yield Tier.PARENT_PEER, (Tier.PEER, channel, is_room(parent.kind)), parent
    yield Tier.WILDCARD_PEER, (Tier.WILDCARD_PEER, channel, is_room(peer.kind)), peer
    for tier in (Tier.GUILD_ROLES, Tier.GUILD, Tier.TEAM, Tier.ACCOUNT, Tier.CHANNEL):
        yield tier, (tier, channel, None), None
