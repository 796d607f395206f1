"""Following a session: what its changes add up to, and how to come back when the connection goes."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import msgspec

from holdfast.client.connection import Refused, Unreachable
from holdfast.server import shapes

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0
"""How long to wait before connecting again: twice as long each time, and not all at once."""


class SessionCopy:
    """A session as its follower knows it."""

    def __init__(self) -> None:
        self.rev = 0
        self.session: shapes.Session | None = None
        self.messages: dict[str, shapes.Message] = {}
        self.turns: dict[str, shapes.Turn] = {}
        self.compactions: dict[str, shapes.Compaction] = {}

    def apply(self, changes: shapes.Changes) -> None:
        """Take in the next item of the feed."""
        self.rev = changes.rev
        self.session = changes.session
        self.messages |= {message.id: message for message in changes.messages}
        self.turns |= {turn.id: turn for turn in changes.turns}
        self.compactions |= {compaction.id: compaction for compaction in changes.compactions}
        for delta in changes.deltas:
            message = self.messages[delta.message_id]
            if delta.rev > message.rev:
                content = message.content | {"text": message.content.get("text", "") + delta.text}
                longer = msgspec.structs.replace(message, content=content, rev=delta.rev)
                self.messages[delta.message_id] = longer


class EverythingCopy:
    """The sessions and question sets that a follower of everything knows."""

    def __init__(self) -> None:
        self.sessions: dict[str, shapes.Session] = {}
        self.questions: dict[str, shapes.QuestionSet] = {}

    def apply(self, changed: shapes.ChangedSessions | shapes.ChangedQuestions) -> None:
        """Take in the next item of the feed."""
        if isinstance(changed, shapes.ChangedQuestions):
            kept = {} if changed.is_all else self.questions
            self.questions = kept | {each.id: each for each in changed.questions}
            for set_id in changed.gone:
                self.questions.pop(set_id, None)
        else:
            self.sessions |= {session.id: session for session in changed.sessions}
            for session_id in changed.deleted:
                self.sessions.pop(session_id, None)


class Pauses:
    """How long to wait between connections that end."""

    def __init__(self, waits: Callable[[], None] = lambda: None) -> None:
        """`waits` is called whenever nobody answered."""
        self._waits = waits
        self._seconds = FIRST_PAUSE
        self._least = 0.0

    @contextmanager
    def coming_back(self) -> Iterator[None]:
        """Go on after what may be different when one comes back, not before the server wants to be asked."""
        try:
            yield
        except Unreachable:
            self._waits()
        except Refused as refusal:
            if not refusal.problem.retriable:
                raise
            self._least = refusal.problem.retry_after or 0.0

    def reset(self) -> None:
        self._seconds = FIRST_PAUSE

    async def next(self) -> None:
        await asyncio.sleep(max(self._least, self._seconds * random.uniform(0.5, 1)))
        self._least = 0.0
        self._seconds = min(LONGEST_PAUSE, self._seconds * 2)
