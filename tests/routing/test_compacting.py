"""A chat that grows long is compacted after its turn, and its next turn sees the view."""

from collections.abc import Sequence

import pytest

from holdfast import Message, Store
from holdfast.compaction.background import BackgroundCompaction
from holdfast.compaction.policy import CompactionPolicy
from holdfast.compaction.tokens import default_counter
from holdfast.compaction.views import read_view
from holdfast.model.ids import SessionId
from holdfast.routing.runner import Exchange
from tests.routing.gateways import events, gateway
from tests.routing.messages import said

POLICY = CompactionPolicy(
    strategy={"name": "sliding_window", "max_messages": 2}, messages=6, share=None, window=8000
)


async def view(store: Store, session_id: SessionId) -> Sequence[Message]:
    return (await read_view(store, session_id, default_counter())).messages


@pytest.mark.req("STO-16", "STO-19")
async def test_a_long_chat_is_compacted_after_its_turn_and_only_then(store: Store) -> None:
    seen: list[int] = []

    async def answer(exchange: Exchange) -> str:
        seen.append(len(exchange.history))
        return "an answer of several words"

    async with BackgroundCompaction(store, lambda _: POLICY) as compaction:

        async def compact(session_id: SessionId) -> None:
            compaction.after_run(session_id)
            await compaction.settled(session_id)

        door = gateway(store, answer, after_turn=compact, history=view)
        for number in range(4):
            await events(door, said("group:g1", f"question {number}"))
    (session,) = await store.list()
    assert (seen[:3], session.message_count) == ([0, 2, 4], 8)
    assert session.compaction_count == 1
    assert seen[3] < 6
