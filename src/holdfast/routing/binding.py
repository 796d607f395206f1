"""A binding: messages of this kind go to that agent. Everything it names must hold."""

from __future__ import annotations

import re
from enum import IntEnum
from fnmatch import translate
from functools import cached_property
from typing import Any

import msgspec

from holdfast.errors import InvalidInput
from holdfast.model.key import EVERY, PeerKind, name
from holdfast.routing.incoming import DEFAULT_ACCOUNT, Incoming, Normal, Peer
from holdfast.routing.scope import DmScope

WILD = re.compile(r"[*?\[]")
WILD_END = re.compile(r"[*?\]]")


class Tier(IntEnum):
    """How specific a match is; the lowest number wins."""

    PEER = 1
    PARENT_PEER = 2
    WILDCARD_PEER = 3
    GUILD_ROLES = 4
    GUILD = 5
    TEAM = 6
    ACCOUNT = 7
    CHANNEL = 8
    DEFAULT = 9

    @property
    def label(self) -> str:
        return self.name.lower().replace("_", " ")


class Binding(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """As it is written in `[[routing.bindings]]` and kept in the store."""

    agent: str
    channel: str
    account: str | None = None
    """None: only the default account. `*`: every account."""
    peer: str | None = None
    """`group:#help`; `*`, `?` and `[…]` in the id make it a pattern."""
    guild: str | None = None
    team: str | None = None
    roles: tuple[str, ...] = ()
    """Any of them, in the guild."""
    dm_scope: DmScope | None = None

    def __post_init__(self) -> None:
        name(self.agent, "agent")
        name(self.channel, "channel")
        if self.account not in (None, EVERY):
            name(self.account, "account")
        if self.peer is not None:
            Peer.parse(self.peer)
        if self.roles and self.guild is None:
            raise InvalidInput(f"The binding {self} names roles; they need the guild that gives them.")

    def __str__(self) -> str:
        given = {
            field: value
            for field, value in self.rule().items()
            if field not in ("agent", "channel") and value
        }
        said = [f"{field}={','.join(v) if isinstance(v, list) else v}" for field, v in given.items()]
        return " ".join([self.channel, *said, "→", self.agent])

    def rule(self) -> dict[str, Any]:
        """What it says, without what it leaves out."""
        plain: dict[str, Any] = msgspec.to_builtins(self)
        return {field: value for field, value in plain.items() if value not in (None, [], ())}


class Rule:
    """A binding in normal form, ready to be held against normal messages."""

    def __init__(self, binding: Binding, normal: Normal) -> None:
        self.binding = binding
        self.agent = name(binding.agent, "agent")
        self.channel = name(binding.channel, "channel")
        self.any_account = binding.account == EVERY
        self.account = "" if self.any_account else name(binding.account or DEFAULT_ACCOUNT, "account")
        self.peer = normal.peer(self.channel, Peer.parse(binding.peer)) if binding.peer else None
        self.is_pattern = self.peer is not None and WILD.search(self.peer.id) is not None
        self.roles = frozenset(binding.roles)

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """Globs are translated to atomic groups, which never go back: no text makes one slow."""
        assert self.peer is not None
        return re.compile(translate(self.peer.id))

    @cached_property
    def beginning(self) -> str:
        """What every peer that the pattern matches begins with."""
        assert self.peer is not None
        return WILD.split(self.peer.id, maxsplit=1)[0]

    @cached_property
    def ending(self) -> str:
        """What every peer that the pattern matches ends with: behind its last wildcard nothing is one."""
        assert self.peer is not None
        return WILD_END.split(self.peer.id)[-1]

    @cached_property
    def tier(self) -> Tier:
        """How specific it is, where it matches the message's own peer."""
        if self.peer is not None:
            return Tier.WILDCARD_PEER if self.is_pattern else Tier.PEER
        if self.binding.guild is not None:
            return Tier.GUILD_ROLES if self.roles else Tier.GUILD
        if self.binding.team is not None:
            return Tier.TEAM
        return Tier.CHANNEL if self.any_account else Tier.ACCOUNT

    def match(self, message: Incoming) -> Tier | None:
        """How it matches the message, if it does."""
        if self.mismatch(message) is not None:
            return None
        if self.tier is Tier.PEER and not _same(self.peer, message.peer):
            return Tier.PARENT_PEER
        return self.tier

    def mismatch(self, message: Incoming) -> str | None:
        """Why it does not match the message; None when it does."""
        binding = self.binding
        if self.channel != message.channel:
            return f"it is for channel {self.channel}, and this is {message.channel}"
        if not self.any_account and self.account != message.account:
            return f"it is for account {self.account}, and this is {message.account}"
        if self.peer is not None and not self._is_for(message):
            return f"it is for {self.peer}, and this is {message.peer}"
        if binding.guild is not None and binding.guild != message.guild:
            return f"it is for guild {binding.guild}, and this is {message.guild or 'in none'}"
        if self.roles and self.roles.isdisjoint(message.roles):
            return f"it is for roles {', '.join(sorted(self.roles))}, and the sender has none of them"
        if binding.team is not None and binding.team != message.team:
            return f"it is for team {binding.team}, and this is {message.team or 'in none'}"
        return None

    def _is_for(self, message: Incoming) -> bool:
        if not self.is_pattern:
            return _same(self.peer, message.peer) or _same(self.peer, message.parent)
        assert self.peer is not None
        same_kind = is_room(self.peer.kind) == is_room(message.peer.kind)
        return same_kind and self.pattern.match(message.peer.id) is not None


def is_room(kind: PeerKind) -> bool:
    """Groups and channels match each other in bindings, although their sessions are never the same."""
    return kind is not PeerKind.DM


def _same(wanted: Peer | None, peer: Peer | None) -> bool:
    return (
        wanted is not None
        and peer is not None
        and wanted.id == peer.id
        and is_room(wanted.kind) == is_room(peer.kind)
    )
