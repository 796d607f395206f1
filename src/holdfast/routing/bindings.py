"""Deciding which agent answers a message, and in which session.

The decision is a function of the bindings and the message alone: no session that exists, and no
order of arrival, changes it. Among the bindings that match, the most specific wins, and among
equally specific ones the first. If none matches and no agent is declared the default, nobody is
guessed: that is an error that says so.

A lookup does not look at all bindings, however alike they are; only patterns that differ in nothing
but their middle are tried one after the other. Why the others were not chosen is worked out only
when somebody asks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from holdfast.errors import HoldfastError, InvalidInput
from holdfast.model.key import SessionKey, name
from holdfast.routing.binding import Binding, Rule, Tier
from holdfast.routing.incoming import Incoming, Normal
from holdfast.routing.index import RuleIndex
from holdfast.routing.policy import RoutingPolicy
from holdfast.routing.scope import DmScope, key_of


class AgentSelectionRequired(HoldfastError):
    """No binding matches, and no agent is the default."""

    code = "agent_selection_required"
    status = 422

    def __init__(self, message: Incoming, bindings: Bindings) -> None:
        self._message = message
        self._bindings = bindings
        super().__init__(
            f"No binding is for {message.peer} on {message.channel} (account {message.account}), and no "
            "default agent is declared: add a binding, or set default_agent in [routing]."
        )

    @property
    def rejected(self) -> list[Rejected]:
        """Every binding, and why it does not match."""
        return list(self._bindings.rejected(self._message))


class Rejected(msgspec.Struct, frozen=True):
    """A binding that was not chosen."""

    binding: Binding
    reason: str
    tier: Tier | None
    """How it matches the message, if it does and only another one came before it."""


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    agent: str
    key: SessionKey
    matched_by: Tier
    binding: Binding | None
    """The one that was chosen; None where the default agent answers."""
    dm_scope: DmScope
    message: Incoming
    """In its normal form."""
    bindings: Bindings
    """Those among which was decided."""

    @property
    def rejected(self) -> list[Rejected]:
        """Every other binding, and why it was not chosen."""
        return list(self.bindings.rejected(self.message, self.binding, self.matched_by))

    @property
    def ambiguous(self) -> list[Rejected]:
        """The bindings that fit just as well, and only come later."""
        return [each for each in self.rejected if each.tier is self.matched_by]


class Bindings:
    def __init__(
        self,
        bindings: Iterable[Binding] = (),
        policy: RoutingPolicy | None = None,
        *,
        agents: Iterable[str] = (),
    ) -> None:
        """The policy's bindings, then these. `agents`, or else the policy's, are all that may be named.

        Without any, everybody may. Of several agents none is the default by itself; a sole one is.
        """
        self.policy = policy or RoutingPolicy()
        self._normal = Normal(self.policy.fold_peers)
        self._agents = {name(agent, "agent") for agent in tuple(agents) or self.policy.agents}
        self._default = self._default_agent()
        self._rules = [Rule(binding, self._normal) for binding in (*self.policy.bindings, *bindings)]
        for rule in self._rules:
            self._require_known(rule.agent, f"The binding {rule.binding}")
        self._index = RuleIndex(self._rules)
        self._scopes = {name(agent, "agent"): scope for agent, scope in self.policy.agent_dm_scope.items()}
        self._identities = dict(self._links())

    def __iter__(self) -> Iterator[Binding]:
        return (rule.binding for rule in self._rules)

    def decide(self, message: Incoming) -> Decision:
        message = self._normal.message(message)
        rule: Rule | None = None
        tier = Tier.DEFAULT
        if chosen := self._index.choose(message):
            tier, rule = chosen
        elif self._default is None:
            raise AgentSelectionRequired(message, self)
        agent = rule.agent if rule else self._default
        assert agent is not None
        scope = (rule and rule.binding.dm_scope) or self._scopes.get(agent, self.policy.dm_scope)
        identity = self._identities.get((message.channel, message.peer.id))
        return Decision(
            agent=agent,
            key=key_of(agent, message, scope, identity),
            matched_by=tier,
            binding=rule.binding if rule else None,
            dm_scope=scope,
            message=message,
            bindings=self,
        )

    def person(self, sender: str) -> str:
        """Who a sender (`irc:ada`) is: the person whom they are linked to, or only themselves."""
        channel, _, peer_id = sender.partition(":")
        return self._identities.get((channel, peer_id), sender)

    def rejected(
        self, message: Incoming, chosen: Binding | None = None, matched_by: Tier = Tier.DEFAULT
    ) -> Iterator[Rejected]:
        """Why each but the chosen one was not chosen for a normal message."""
        passed_chosen = False
        for rule in self._rules:
            if rule.binding is chosen and not passed_chosen:
                passed_chosen = True
                continue
            tier = rule.match(message)
            if tier is None:
                reason = rule.mismatch(message)
                assert reason is not None
            elif tier is matched_by:
                reason = "it is just as specific, and the chosen one stands before it"
            else:
                reason = f"a match by {matched_by.label} comes before one by {tier.label}"
            yield Rejected(rule.binding, reason, tier)

    def _default_agent(self) -> str | None:
        if self.policy.default_agent is not None:
            default = name(self.policy.default_agent, "agent")
            self._require_known(default, "default_agent in [routing]")
            return default
        return next(iter(self._agents)) if len(self._agents) == 1 else None

    def _require_known(self, agent: str, who: str) -> None:
        if self._agents and agent not in self._agents:
            known = ", ".join(sorted(self._agents))
            raise InvalidInput(f"{who} names the agent {agent!r}, which is not known; known are {known}.")

    def _links(self) -> Iterator[tuple[tuple[str, str], str]]:
        seen: dict[tuple[str, str], str] = {}
        for person, peers in self.policy.links.items():
            identity = name(person, "identity")
            for text in peers:
                channel, colon, peer_id = text.partition(":")
                if not colon:
                    raise InvalidInput(f"The identity {person!r} links {text!r}; write CHANNEL:PEER.")
                channel = name(channel, "channel")
                peer = channel, self._normal.peer_id(channel, peer_id)
                if seen.setdefault(peer, identity) != identity:
                    raise InvalidInput(f"{text!r} is linked to both {seen[peer]!r} and {identity!r}.")
                yield peer, identity
