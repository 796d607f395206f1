"""How many tokens a session's model counts to one of ours, learned from the usage it reports."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.model.session import Session

WEIGHT = 0.3
"""How much the latest report counts against all before it: one odd report must not decide."""

LOWEST, HIGHEST = 0.5, 4.0
"""Beyond these a report is not about the view that was counted."""

FIELD = "compaction"
"""Where a session's custom metadata holds what compaction knows of it."""


class SessionStanding(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """What compaction knows of a session from before."""

    token_ratio: float = 1.0
    failures: int = 0
    """In a row."""
    stopped: str | None = None
    """Why it is not tried again by itself."""

    @classmethod
    def of(cls, session: Session) -> SessionStanding:
        known = session.custom.get(FIELD)
        try:
            return msgspec.convert(known if isinstance(known, dict) else {}, cls)
        except msgspec.ValidationError:  # somebody else's field of the same name
            return cls()

    def reported(self, counted: int, reported: int) -> SessionStanding:
        """The same after a model reported how many tokens it took in for what we had counted."""
        if counted <= 0 or not LOWEST <= reported / counted <= HIGHEST:
            return self
        ratio = self.token_ratio + WEIGHT * (reported / counted - self.token_ratio)
        return msgspec.structs.replace(self, token_ratio=round(ratio, 4))

    def custom(self) -> dict[str, Any]:
        """As a change of the session's custom metadata."""
        return {FIELD: {"tokenRatio": self.token_ratio, "failures": self.failures, "stopped": self.stopped}}
