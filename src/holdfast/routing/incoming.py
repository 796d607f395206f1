"""A chat message as it comes in, and the one normal form of what it names.

Agents, channels and accounts have the normal form of keys. Peers are named by others: they are
trimmed, and their case is folded only on channels that say so, because `@Alice` and `@alice` are two
people on Matrix and one on IRC.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from holdfast.errors import InvalidInput
from holdfast.model.ids import MessageId
from holdfast.model.key import OWN_CHANNEL, PeerKind, name
from holdfast.model.text import label, storable

DEFAULT_ACCOUNT = "default"
"""The account of a bot that has only one."""

_RFC1459 = str.maketrans("ABCDEFGHIJKLMNOPQRSTUVWXYZ[]\\~", "abcdefghijklmnopqrstuvwxyz{}|^")
"""On IRC `[]\\~` are the capitals of `{}|^`, and no other letters have case."""

Fold = Callable[[str], str]

FOLDS: dict[str, Fold] = {
    "email": str.casefold,
    "irc": lambda peer: peer.translate(_RFC1459),
    "xmpp": str.casefold,
}
"""The channels on which two spellings of a peer are one peer."""


class Peer(msgspec.Struct, frozen=True):
    kind: PeerKind
    id: str

    @classmethod
    def parse(cls, text: str) -> Peer:
        """`group:#help`, `dm:ada`; the id is everything after the first colon."""
        kind, colon, peer_id = text.partition(":")
        kind = {"direct": "dm"}.get(kind, kind)
        if not colon or not peer_id or kind not in list(PeerKind):
            raise InvalidInput(f"{text!r} is not a peer; write dm:ID, group:ID or channel:ID.")
        return cls(PeerKind(kind), peer_id)

    def __str__(self) -> str:
        return f"{self.kind.value}:{self.id}"


class Incoming(msgspec.Struct, frozen=True, kw_only=True):
    """What a channel tells of a message."""

    channel: str
    peer: Peer
    """Where it was said, and where the answer goes: a person, a group or a channel."""
    text: str = ""
    sender: str | None = None
    """Who said it; in a direct message the peer."""
    account: str = DEFAULT_ACCOUNT
    """Which of the bot's accounts received it."""
    parent: Peer | None = None
    """What a thread or topic hangs under, where that has an id of its own."""
    thread: str | None = None
    guild: str | None = None
    team: str | None = None
    roles: tuple[str, ...] = ()
    """The sender's roles in the guild."""
    id: MessageId | None = None
    """The stored message's id: given, a delivery that is repeated is answered once."""
    metadata: dict[str, Any] = {}

    @property
    def said_by(self) -> str:
        return self.sender or self.peer.id


class Normal:
    """The normal form of what messages, bindings and identity links name."""

    def __init__(self, fold_peers: Iterable[str] = ()) -> None:
        """`fold_peers` are further channels on which the case of a peer means nothing."""
        self._folds = FOLDS | {name(channel, "channel"): str.casefold for channel in fold_peers}

    def peer_id(self, channel: str, peer_id: str) -> str:
        fold = self._folds.get(channel)
        trimmed = peer_id.strip()
        return label(fold(trimmed) if fold else trimmed, "peer id")

    def peer(self, channel: str, peer: Peer) -> Peer:
        return Peer(peer.kind, self.peer_id(channel, peer.id))

    def message(self, message: Incoming) -> Incoming:
        channel = name(message.channel, "channel")
        if channel == OWN_CHANNEL:
            raise InvalidInput(f"The channel {OWN_CHANNEL!r} is Holdfast's own; give yours another name.")
        return msgspec.structs.replace(
            message,
            text=storable(message.text, "message"),
            channel=channel,
            account=name(message.account, "account"),
            peer=self.peer(channel, message.peer),
            sender=None if message.sender is None else self.peer_id(channel, message.sender),
            parent=None if message.parent is None else self.peer(channel, message.parent),
            thread=None if message.thread is None else label(message.thread.strip(), "thread"),
        )
