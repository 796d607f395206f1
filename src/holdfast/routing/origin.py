"""Where a chat's session comes from: what decided about its message and is not in its key.

The gateway keeps it with every session that it makes, so that the chat can be routed again later. A
session without it was made by a program under a key of its own, or by a gateway of before.
"""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.model.session import Session
from holdfast.routing.incoming import Incoming

KEPT_AS = "origin"


class Origin(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    guild: str | None = None
    team: str | None = None
    parent: str | None = None
    roles: tuple[str, ...] | None = None
    """Of who began the session; None where nobody noted them."""

    @classmethod
    def of(cls, message: Incoming) -> Origin:
        parent = None if message.parent is None else str(message.parent)
        return cls(guild=message.guild, team=message.team, parent=parent, roles=message.roles)

    def kept(self) -> dict[str, Any]:
        """What is to be written beside a session."""
        return {KEPT_AS: msgspec.to_builtins(self)}


def origin_of(session: Session) -> Origin | None:
    """What was kept, where it was and makes sense: people write to `custom`, too."""
    try:
        return msgspec.convert(session.custom.get(KEPT_AS), Origin)
    except msgspec.ValidationError:
        return None
