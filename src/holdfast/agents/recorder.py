"""What an agent says becomes its session.

A run of text is one message, streamed while it lasts; so is a run of thought. A tool call is one
message, changed until it has ended, with what the commands wrote whose terminals it shows. A plan
replaces the one before it and is a message of its own, so earlier ones can be read. Modes,
commands, options and the use of the context describe the agent and go to the session itself. What
is not known is stored as it came.

While the store cannot write, nothing more is read from the agent, and nothing is lost.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import msgspec

from holdfast.agents.protocol import (
    AgentChunk,
    Commands,
    ConfigOptions,
    ContextUsage,
    CurrentMode,
    Plan,
    SessionInfo,
    ThoughtChunk,
    ToolCallFields,
    UserChunk,
    decode_update,
    raw_update,
)
from holdfast.errors import (
    InvalidInput,
    MessageFinal,
    MessageTooLarge,
    SessionNotFound,
)
from holdfast.model.content import (
    Content,
    JsonContent,
    PlanContent,
    QuestionContent,
    ResourceContent,
    TextContent,
    ThoughtContent,
    ToolContent,
    decode_content,
)
from holdfast.model.ids import MessageId, SessionId, TurnId
from holdfast.model.message import Message, Role
from holdfast.model.question import QuestionSet
from holdfast.model.session import SessionPatch
from holdfast.model.text import readable
from holdfast.model.times import iso
from holdfast.model.turn import SUMMARY_LENGTH
from holdfast.store.ending import until_stored
from holdfast.store.ids import new_id
from holdfast.store.store import Store
from holdfast.store.streams import MessageStream

T = TypeVar("T")

log = logging.getLogger("holdfast.agents")

UNSAVED_LIMIT = 256 * 1024
"""Characters of a run that may wait for the disk before reading waits for it too."""

"""How often a store that cannot write is tried again."""

NEVER_REPORTED = "unknown"
"""The status of a tool call that the agent left open when its turn ended."""

PRINTED_LENGTH = 64 * 1024
"""Characters of the end of what a command wrote that its tool call keeps."""

PRINTED_KEPT = 16
"""Of so many terminals, the latest, it is known what they wrote when a tool call comes to show them."""


Kind = type[TextContent] | type[ThoughtContent]


class _Run:
    """Text or thought that is being said."""

    def __init__(self, kind: Kind, message_id: str | None, stream: MessageStream) -> None:
        self.kind = kind
        self.message_id = message_id
        """The agent's own id of it, for agents that give one."""
        self.stream = stream
        self.unsaved = 0


class _Tool:
    def __init__(self, message_id: MessageId, content: ToolContent) -> None:
        self.message_id = message_id
        self.content: ToolContent | None = content
        """As stored; None once it is final."""


class Recorder:
    """Stores, in order, what the agent of one session reports."""

    def __init__(self, store: Store, session_id: SessionId) -> None:
        self.replaying = False
        """Whether the agent is telling us again what it said before, which is stored already."""
        self._store = store
        self._session = session_id
        self._turn: TurnId | None = None
        self._in_turn = False
        self._prompt = ""
        self._run: _Run | None = None
        self._tools: dict[str, _Tool] = {}
        self._printed: dict[str, dict[str, Any]] = {}
        self._asked: dict[str, MessageId] = {}
        """The messages of question sets that are open."""
        self._plan: tuple[Any, ...] | None = None
        self._answer: list[str] = []
        self._answer_size = 0
        self._one_at_a_time = asyncio.Lock()

    async def begin_turn(self, turn_id: TurnId, prompt: str) -> None:
        async with self._one_at_a_time:
            self._turn, self._prompt = turn_id, prompt
            self._in_turn, self.replaying = True, False
            self._plan = None
            self._forget_answer()

    async def end_turn(self) -> str:
        """Make everything final that the turn left open; the beginning of its last text."""
        async with self._one_at_a_time:
            await self._end_run()
            for tool in self._tools.values():
                if tool.content is not None:
                    await self._change(tool, msgspec.structs.replace(tool.content, status=NEVER_REPORTED))
            self._tools.clear()
            self._in_turn = False
            return "".join(self._answer)

    async def note(self, text: str, **metadata: Any) -> None:
        """Something the person should know, said by us."""
        async with self._one_at_a_time:
            await self._end_run()
            await self._append(Role.SYSTEM, TextContent(text=text), metadata)

    async def question(self, question_set: QuestionSet) -> None:
        """What the agent asks a person; once more when that has ended, and the session keeps the answer."""
        content = _question(question_set)
        async with self._one_at_a_time:
            asked = self._asked.pop(question_set.id, None)
            if asked is not None:
                await self._revise(asked, content)
                return
            await self._end_run()
            self._asked[question_set.id] = await self._append(Role.SYSTEM, content)

    async def tool(self, call: ToolCallFields) -> None:
        """A tool call that another message of the agent spoke of."""
        async with self._one_at_a_time:
            await self._record_tool(call, None)

    async def printed(self, terminal_id: str, output: dict[str, Any]) -> None:
        """What a command has written, and how it ended if it has, for the tool call that shows it."""
        text = readable(output["output"])
        is_cut = output["truncated"] or len(text) > PRINTED_LENGTH
        async with self._one_at_a_time:
            self._printed.pop(terminal_id, None)
            self._printed[terminal_id] = {**output, "output": text[-PRINTED_LENGTH:], "truncated": is_cut}
            if len(self._printed) > PRINTED_KEPT:
                del self._printed[next(iter(self._printed))]
            for tool in self._tools.values():
                await self._show_printed(tool)

    async def _show_printed(self, tool: _Tool) -> None:
        if tool.content is None or (content := self._with_printed(tool.content)) == tool.content:
            return
        try:
            await self._change(tool, content)
        except InvalidInput as error:  # the rest of the call leaves no room for it
            log.warning("session %s: the output of a command is not shown: %s", self._session, error)

    def _with_printed(self, content: ToolContent) -> ToolContent:
        parts = tuple(
            {**part, **self._printed.get(str(part.get("terminalId")), {})}
            if isinstance(part, dict) and part.get("type") == "terminal"
            else part
            for part in content.content
        )
        return msgspec.structs.replace(content, content=parts)

    def known(self, tool_call_id: str) -> dict[str, Any]:
        """What a running tool call has said of itself, in the protocol's words."""
        tool = self._tools.get(tool_call_id)
        if tool is None or tool.content is None:
            return {}
        content = tool.content
        fields = {
            "title": content.title,
            "kind": content.kind,
            "content": content.content,
            "locations": content.locations,
            "rawInput": content.args,
        }
        return {name: value for name, value in fields.items() if value}

    async def update(self, params: msgspec.Raw) -> None:
        """One `session/update`."""
        update = decode_update(params)
        async with self._one_at_a_time:
            try:
                await self._record(update, params)
            except SessionNotFound:
                log.warning("session %s is gone; what its agent says is lost", self._session)
            except InvalidInput as error:
                await self._refused(error, params)

    async def _record(self, update: Any, params: msgspec.Raw) -> None:
        match update:
            case AgentChunk() if update.content.text and not self.replaying:
                await self._say(TextContent, update)
            case ThoughtChunk() if update.content.text and not self.replaying:
                await self._say(ThoughtContent, update)
            case Commands():
                await self._set({"commands": update.available_commands})
            case CurrentMode():
                await self._set({"modes": {"currentModeId": update.current_mode_id}})
            case ConfigOptions():
                await self._set({"configOptions": update.config_options})
            case ContextUsage():
                await self._set({"usage": {"used": update.used, "size": update.size, "cost": update.cost}})
            case SessionInfo():
                await self._rename(update.title)
            case _ if self.replaying:
                log.debug("session %s: replayed, and already stored", self._session)
            case AgentChunk() | ThoughtChunk() if update.is_empty:
                pass
            case UserChunk() if update.content.text in self._prompt:
                log.debug("session %s: the agent repeats the prompt", self._session)
            case AgentChunk() if update.content.type != "text":
                await self._end_run()
                await self._append(Role.AGENT, _block(params))
            case ToolCallFields():
                await self._record_tool(update, params)
            case Plan():
                await self._record_plan(update)
            case _:
                await self._end_run()
                await self._append(Role.SYSTEM, JsonContent(raw_update(params)))

    # Text and thought

    async def _say(self, kind: Kind, chunk: AgentChunk | ThoughtChunk) -> None:
        text = chunk.content.text
        if not self._in_turn:
            await self._append(Role.AGENT, kind(text=text, partial=False))
            return
        run = await self._running(kind, chunk)
        try:
            run.stream.write(text)
        except MessageTooLarge:
            await self._end_run()
            run = await self._running(kind, chunk)
            run.stream.write(text)
        if kind is TextContent and self._answer_size < SUMMARY_LENGTH:
            self._answer.append(text[: SUMMARY_LENGTH - self._answer_size])
            self._answer_size += len(text)
        run.unsaved += len(text)
        if run.unsaved >= UNSAVED_LIMIT:
            await self._stored(run.stream.drain)
            run.unsaved = 0

    async def _running(self, kind: Kind, chunk: AgentChunk | ThoughtChunk) -> _Run:
        """The run that a chunk belongs to: the one that goes on, or a new one."""
        run = self._run
        if run is not None and run.kind is kind and run.message_id == chunk.message_id:
            return run
        await self._end_run()
        if kind is TextContent:
            self._forget_answer()
        message = Message.of(
            Role.AGENT,
            kind(text="", partial=True),
            id=MessageId(new_id()),
            metadata={"_meta": chunk.meta} if chunk.meta else {},
        )
        stream = await self._stored(
            lambda: self._store.open_stream(self._session, message, turn_id=self._turn)
        )
        self._run = _Run(kind, chunk.message_id, stream)
        return self._run

    async def _end_run(self) -> None:
        run, self._run = self._run, None
        if run is None:
            return
        try:
            await self._stored(run.stream.end)
        except MessageFinal:
            log.warning("session %s: somebody else ended a message that was being said", self._session)

    def _forget_answer(self) -> None:
        self._answer.clear()
        self._answer_size = 0

    # Tools and plans

    async def _record_tool(self, call: ToolCallFields, params: msgspec.Raw | None) -> None:
        await self._end_run()
        tool = self._tools.get(call.tool_call_id)
        if tool is None:
            new = ToolContent(tool="", args=None, tool_call_id=call.tool_call_id)
            content = self._with_printed(_merged(new, call))
            message_id = await self._append(Role.SYSTEM, content)
            self._tools[call.tool_call_id] = _Tool(message_id, content)
            if not content.open:
                self._tools[call.tool_call_id].content = None
        elif tool.content is not None:
            await self._change(tool, self._with_printed(_merged(tool.content, call)))
        elif params is not None:  # the call has ended and is final; what is said of it later stands beside it
            await self._append(Role.SYSTEM, JsonContent(raw_update(params)))

    async def _change(self, tool: _Tool, content: ToolContent) -> None:
        await self._revise(tool.message_id, content)
        tool.content = content if content.open else None

    async def _record_plan(self, plan: Plan) -> None:
        if plan.entries == self._plan:
            return
        await self._end_run()
        await self._append(Role.SYSTEM, PlanContent(steps=plan.entries))
        self._plan = plan.entries

    # The session itself

    async def _set(self, state: dict[str, Any]) -> None:
        patch = SessionPatch(agent_state=state)
        await self._stored(lambda: self._store.patch(self._session, patch))

    async def _rename(self, title: str | None) -> None:
        """Take the agent's title, unless a person has chosen one."""
        session = await self._stored(lambda: self._store.get_session(self._session))
        if title and session.title in (None, session.agent_state.get("title")):
            patch = SessionPatch(title=title[:SUMMARY_LENGTH], agent_state={"title": title[:SUMMARY_LENGTH]})
            await self._stored(lambda: self._store.patch(self._session, patch))

    # Writing

    async def _append(
        self, role: Role, content: Content, metadata: dict[str, Any] | None = None
    ) -> MessageId:
        message_id = MessageId(new_id())
        message = Message.of(role, content, id=message_id, metadata=metadata or {})
        await self._stored(lambda: self._store.append_messages(self._session, [message], turn_id=self._turn))
        return message_id

    async def _revise(self, message_id: MessageId, content: Content) -> None:
        try:
            await self._stored(lambda: self._store.revise_message(self._session, message_id, content))
        except MessageFinal:
            log.warning("session %s: somebody else closed a message that was open", self._session)

    async def _refused(self, error: InvalidInput, params: msgspec.Raw) -> None:
        """The store will never take this update; the person is told, and the log has its beginning."""
        log.warning("session %s: an update was not stored: %s: %.500s", self._session, error, bytes(params))
        await self._append(
            Role.SYSTEM, TextContent(text=f"Something the agent said could not be stored: {error}")
        )

    async def _stored(self, write: Callable[[], Awaitable[T]]) -> T:
        return await until_stored(write, f"session {self._session}")


def _merged(content: ToolContent, call: ToolCallFields) -> ToolContent:
    """A tool call with what an update says of it. The protocol's first status is `pending`."""
    title = call.title or content.title
    return ToolContent(
        tool=title or call.kind or call.tool_call_id,
        args=content.args if call.raw_input is None else call.raw_input,
        result=content.result if call.raw_output is None else call.raw_output,
        status=call.status or content.status or "pending",
        tool_call_id=call.tool_call_id,
        title=title,
        kind=call.kind or content.kind,
        content=content.content if call.content is None else call.content,
        locations=content.locations if call.locations is None else call.locations,
        meta={**(content.meta or {}), **(call.meta or {})} or None,
    )


def _question(question_set: QuestionSet) -> QuestionContent:
    answered_at = question_set.answered_at
    return QuestionContent(
        question_set_id=question_set.id,
        kind=question_set.kind.value,
        questions=tuple(msgspec.to_builtins(question_set.questions)),
        status=question_set.status.value,
        answers=tuple(msgspec.to_builtins(question_set.answers or ())),
        answered_by=question_set.answered_by,
        answered_from=question_set.answered_from,
        answered_at=None if answered_at is None else iso(answered_at),
        rejection_reason=question_set.rejection_reason,
    )


class _BlockOnly(msgspec.Struct):
    content: msgspec.Raw


_decode_block = msgspec.json.Decoder(_BlockOnly).decode


def _block(params: msgspec.Raw) -> Content:
    """The content of a chunk that is not text: a resource, or a block that is kept as it came."""
    raw = bytes(_decode_block(raw_update(params)).content)
    block = msgspec.json.decode(raw)
    match block:
        case {"type": "resource_link", "uri": str(uri)}:
            return ResourceContent(uri=uri, name=block.get("name"), mime_type=block.get("mimeType"))
        case {"type": "resource", "resource": {"uri": str(uri)} as inner}:
            return ResourceContent(
                uri=uri, mime_type=inner.get("mimeType"), text=inner.get("text"), blob=inner.get("blob")
            )
    return decode_content(raw)
