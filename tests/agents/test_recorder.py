"""What an agent reports becomes messages of its session, in order and whole."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast import (
    JsonContent,
    Message,
    NewSession,
    NewTurn,
    PlanContent,
    ResourceContent,
    Role,
    Session,
    SessionPatch,
    Store,
    TextContent,
    ThoughtContent,
    ToolContent,
    Turn,
    open_store,
)
from holdfast.agents.protocol import ToolCallFields
from holdfast.agents.recorder import Recorder
from holdfast.errors import StoreClosed, StoreFull
from holdfast.store.ending import until_stored
from holdfast.store.options import HistoryOptions

LATER = {"type": "text", "text": "later"}


@pytest.fixture
def recorder(store: Store, session: Session) -> Recorder:
    return Recorder(store, session.id)


@pytest.fixture
async def turn(store: Store, session: Session, recorder: Recorder) -> Turn:
    turn = await store.add_turn(session.id, NewTurn(instruction_summary="go"))
    await recorder.begin_turn(turn.id, "go")
    return turn


def update(kind: str, /, **fields: Any) -> msgspec.Raw:
    params = {"sessionId": "theirs", "update": {"sessionUpdate": kind, **fields}}
    return msgspec.Raw(msgspec.json.encode(params))


def text(words: str, **fields: Any) -> msgspec.Raw:
    return update("agent_message_chunk", content={"type": "text", "text": words}, **fields)


def thought(words: str) -> msgspec.Raw:
    return update("agent_thought_chunk", content={"type": "text", "text": words})


async def messages(store: Store, session: Session) -> list[Message]:
    return (await store.get_history(session.id, HistoryOptions(limit=1000))).messages


async def contents(store: Store, session: Session) -> list[Any]:
    return [message.content for message in await messages(store, session)]


@pytest.mark.req("ACP-08")
async def test_a_run_of_text_is_one_message_of_the_turn_and_final_at_its_end(
    store: Store, session: Session, recorder: Recorder, turn: Turn
) -> None:
    before = (await store.get_session(session.id)).updated_at
    for word in ("Durable ", "ses", "sions"):
        await recorder.update(text(word))
    (streaming,) = await messages(store, session)
    assert streaming.open
    assert await recorder.end_turn() == "Durable sessions"
    (message,) = await messages(store, session)
    assert (message.role, message.turn_id) == (Role.AGENT, turn.id)
    assert message.content == TextContent(text="Durable sessions", partial=False)
    assert (await store.get_session(session.id)).updated_at >= before


async def test_thoughts_and_texts_are_runs_of_their_own(
    store: Store, session: Session, recorder: Recorder, turn: Turn
) -> None:
    for said in (thought("hm"), thought("m"), text("Yes"), text("."), thought("so")):
        await recorder.update(said)
    await recorder.end_turn()
    assert await contents(store, session) == [
        ThoughtContent(text="hmm", partial=False),
        TextContent(text="Yes.", partial=False),
        ThoughtContent(text="so", partial=False),
    ]


async def test_another_id_of_the_agents_begins_another_message(
    store: Store, session: Session, recorder: Recorder, turn: Turn
) -> None:
    for said in (text("a", messageId="1"), text("b", messageId="1"), text("c", messageId="2")):
        await recorder.update(said)
    assert await recorder.end_turn() == "c"
    assert [content.text for content in await contents(store, session)] == ["ab", "c"]


@pytest.mark.req("ACP-09")
async def test_a_plan_is_a_system_message_and_earlier_plans_stay(
    store: Store, session: Session, recorder: Recorder, turn: Turn
) -> None:
    steps = [{"content": "look", "priority": "high", "status": "pending"}]
    done = [{**steps[0], "status": "completed"}]
    for entries in (steps, steps, done):
        await recorder.update(update("plan", entries=entries))
    first, second = await messages(store, session)
    assert (first.role, first.turn_id) == (Role.SYSTEM, turn.id)
    assert first.content == PlanContent(steps=tuple(steps))
    assert second.content == PlanContent(steps=tuple(done))


@pytest.mark.req("ACP-10")
async def test_a_tool_call_is_one_message_that_changes_until_it_has_ended(
    store: Store, session: Session, recorder: Recorder, turn: Turn
) -> None:
    diff = {"type": "diff", "path": "/r/a", "oldText": None, "newText": "x"}
    await recorder.update(
        update("tool_call", toolCallId="1", title="Write a", kind="edit", rawInput={"path": "a"})
    )
    await recorder.update(update("tool_call_update", toolCallId="1", status="in_progress", content=[diff]))
    await recorder.update(
        update("tool_call_update", toolCallId="1", status="completed", rawOutput={"ok": 1}, _meta={"n": 1})
    )
    (message,) = await messages(store, session)
    assert (message.role, message.turn_id) == (Role.SYSTEM, turn.id)
    assert message.content == ToolContent(
        tool="Write a",
        args={"path": "a"},
        result={"ok": 1},
        status="completed",
        tool_call_id="1",
        title="Write a",
        kind="edit",
        content=(diff,),
        meta={"n": 1},
    )


async def test_a_tool_call_may_be_heard_of_first_by_a_permission_or_an_update(
    store: Store, session: Session, recorder: Recorder, turn: Turn
) -> None:
    await recorder.tool(ToolCallFields(tool_call_id="1", title="Run"))
    await recorder.update(update("tool_call", toolCallId="1", title="Run it", status="in_progress"))
    await recorder.update(update("tool_call_update", toolCallId="2", _meta={"only": True}))
    first, second = await contents(store, session)
    assert (first.title, first.status) == ("Run it", "in_progress")
    assert (second.tool, second.status, second.meta) == ("2", "pending", {"only": True})


async def test_what_a_turn_leaves_open_is_closed_as_unknown(
    store: Store, session: Session, recorder: Recorder, turn: Turn
) -> None:
    await recorder.update(update("tool_call", toolCallId="1", title="Edit"))
    await recorder.end_turn()
    (tool,) = await contents(store, session)
    assert tool.status == "unknown"


async def test_what_is_said_of_an_ended_tool_call_stands_beside_it(
    store: Store, session: Session, recorder: Recorder, turn: Turn
) -> None:
    await recorder.update(update("tool_call", toolCallId="1", title="Run", status="completed"))
    await recorder.update(update("tool_call_update", toolCallId="1", rawOutput="late"))
    tool, late = await contents(store, session)
    assert tool.status == "completed"
    assert late.value == {"sessionUpdate": "tool_call_update", "toolCallId": "1", "rawOutput": "late"}


async def test_modes_commands_options_and_usage_describe_the_session(
    store: Store, session: Session, recorder: Recorder
) -> None:
    for said in (
        update("available_commands_update", availableCommands=[{"name": "init"}]),
        update("current_mode_update", currentModeId="plan"),
        update("config_option_update", configOptions=[{"id": "model"}]),
        update("usage_update", used=10, size=100, cost={"amount": 1, "currency": "EUR"}),
    ):
        await recorder.update(said)
    stored = await store.get_session(session.id)
    assert stored.message_count == 0
    assert stored.agent_state == {
        "commands": [{"name": "init"}],
        "modes": {"currentModeId": "plan"},
        "configOptions": [{"id": "model"}],
        "usage": {"used": 10, "size": 100, "cost": {"amount": 1, "currency": "EUR"}},
    }


async def test_the_agents_title_is_taken_until_a_person_chooses_one(
    store: Store, session: Session, recorder: Recorder
) -> None:
    await recorder.update(update("session_info_update", title="First"))
    await recorder.update(update("session_info_update", title="Second"))
    assert (await store.get_session(session.id)).title == "Second"
    await store.patch(session.id, SessionPatch(title="Mine"))
    await recorder.update(update("session_info_update", title="Third"))
    assert (await store.get_session(session.id)).title == "Mine"


@pytest.mark.parametrize(
    "said",
    [
        update("compaction_update", anything=[1, 2]),
        update("agent_message_chunk", content="not a block"),
        update("agent_message_chunk", content={"type": "text", "text": ""}, _meta={"usage": 1}),
        update("agent_thought_chunk", content={"type": "image", "data": "x"}),
    ],
)
async def test_what_is_not_known_is_stored_as_it_came(
    store: Store, session: Session, recorder: Recorder, turn: Turn, said: msgspec.Raw
) -> None:
    await recorder.update(said)
    (content,) = await contents(store, session)
    assert content == JsonContent(msgspec.json.encode(msgspec.json.decode(said)["update"]))


async def test_a_resource_is_kept_as_one(
    store: Store, session: Session, recorder: Recorder, turn: Turn
) -> None:
    link = {"type": "resource_link", "uri": "file:///a", "name": "a", "mimeType": "text/plain"}
    embedded = {"type": "resource", "resource": {"uri": "file:///b", "text": "b"}}
    image = {"type": "image", "data": "AAAA", "mimeType": "image/png"}
    for block in (link, embedded, image):
        await recorder.update(update("agent_message_chunk", content=block))
    first, second, third = await contents(store, session)
    assert first == ResourceContent(uri="file:///a", name="a", mime_type="text/plain")
    assert second == ResourceContent(uri="file:///b", text="b")
    assert third.value == image


async def test_what_an_agent_replays_is_not_stored_again_but_its_state_is(
    store: Store, session: Session, recorder: Recorder
) -> None:
    recorder.replaying = True
    for said in (text("old"), update("plan", entries=[]), update("tool_call", toolCallId="1", title="t")):
        await recorder.update(said)
    await recorder.update(update("current_mode_update", currentModeId="plan"))
    stored = await store.get_session(session.id)
    assert (stored.message_count, stored.agent_state) == (0, {"modes": {"currentModeId": "plan"}})


async def test_what_is_said_after_the_turn_is_a_whole_message_of_it(
    store: Store, session: Session, recorder: Recorder, turn: Turn
) -> None:
    await recorder.update(text("in time"))
    await recorder.end_turn()
    await recorder.update(update("agent_message_chunk", content=LATER))
    _, late = await messages(store, session)
    assert (late.turn_id, late.content) == (turn.id, TextContent(text="later", partial=False))


async def test_a_prompt_that_the_agent_repeats_is_not_stored_twice(
    store: Store, session: Session, recorder: Recorder, turn: Turn
) -> None:
    await recorder.update(update("user_message_chunk", content={"type": "text", "text": "go"}))
    await recorder.update(update("user_message_chunk", content={"type": "text", "text": "context"}))
    (kept,) = await contents(store, session)
    assert kept.value["content"]["text"] == "context"


async def test_nothing_is_lost_while_the_store_is_full(
    store: Store,
    session: Session,
    recorder: Recorder,
    turn: Turn,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("holdfast.store.ending.RETRY_SECONDS", 0.01)
    tried = asyncio.Event()
    full = True
    append = store.append_messages

    async def append_when_there_is_room(*args: Any, **kwargs: Any) -> Any:
        if full:
            tried.set()
            raise StoreFull("The disk is full.")
        return await append(*args, **kwargs)

    monkeypatch.setattr(store, "append_messages", append_when_there_is_room)
    recording_it = asyncio.create_task(recorder.update(update("plan", entries=[{"content": "kept"}])))
    await tried.wait()
    assert not recording_it.done()
    full = False
    await recording_it
    assert await contents(store, session) == [PlanContent(steps=({"content": "kept"},))]


async def test_a_store_that_is_closed_is_not_waited_for(tmp_path: Path) -> None:
    async with open_store(f"sqlite:///{tmp_path / 'closed.db'}") as store:
        session = await store.create_session(NewSession())
    with pytest.raises(StoreClosed):
        await until_stored(lambda: store.append_messages(session.id, [Message.agent("late")]), session.id)


async def test_an_update_that_is_too_large_is_told_of_and_survived(
    store: Store, session: Session, recorder: Recorder, turn: Turn
) -> None:
    huge = update("plan", entries=[{"content": "x" * (33 * 1024 * 1024)}])
    await recorder.update(huge)
    await recorder.update(text("on"))
    await recorder.end_turn()
    told, on = await messages(store, session)
    assert told.text.startswith("Something the agent said could not be stored: The message has 34,6")
    assert on.text == "on"
