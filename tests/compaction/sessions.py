"""Sessions to compact."""

from holdfast import Message, NewSession, Role, Store, TextContent, ToolCall
from holdfast.compaction.budget import Budget
from holdfast.compaction.layout import Layout
from holdfast.compaction.tokens import EstimatingCounter
from holdfast.compaction.view import View
from holdfast.model.ids import SessionId

COUNTER = EstimatingCounter()

SMALL = Budget(window=2_000, target=1_000)


def calling(*call_ids: str, **fields: object) -> Message:
    calls = tuple(ToolCall(id=call_id, name="search", arguments={"q": call_id}) for call_id in call_ids)
    return Message.of(Role.AGENT, TextContent(text=""), tool_calls=calls, **fields)


def result(call_id: str, text: str = "found it") -> Message:
    return Message.of(Role.TOOL, TextContent(text=text), tool_call_id=call_id)


def conversation(turns: int) -> list[Message]:
    """A system message, then turns in which a person asks, a tool is called, and the agent answers."""
    said = [Message.system("You are careful.")]
    for turn in range(1, turns + 1):
        said += [
            Message.user(f"What is in src/part_{turn}.py, and does test_{turn} pass?"),
            calling(f"c{turn}"),
            result(f"c{turn}", f"def part_{turn}(): return {turn}\n" * 20),
            Message.agent(f"We decided that part_{turn} returns {turn}, because test_{turn} asks for it."),
        ]
    return said


def placed(messages: list[Message]) -> list[Message]:
    """Messages as if they were stored."""
    fields = ("id", "seq", "rev")
    return [
        type(message)(
            **{name: getattr(message, name) for name in message.__struct_fields__ if name not in fields},
            id=f"01980000-0000-7000-8000-{seq:012x}",  # type: ignore[arg-type]
            seq=seq,
            rev=seq,
        )
        for seq, message in enumerate(messages, 1)
    ]


def view_of(messages: list[Message]) -> View:
    return View(Layout(), placed(messages), COUNTER, last_seq=len(messages))


async def filled(store: Store, messages: list[Message], agent: str = "main") -> SessionId:
    session = await store.create_session(NewSession(agent=agent))
    await store.append_messages(session.id, messages)
    return session.id
