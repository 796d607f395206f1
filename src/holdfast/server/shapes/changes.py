"""What changed in a session."""

from __future__ import annotations

from holdfast.server.shapes.compactions import Compaction
from holdfast.server.shapes.messages import Delta, Message
from holdfast.server.shapes.questions import ChangedQuestions
from holdfast.server.shapes.sessions import ChangedSessions, Session
from holdfast.server.shapes.shape import Shape
from holdfast.server.shapes.turns import Turn
from holdfast.store import options


class Changes(Shape, frozen=True, kw_only=True):
    """What changed in a session after a revision. Rows replace those of the same id, then deltas apply."""

    session: Session
    messages: tuple[Message, ...]
    turns: tuple[Turn, ...]
    compactions: tuple[Compaction, ...]
    deltas: tuple[Delta, ...]
    rev: int
    more: bool

    @classmethod
    def of(cls, changes: options.Changes) -> Changes:
        return cls(
            session=Session.of(changes.session),
            messages=tuple(map(Message.of, changes.messages)),
            turns=tuple(map(Turn.of, changes.turns)),
            compactions=tuple(map(Compaction.of, changes.compactions)),
            deltas=tuple(
                Delta(message_id=each.message_id, rev=each.rev, text=each.text) for each in changes.deltas
            ),
            rev=changes.rev,
            more=changes.more,
        )


class ChangedEverything(ChangedSessions, frozen=True, kw_only=True):
    """Which of the caller's sessions changed after a position, and the question sets if any of them did."""

    questions: ChangedQuestions | None = None
    questions_mark: str
    """What to send next time, so that only other sets are news."""
