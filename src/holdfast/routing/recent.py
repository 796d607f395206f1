"""What a runner is given of the past, unless its gateway is told otherwise: the latest messages."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.compaction.layout import Layout
from holdfast.compaction.view import View
from holdfast.model.ids import SessionId
from holdfast.model.message import Message
from holdfast.store.options import HistoryOptions
from holdfast.store.store import Store

RECENT = 200
"""How many messages, and as many more as belong to the tool calls among them."""


async def recent(store: Store, session_id: SessionId) -> Sequence[Message]:
    """The latest messages as models take them: every tool call with its results, by the rule of views."""
    page = await store.get_history(session_id, HistoryOptions(limit=RECENT, keep_pairs=True))
    if not page.messages:
        return []
    last_seq = page[-1].seq + 1
    # Somebody asks something next, so a call that is not answered by now was interrupted.
    asked = Message.user("", seq=last_seq)
    return View(Layout(), [*page, asked], _Uncounted(), last_seq=last_seq).messages[:-1]


class _Uncounted:
    """For those who do not ask what messages cost."""

    name = "uncounted"

    def count(self, text: str) -> int:
        return 0
