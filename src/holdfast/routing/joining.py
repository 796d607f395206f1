"""Messages that are said into a turn that runs, to be answered when it has ended.

Which of them nobody has answered yet follows from what is stored: they are marked, and have no turn.
The lease counts them, so that whoever has the session's turn next knows that there are some, and how
far back to look for them.
"""

from __future__ import annotations

import msgspec

from holdfast.model.ids import SessionId
from holdfast.model.message import Message, Role
from holdfast.store.options import HistoryOptions
from holdfast.store.store import Store

JOINED = "joined"
"""Marks a message that was said into a running turn."""

PAGE = 1000


def as_joining(message: Message) -> Message:
    return msgspec.structs.replace(message, metadata=message.metadata | {JOINED: True})


async def unanswered(store: Store, session_id: SessionId) -> list[Message]:
    """What was said into turns of the session and has no answer yet, oldest first."""
    left = await store.joined_count(session_id)
    found: list[Message] = []
    before: int | None = None
    while len(found) < left:
        page = await store.get_history(session_id, HistoryOptions(before=before, limit=PAGE))
        found = [message for message in page if _waits(message)] + found
        if page.older is None:
            break
        before = page.older
    return found


def _waits(message: Message) -> bool:
    """Whether it joined and has no turn. Copies have none either; their originals were answered or are."""
    joined = message.role is Role.USER and message.metadata.get(JOINED) is True
    return joined and message.turn_id is None and "copiedFrom" not in message.metadata
