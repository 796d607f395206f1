"""What a runner is given of the past, unless its gateway is told otherwise.

Where the gateway compacts, that is the session's view, which its compactions keep short. Where it
does not, it is the latest messages. Either way what compactions in effect have folded stands
summarised, and every tool call has its results, as models take them.
"""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.compaction.layout import Layout, chain_in_effect, layout_of
from holdfast.compaction.ranges import contains
from holdfast.compaction.view import View
from holdfast.compaction.views import read_view
from holdfast.model.ids import SessionId
from holdfast.model.message import Message
from holdfast.store.options import HistoryOptions
from holdfast.store.store import Store

RECENT = 200
"""How many messages, and as many more as belong to the tool calls among them."""


async def whole_view(store: Store, session_id: SessionId) -> Sequence[Message]:
    """All that the compactions in effect have left, and their summaries."""
    view = await read_view(store, session_id, _Uncounted())
    return _before_a_question(view.messages, view.last_seq)


async def recent(store: Store, session_id: SessionId) -> Sequence[Message]:
    """The latest messages that are not folded, and the summaries of those that are."""
    _, outlines = await store.compaction_outlines(session_id)
    chain = [each.id for each in chain_in_effect(outlines)]
    layout = layout_of(await store.get_compactions(session_id, chain)) if chain else Layout()
    page = await store.get_history(session_id, HistoryOptions(limit=RECENT, keep_pairs=True))
    if not page.messages:
        return []
    last_seq = page[-1].seq
    stored = [message for message in page if not contains(layout.hidden, message.seq)]
    return _before_a_question(View(layout, stored, _Uncounted(), last_seq=last_seq).messages, last_seq)


def _before_a_question(shown: Sequence[Message], last_seq: int) -> Sequence[Message]:
    """What is shown, as somebody asks something next: a call without an answer by then was interrupted."""
    asked = Message.user("", seq=last_seq + 1)
    return View(Layout(), [*shown, asked], _Uncounted(), last_seq=last_seq + 1).messages[:-1]


class _Uncounted:
    """For those who do not ask what messages cost."""

    name = "uncounted"

    def count(self, text: str) -> int:
        return 0
