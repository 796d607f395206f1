"""Which session of an agent a message belongs to: the key, and when it begins afresh.

Groups and channels have a session each. Direct messages share the agent's `main` session unless
its `dm_scope` says otherwise. `*` in the place of a channel or an account means every one; no real
one can be called that, so keys of different scopes never meet.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from enum import StrEnum

import msgspec

from holdfast.errors import InvalidInput
from holdfast.model.key import EVERY, OWN_CHANNEL, PeerKind, SessionKey
from holdfast.routing.incoming import Incoming

MAIN = "main"
LINK = "="
"""Begins the peer of a linked identity. A real peer that begins so has it doubled."""


class DmScope(StrEnum):
    MAIN = "main"
    PER_PEER = "per-peer"
    PER_CHANNEL_PEER = "per-channel-peer"
    PER_ACCOUNT_CHANNEL_PEER = "per-account-channel-peer"


def main_key(agent: str) -> SessionKey:
    """The session in which an agent's direct messages come together."""
    return SessionKey(agent, OWN_CHANNEL, EVERY, PeerKind.DM, MAIN)


def key_of(agent: str, message: Incoming, scope: DmScope, identity: str | None) -> SessionKey:
    """The key of a normal message; `identity` is the person whom its sender is linked to."""
    if message.peer.kind is not PeerKind.DM:
        return SessionKey(
            agent, message.channel, message.account, message.peer.kind, message.peer.id, message.thread
        )
    if scope is DmScope.MAIN:
        return main_key(agent)
    channel = EVERY if scope is DmScope.PER_PEER else message.channel
    account = message.account if scope is DmScope.PER_ACCOUNT_CHANNEL_PEER else EVERY
    peer = _peer(message.peer.id) if identity is None else LINK + identity
    return SessionKey(agent, channel, account, PeerKind.DM, peer, message.thread)


def _peer(peer_id: str) -> str:
    return LINK + peer_id if peer_id.startswith(LINK) else peer_id


class ResetMode(StrEnum):
    NONE = "none"
    DAILY = "daily"
    IDLE = "idle"


class Reset(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When a chat begins afresh, its former session archived: never, unless somebody asks for it."""

    mode: ResetMode = ResetMode.NONE
    at_hour: int = 4
    idle_minutes: float = 60

    def __post_init__(self) -> None:
        if not 0 <= self.at_hour <= 23:
            raise InvalidInput(f"A reset is at an hour from 0 to 23, not {self.at_hour}.")
        if self.idle_minutes <= 0:
            raise InvalidInput(f"A chat cannot be idle for {self.idle_minutes} minutes; give more than 0.")

    def is_due(self, *, started: datetime, quiet_since: datetime, now: datetime) -> bool:
        """Whether a session of that age has had its time.

        `quiet_since` is when a person last asked or was answered: what programs do keeps no chat alive.
        """
        match self.mode:
            case ResetMode.NONE:
                return False
            case ResetMode.IDLE:
                return now - quiet_since > timedelta(minutes=self.idle_minutes)
            case ResetMode.DAILY:
                return started < _last_at(self.at_hour, now)


NEVER = Reset()


def _last_at(hour: int, now: datetime) -> datetime:
    """When it was last that hour, by the clocks here.

    They may have been changed since, so the moment is found by what they showed and placed in time then:
    by its timestamp, since `astimezone` misplaces an hour that they left out.
    """
    shown = now.astimezone().replace(tzinfo=None)
    moment = shown.replace(hour=hour, minute=0, second=0, microsecond=0, fold=0)
    if moment > shown:
        moment -= timedelta(days=1)
    return datetime.fromtimestamp(moment.timestamp(), UTC)
