"""The key that routes an incoming chat message to its session.

A key's text form percent-encodes the separator and the percent sign in every part, so no two
keys share a text and `SessionKey.parse(str(key)) == key` for every key.

Agents, channels and accounts are names of our own choosing. They have one normal form, whoever makes
the key: trimmed, in lower case, and without any character that is not in a name. Nothing is rewritten
into something else, so `a b` never becomes `a-b`. Peers are named by others and are kept as they are;
so are the agents of sessions on our own channel, which the catalogue names.
"""

from __future__ import annotations

import re
from enum import StrEnum
from functools import lru_cache

import msgspec
from msgspec.structs import force_setattr as _set

from holdfast.errors import InvalidInput
from holdfast.model.text import label

OWN_CHANNEL = "holdfast"
"""The channel of sessions that were opened here, or that no one channel's messages open."""

EVERY = "*"
"""In the place of a channel or an account: every one. No real one can be called that."""

_NORMAL = re.compile(r"[a-z0-9][a-z0-9_.-]*")


class PeerKind(StrEnum):
    DM = "dm"
    GROUP = "group"
    CHANNEL = "channel"


class SessionKey(msgspec.Struct, frozen=True, order=True):
    agent_id: str
    channel: str
    account_id: str
    peer_kind: PeerKind
    peer_id: str
    thread: str | None = None

    def __post_init__(self) -> None:
        _set(self, "peer_kind", _peer_kind(self.peer_kind))
        label(self.peer_id, "peer id")
        if self.thread is not None:
            label(self.thread, "thread")
        _set(self, "channel", _name_or_every(self.channel, "channel"))
        if self.channel == OWN_CHANNEL:
            label(self.agent_id, "agent id")
            label(self.account_id, "account id")
        else:
            _set(self, "agent_id", name(self.agent_id, "agent id"))
            _set(self, "account_id", _name_or_every(self.account_id, "account id"))

    def __str__(self) -> str:
        return _text(self)

    @classmethod
    def parse(cls, text: str) -> SessionKey:
        parts = [_decode(part) for part in text.split(":")]
        if len(parts) not in (5, 6):
            raise InvalidInput(
                f"{text!r} is not a session key: it has {len(parts)} parts instead of "
                "agent:channel:account:kind:peer, with :thread where there is one."
            )
        agent_id, channel, account_id, kind, peer_id, *thread = parts
        return cls(agent_id, channel, account_id, _peer_kind(kind), peer_id, thread[0] if thread else None)


def name(text: str, what: str) -> str:
    """An agent, channel or account in its normal form."""
    trimmed = label(text.strip(), what)
    if not trimmed.isascii() or not _NORMAL.fullmatch(normal := trimmed.lower()):
        raise InvalidInput(
            f"The {what} {text!r} is no name: letters, digits, '_', '-' and '.' are allowed, beginning with "
            "a letter or a digit."
        )
    return normal


def _name_or_every(text: str, what: str) -> str:
    return text if text == EVERY else name(text, what)


@lru_cache(maxsize=1024)  # a chat uses the same key for every message
def _text(key: SessionKey) -> str:
    parts = [key.agent_id, key.channel, key.account_id, key.peer_kind, key.peer_id]
    if key.thread is not None:
        parts.append(key.thread)
    return ":".join(_encode(part) for part in parts)


def _peer_kind(value: str) -> PeerKind:
    try:
        return PeerKind(value)
    except ValueError:
        raise InvalidInput(f"{value!r} is not a kind of peer; it is one of dm, group, channel.") from None


def _encode(part: str) -> str:
    return part.replace("%", "%25").replace(":", "%3A")


def _decode(part: str) -> str:
    return part.replace("%3A", ":").replace("%25", "%")
