"""How chats become sessions, apart from the bindings: `[routing]` in `holdfast.toml`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from holdfast.errors import InvalidInput
from holdfast.model.key import PeerKind, SessionKey, name
from holdfast.routing.binding import Binding
from holdfast.routing.scope import NEVER, DmScope, Reset


class RoutingPolicy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    default_agent: str | None = None
    """Who answers what no binding is for. Without one, such a message is an error."""
    agents: tuple[str, ...] = ()
    """Given, all that may be named. A sole one is the default."""
    dm_scope: DmScope = DmScope.MAIN
    agent_dm_scope: dict[str, DmScope] = {}
    """By agent. What a binding says itself comes first."""
    links: dict[str, tuple[str, ...]] = {}
    """`ada = ["irc:ada", "telegram:123"]`: the peers that are one person."""
    fold_peers: tuple[str, ...] = ()
    """Further channels on which the case of a peer means nothing."""
    reset: Reset = NEVER
    reset_by_kind: dict[str, Reset] = {}
    """`dm`, `group`, `channel` or `thread`."""
    reset_by_channel: dict[str, Reset] = {}
    """Comes before what the kind says."""
    bindings: tuple[Binding, ...] = ()

    def __post_init__(self) -> None:
        if unknown := self.reset_by_kind.keys() - {"thread", *(kind.value for kind in PeerKind)}:
            raise InvalidInput(
                f"A reset cannot be set for {sorted(unknown)[0]!r}; it is for dm, group, channel or thread."
            )
        named = {name(channel, "channel"): reset for channel, reset in self.reset_by_channel.items()}
        msgspec.structs.force_setattr(self, "reset_by_channel", named)

    @classmethod
    def from_settings(cls, configured: Mapping[str, Any]) -> RoutingPolicy:
        try:
            return msgspec.convert(configured, cls)
        except msgspec.ValidationError as error:
            raise InvalidInput(f"[routing] in the settings is wrong: {error}.") from None

    def reset_for(self, key: SessionKey, channel: str) -> Reset:
        """When the session of this key begins afresh, to which somebody writes on a channel."""
        kind = "thread" if key.thread is not None else key.peer_kind.value
        by_kind = self.reset_by_kind.get(kind, self.reset)
        return self.reset_by_channel.get(channel, by_kind)
