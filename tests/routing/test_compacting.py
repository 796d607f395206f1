"""A chat that grows long is compacted after its turn, and its next turn sees the view."""

from collections.abc import Sequence

import pytest

from holdfast import Message, Store, ToolCall
from holdfast.compaction.background import BackgroundCompaction
from holdfast.compaction.policy import CompactionPolicy
from holdfast.compaction.tokens import default_counter
from holdfast.compaction.view import INTERRUPTED
from holdfast.compaction.views import read_view
from holdfast.routing.gateway import Gateway
from holdfast.routing.runner import Exchange
from tests.routing.gateways import echo, events, gateway
from tests.routing.messages import said

POLICY = CompactionPolicy(
    strategy={"name": "sliding_window", "max_messages": 2}, messages=6, share=None, window=8000
)
SUMMARIZING = CompactionPolicy(
    strategy={"name": "summarize", "keep_recent_turns": 2}, messages=10, share=None
)


class Listening:
    """Remembers what it was given of the past."""

    def __init__(self) -> None:
        self.histories: list[Sequence[Message]] = []

    async def __call__(self, exchange: Exchange) -> str:
        self.histories.append(exchange.history)
        return f"We decided on {exchange.text} in src/{exchange.text}.py, because it is the best."


async def talk(store: Store, door: Gateway, compaction: BackgroundCompaction, turns: int) -> None:
    """Say something again and again, each time after what the last turn made necessary was done."""
    for number in range(turns):
        await events(door, said("group:g1", f"question-{number} " + "of many words " * 20))
        (session,) = await store.list()
        await compaction.settled(session.id)


def summaries(history: Sequence[Message]) -> int:
    return sum(message.content_type == "compaction" for message in history)


@pytest.mark.req("STO-16", "STO-19")
async def test_a_long_chat_is_compacted_after_its_turn_and_only_then(store: Store) -> None:
    listening = Listening()
    async with BackgroundCompaction(store, lambda _: POLICY) as compaction:
        await talk(store, gateway(store, listening, compaction=compaction), compaction, 4)
    (session,) = await store.list()
    seen = [len(history) for history in listening.histories]
    assert (seen[:3], session.message_count) == ([0, 2, 4], 8)
    assert session.compaction_count == 1
    assert seen[3] < 6


@pytest.mark.req("STO-19")
async def test_a_runner_is_given_the_view_that_compaction_left(store: Store) -> None:
    listening = Listening()
    async with BackgroundCompaction(store, lambda _: SUMMARIZING) as compaction:
        door = gateway(store, listening, compaction=compaction)
        await talk(store, door, compaction, 20)
        (session,) = await store.list()
        view = await read_view(store, session.id, default_counter())
        await events(door, said("group:g1", "and now?"))
    assert session.compaction_count > 1
    assert listening.histories[-1] == view.messages
    assert (len(view.messages) < 12, summaries(view.messages)) == (True, 1)
    assert session.message_count == 40


async def test_a_gateway_that_does_not_compact_follows_compactions_all_the_same(store: Store) -> None:
    listening = Listening()
    async with BackgroundCompaction(store, lambda _: SUMMARIZING) as compaction:
        await talk(store, gateway(store, echo), compaction, 12)
        (session,) = await store.list()
        compacted = await compaction.compact(session.id)
        assert compacted is not None
    view = await read_view(store, session.id, default_counter())
    door = gateway(store, listening)
    await events(door, said("group:g1", "and now?"))
    assert listening.histories[-1] == view.messages
    assert summaries(view.messages) == 1
    await store.undo_compaction(session.id, compacted.id)
    await events(door, said("group:g1", "and now?"))
    assert (len(listening.histories[-1]), summaries(listening.histories[-1])) == (26, 0)


async def test_a_call_that_was_never_answered_has_a_result_in_the_view_as_well(store: Store) -> None:
    listening = Listening()
    async with BackgroundCompaction(store, lambda _: POLICY) as compaction:
        door = gateway(store, listening, compaction=compaction)
        await events(door, said("group:g1", "one"))
        (session,) = await store.list()
        call = Message.agent("", tool_calls=(ToolCall(id="c1", name="look"),))
        await store.append_messages(session.id, [call])
        await events(door, said("group:g1", "two"))
    *_, result = listening.histories[-1]
    assert (result.tool_call_id, result.text) == ("c1", INTERRUPTED)
