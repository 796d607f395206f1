"""Session statuses and the one table that says how they may change.

Every writer asks `require_transition`; no other code compares statuses to decide whether a
change is allowed. An archived session keeps the rights of the status it was archived from, so
archiving cannot revive a session that ended in an error.
"""

from __future__ import annotations

from enum import StrEnum

from holdfast.errors import InvalidTransition, SessionEnded
from holdfast.model.text import one_of


class SessionStatus(StrEnum):
    ACTIVE = "active"
    IDLE = "idle"
    COMPACTED = "compacted"
    COMPLETED = "completed"
    CANCELLED = "cancelled"
    ERROR = "error"
    ARCHIVED = "archived"


_S = SessionStatus

LIVE = frozenset({_S.ACTIVE, _S.IDLE, _S.COMPACTED})
"""Statuses in which the next prompt or append makes the session active."""

ENDED = frozenset({_S.COMPLETED, _S.CANCELLED, _S.ERROR})

TRANSITIONS: dict[SessionStatus, frozenset[SessionStatus]] = {
    _S.ACTIVE: frozenset({_S.IDLE, _S.COMPACTED, *ENDED, _S.ARCHIVED}),
    _S.IDLE: frozenset({_S.ACTIVE, _S.COMPACTED, *ENDED, _S.ARCHIVED}),
    _S.COMPACTED: frozenset({_S.ACTIVE, _S.IDLE, *ENDED, _S.ARCHIVED}),
    # Resuming starts the agent again in the same session.
    _S.COMPLETED: frozenset({_S.ACTIVE, _S.ARCHIVED}),
    _S.CANCELLED: frozenset({_S.ACTIVE, _S.ARCHIVED}),
    # Not recoverable: it can be read, forked and archived.
    _S.ERROR: frozenset({_S.ARCHIVED}),
    _S.ARCHIVED: frozenset(),
}


def as_status(value: SessionStatus | str) -> SessionStatus:
    """A status that may be given by its name."""
    return one_of(SessionStatus, value, "session status")


def allowed(
    current: SessionStatus, target: SessionStatus, *, archived_from: SessionStatus | None = None
) -> bool:
    """Whether a session may go from `current` to `target`. Staying is always allowed."""
    if current is target:
        return True
    if current is _S.ARCHIVED:
        return archived_from is not None and allowed(archived_from, target)
    return target in TRANSITIONS[current]


def require_transition(
    current: SessionStatus, target: SessionStatus, *, archived_from: SessionStatus | None = None
) -> None:
    if not allowed(current, target, archived_from=archived_from):
        raise InvalidTransition(current, target)


def after_append(current: SessionStatus) -> SessionStatus:
    """The status once something was said: a live session is active, an ended one stays ended.

    Appending to an ended session is allowed because late words of an agent must be kept.
    """
    return _S.ACTIVE if current in LIVE else current


def after_compaction(current: SessionStatus) -> SessionStatus:
    """The status once older messages were folded: an ended session can be compacted, and stays ended."""
    return _S.COMPACTED if current in LIVE else current


def require_live(current: SessionStatus) -> None:
    """A new instruction is taken only by a session that is live."""
    if current not in LIVE:
        raise SessionEnded(current)
