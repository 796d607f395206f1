"""What a runner is given of the past is what a model takes."""

from typing import Any

from holdfast import Message, Store, ToolCall
from holdfast.compaction.view import INTERRUPTED
from holdfast.routing.recent import RECENT
from holdfast.routing.runner import Exchange
from tests.routing.gateways import events, gateway
from tests.routing.messages import said

Outline = list[tuple[str, tuple[str, ...], str | None]]


def outline(exchange: Exchange) -> Outline:
    return [
        (each.role.value, tuple(call.id for call in each.tool_calls), each.tool_call_id)
        for each in exchange.history
    ]


async def test_a_call_that_was_never_answered_has_a_result_in_every_later_history(store: Store) -> None:
    given: list[Outline] = []
    texts: list[str] = []

    async def breaks_once(exchange: Exchange) -> Any:
        given.append(outline(exchange))
        texts.extend(each.text for each in exchange.history if each.tool_call_id == "c2")
        if len(given) == 1:
            yield Message.agent(
                "", tool_calls=(ToolCall(id="c1", name="look"), ToolCall(id="c2", name="look"))
            )
            yield Message.of("tool", Message.user("a cat").content, tool_call_id="c1")
            raise RuntimeError("out of luck")
        yield "a cat"

    door = gateway(store, breaks_once)
    for text in ("q1", "q2", "q3"):
        await events(door, said("group:g1", text))
    broken: Outline = [
        ("user", (), None),
        ("agent", ("c1", "c2"), None),
        ("tool", (), "c1"),
        ("tool", (), "c2"),
    ]
    assert given == [[], broken, [*broken, ("user", (), None), ("agent", (), None)]]
    assert texts == [INTERRUPTED] * 2


async def test_the_past_is_cut_and_begins_with_no_result_without_its_call(store: Store) -> None:
    given: list[Outline] = []

    async def listens(exchange: Exchange) -> str:
        given.append(outline(exchange))
        return "yes"

    door = gateway(store, listens)
    await events(door, said("group:g1", "q1"))
    (session,) = await store.list()
    call = Message.agent("", tool_calls=(ToolCall(id="c1", name="look"),))
    result = Message.of("tool", Message.user("a cat").content, tool_call_id="c1")
    await store.append_messages(session.id, [call, result, *[Message.agent("more")] * (RECENT - 1)])
    await events(door, said("group:g1", "q2"))
    assert len(given[1]) == RECENT + 1
    assert given[1][:2] == [("agent", ("c1",), None), ("tool", (), "c1")]
