"""The demo agent: an ACP agent that needs no account and does as it is told.

Each line of a prompt is an instruction (`INSTRUCTIONS`); a prompt without any is answered with a
tour of what an agent can do: a thought, a plan, a look at the files, and a text. It shows a
newcomer everything, and the tests run it as the real child process it is.
"""

from __future__ import annotations

import asyncio
import os
import stat
import sys
import uuid
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
from platformdirs import user_data_path

from holdfast.agents.wire import INVALID_PARAMS, NOT_FOUND, UNKNOWN_METHOD, AgentError, Refusal, Wire

INSTRUCTIONS = {
    "say": "say TEXT            stream the text, word by word",
    "think": "think TEXT          send it as a thought",
    "plan": "plan A; B; C        send a plan, and tick a step off with each instruction after it",
    "read": "read PATH           read a file through the client",
    "write": "write PATH: TEXT    ask permission, then write a file through the client",
    "run": "run COMMAND         run a command in a terminal of the client",
    "ask": "ask TEXT? A | B     ask the person, through the client",
    "consult": "consult TEXT? A | B ask the person, through the MCP server that the client named",
    "slow": "slow N              say N words, a tenth of a second apart",
    "flood": "flood N             say N words as fast as possible",
    "wait": "wait                do nothing until the turn is cancelled",
    "stderr": "stderr N            write N bytes to standard error",
    "fail": "fail TEXT           answer the prompt with an error",
    "crash": "crash [CODE]        end at once, in the middle of a word",
}

MODES = {"default": "Ask before writing", "plan": "Only plan"}

MODELS = {"obedient": "Obedient", "obedient-mini": "Obedient mini"}
"""To be chosen from, as those of Gemini and Qwen. The demo agent does as it is told with either."""

WORD_SECONDS = 0.1

RESUMES = os.environ.get("HOLDFAST_DEMO_RESUME") != "no"
"""Whether it can `session/resume`; with `no` it can only `session/load`, as many agents."""


class _Prompt(msgspec.Struct, rename="camel"):
    session_id: str
    prompt: list[dict[str, Any]]


class _Variable(msgspec.Struct):
    name: str
    value: str


class _McpServer(msgspec.Struct):
    name: str = ""
    command: str = ""
    args: list[str] = []
    env: list[_Variable] = []


class _Opening(msgspec.Struct, rename="camel"):
    cwd: str
    session_id: str = ""
    mcp_servers: list[_McpServer] = []


class _Mode(msgspec.Struct, rename="camel"):
    mode_id: str


class _Model(msgspec.Struct, rename="camel"):
    model_id: str


class _Initialize(msgspec.Struct, rename="camel"):
    protocol_version: int = 1
    client_capabilities: dict[str, Any] = {}


class DemoAgent:
    """The agent's side of the wire. With `memory`, sessions can be loaded and resumed."""

    def __init__(
        self,
        read: Callable[[int], Awaitable[bytes]],
        write: Callable[[bytes], Awaitable[None]],
        memory: Path | None,
    ) -> None:
        self.wire = Wire(read, write, self)
        self._memory = memory
        self._capabilities: dict[str, Any] = {}
        self.mcp_servers: dict[str, list[_McpServer]] = {}
        """What the client named for each session."""
        self._workspaces: dict[str, Path] = {}
        self._cancelled: dict[str, asyncio.Event] = {}
        self._calls = 0
        self._used: dict[str, tuple[int, int]] = {}
        """Words said to it and by it, which it counts as tokens."""

    async def notified(self, method: str, params: msgspec.Raw) -> None:
        if method == "session/cancel":
            session = msgspec.json.decode(params)["sessionId"]
            self._cancelled.setdefault(session, asyncio.Event()).set()

    async def requested(self, method: str, params: msgspec.Raw) -> Any:
        match method:
            case "initialize":
                return self._initialize(msgspec.json.decode(params, type=_Initialize))
            case "session/new":
                return self._open(msgspec.json.decode(params, type=_Opening), str(uuid.uuid4()))
            case "session/load" | "session/resume" if self._memory:
                return await self._reopen(
                    msgspec.json.decode(params, type=_Opening), replay=method == "session/load"
                )
            case "session/set_mode":
                return self._set_mode(msgspec.json.decode(params, type=_Mode).mode_id)
            case "session/set_model":
                return self._set_model(msgspec.json.decode(params, type=_Model).model_id)
            case "session/prompt":
                return await self._prompt(msgspec.json.decode(params, type=_Prompt))
        raise Refusal(UNKNOWN_METHOD, f"The demo agent does not know {method}.")

    def _initialize(self, request: _Initialize) -> dict[str, Any]:
        self._capabilities = request.client_capabilities
        return {
            "protocolVersion": 1,
            "agentInfo": {"name": "holdfast-demo", "title": "Holdfast demo agent", "version": "1"},
            "authMethods": [],
            "agentCapabilities": {
                "loadSession": self._memory is not None,
                "promptCapabilities": {"embeddedContext": True},
                "sessionCapabilities": {"resume": {}} if self._memory and RESUMES else {},
            },
        }

    def _open(self, request: _Opening, session: str) -> dict[str, Any]:
        self._workspaces[session] = Path(request.cwd)
        self.mcp_servers[session] = request.mcp_servers
        modes = [{"id": mode, "name": name} for mode, name in MODES.items()]
        models = [{"modelId": model, "name": name} for model, name in MODELS.items()]
        return {
            "sessionId": session,
            "modes": {"availableModes": modes, "currentModeId": "default"},
            "models": {"availableModels": models, "currentModelId": "obedient"},
        }

    def _set_mode(self, mode: str) -> dict[str, Any]:
        if mode not in MODES:
            raise Refusal(INVALID_PARAMS, f"The demo agent has no mode {mode!r}.")
        return {}

    def _set_model(self, model: str) -> dict[str, Any]:
        if model not in MODELS:
            raise Refusal(INVALID_PARAMS, f"The demo agent has no model {model!r}.")
        return {}

    async def _reopen(self, request: _Opening, *, replay: bool) -> dict[str, Any]:
        kept = self._kept(request.session_id)
        if not kept.exists():
            raise Refusal(NOT_FOUND, f"Session not found: {request.session_id}")
        if replay:
            for line in kept.read_text().splitlines():
                await self._send(request.session_id, msgspec.json.decode(line))
        opened = self._open(request, request.session_id)
        del opened["sessionId"]
        return opened

    async def _prompt(self, request: _Prompt) -> dict[str, Any]:
        session = request.session_id
        if session not in self._workspaces:
            raise Refusal(NOT_FOUND, f"Session not found: {session}")
        # The last block is what the person said; a transcript before it may hold old instructions.
        text = [block["text"] for block in request.prompt if block.get("type") == "text"][-1]
        cancelled = self._cancelled[session] = asyncio.Event()
        turn = _Turn(self, session, self._workspaces[session], cancelled)
        self.remember(
            session, {"sessionUpdate": "user_message_chunk", "content": {"type": "text", "text": text}}
        )
        instructions = [line.strip() for line in text.splitlines() if line.split(" ")[0] in INSTRUCTIONS]
        if not instructions:
            await turn.tour(text)
        for number, line in enumerate(instructions, 1):
            if not cancelled.is_set():
                await turn.follow(line, is_last=number == len(instructions))
        earlier = self._used.get(session, (0, 0))
        said, answered = self._used[session] = earlier[0] + len(text.split()), earlier[1] + turn.words
        used = {"inputTokens": said, "outputTokens": answered}
        return {
            "stopReason": "cancelled" if cancelled.is_set() else "end_turn",
            "usage": used | {"totalTokens": sum(used.values())},
        }

    async def send(self, session: str, update: dict[str, Any]) -> None:
        self.remember(session, update)
        await self._send(session, update)

    def remember(self, session: str, update: dict[str, Any]) -> None:
        if self._memory:
            with self._kept(session).open("ab") as file:
                file.write(msgspec.json.encode(update) + b"\n")

    def offered(self, *path: str) -> bool:
        """Whether the client said that it can do something."""
        value: Any = self._capabilities
        for name in path:
            value = value.get(name) if isinstance(value, dict) else None
        return value is not None and value is not False

    def next_call(self) -> str:
        self._calls += 1
        return f"call-{self._calls}"

    async def _send(self, session: str, update: dict[str, Any]) -> None:
        await self.wire.notify("session/update", {"sessionId": session, "update": update})

    def _kept(self, session: str) -> Path:
        assert self._memory is not None
        return self._memory / f"{uuid.UUID(session)}.jsonl"


class _Turn:
    """One prompt being answered."""

    def __init__(self, agent: DemoAgent, session: str, workspace: Path, cancelled: asyncio.Event) -> None:
        self.words = 0
        self._agent = agent
        self._session = session
        self._workspace = workspace
        self._cancelled = cancelled
        self._steps: list[str] = []
        self._done = 0

    async def follow(self, line: str, *, is_last: bool) -> None:
        name, _, rest = line.partition(" ")
        if is_last and name == "say":  # an answer comes last
            await self._tick(len(self._steps))
        await getattr(self, f"_{name}")(rest.strip())
        if not self._cancelled.is_set():
            await self._tick(len(self._steps) if is_last else int(name != "plan"))

    async def tour(self, text: str) -> None:
        await self._think("The person wants to see what an agent can do.")
        await self._plan("Look at the files; Answer")
        call = self._agent.next_call()
        where = {"path": str(self._workspace)}
        await self._tool(call, title="List files", kind="search", status="in_progress", locations=[where])
        names = sorted(path.name for path in self._workspace.iterdir() if not path.name.startswith("."))
        await self._tool_update(call, status="completed", rawOutput={"files": names[:20]})
        await self._tick(len(self._steps))
        instruction = text.strip() or "nothing"
        await self._say(
            f"You said: {instruction} — I see {len(names)} files here. Try: {'; '.join(INSTRUCTIONS)}."
        )

    async def _say(self, text: str) -> None:
        for word in text.split(" "):
            await self._word(f"{word} ")

    async def _think(self, text: str) -> None:
        await self._update("agent_thought_chunk", content={"type": "text", "text": text})

    async def _plan(self, text: str) -> None:
        self._steps, self._done = [step.strip() for step in text.split(";") if step.strip()], 0
        await self._show_plan()

    async def _tick(self, steps: int) -> None:
        """So many more steps of the plan are done, if there are some left."""
        if steps and self._done < len(self._steps):
            self._done = min(len(self._steps), self._done + steps)
            await self._show_plan()

    async def _show_plan(self) -> None:
        status = ["completed"] * self._done + ["in_progress"] + ["pending"] * len(self._steps)
        entries = [
            {"content": step, "priority": "medium", "status": each}
            for step, each in zip(self._steps, status, strict=False)
        ]
        await self._update("plan", entries=entries)

    async def _read(self, path: str) -> None:
        call = self._agent.next_call()
        await self._tool(
            call, title=f"Read {path}", kind="read", status="in_progress", rawInput={"path": path}
        )
        try:
            answer = await self._request("fs/read_text_file", path=str(self._workspace / path))
        except AgentError as error:
            await self._tool_update(call, status="failed", rawOutput={"error": str(error)})
            await self._say(f"I could not read {path}.")
            return
        await self._tool_update(call, status="completed", rawOutput=answer)
        await self._say(f"{path} has {len(answer['content'])} characters.")

    async def _write(self, rest: str) -> None:
        name, _, content = rest.partition(":")
        path, content = self._workspace / name.strip(), content.strip() + "\n"
        old = path.read_text() if path.is_file() else None
        call = self._agent.next_call()
        diff = {"type": "diff", "path": str(path), "oldText": old, "newText": content}
        tool = {
            "title": f"Write {name.strip()}",
            "kind": "edit",
            "content": [diff],
            "locations": [{"path": str(path)}],
            "rawInput": {"path": str(path)},
        }
        await self._tool(call, status="pending", **tool)
        options = [
            {"optionId": "once", "name": "Allow", "kind": "allow_once"},
            {"optionId": "always", "name": "Always allow", "kind": "allow_always"},
            {"optionId": "no", "name": "Reject", "kind": "reject_once"},
        ]
        asked = {"toolCallId": call, "status": "pending", **tool}
        answer = await self._request("session/request_permission", toolCall=asked, options=options)
        if answer["outcome"].get("optionId") not in ("once", "always"):
            await self._tool_update(call, status="failed", rawOutput={"outcome": answer["outcome"]})
            await self._say("Then I leave it.")
            return
        try:
            await self._request("fs/write_text_file", path=str(path), content=content)
        except AgentError as error:
            await self._tool_update(call, status="failed", rawOutput={"error": str(error)})
            await self._say(f"I could not write {name.strip()}.")
            return
        await self._tool_update(call, status="completed", rawOutput={"bytes": len(content)})
        await self._say(f"I wrote {name.strip()}.")

    async def _run(self, command: str) -> None:
        call = self._agent.next_call()
        line = {"command": "sh", "args": ["-c", command], "cwd": str(self._workspace)}
        try:
            terminal = (await self._request("terminal/create", **line))["terminalId"]
        except AgentError as error:
            await self._tool(
                call, title=command, kind="execute", status="failed", rawOutput={"error": str(error)}
            )
            await self._say("Then I leave it.")
            return
        shown = [{"type": "terminal", "terminalId": terminal}]
        await self._tool(call, title=command, kind="execute", status="in_progress", content=shown)
        ended = await self._request("terminal/wait_for_exit", terminalId=terminal)
        output = await self._request("terminal/output", terminalId=terminal)
        await self._request("terminal/release", terminalId=terminal)
        status = "completed" if ended.get("exitCode") == 0 else "failed"
        await self._tool_update(call, status=status, rawOutput={**ended, "output": output["output"]})
        await self._say(f"It said: {output['output'].strip()}")

    async def _ask(self, text: str) -> None:
        if not self._agent.offered("elicitation", "form"):
            await self._say("I would ask, but nobody can answer here.")
            return
        question, _, choices = text.partition("?")
        options = [choice.strip() for choice in choices.split("|") if choice.strip()]
        field = {"type": "string", "title": question + "?", **({"enum": options} if options else {})}
        schema = {"type": "object", "properties": {"answer": field}, "required": ["answer"]}
        answer = await self._request(
            "elicitation/create", mode="form", message=question + "?", requestedSchema=schema
        )
        chosen = (answer.get("content") or {}).get("answer")
        await self._say(f"You chose {chosen}." if answer.get("action") == "accept" else "You did not choose.")

    async def _consult(self, text: str) -> None:
        servers = self._agent.mcp_servers.get(self._session, [])
        if not servers:
            await self._say("I would ask, but no MCP server was named.")
            return
        prompt, _, choices = text.partition("?")
        labels = [choice.strip() for choice in choices.split("|") if choice.strip()] or ["Yes", "No"]
        question = {
            "prompt": f"{prompt}?",
            "title": "Question",
            "options": [{"label": label} for label in labels],
            "multiSelect": False,
        }
        call = asyncio.create_task(_call_tool(servers[0], "ask_user_questions", {"questions": [question]}))
        cancelled = asyncio.create_task(self._cancelled.wait())
        await asyncio.wait([call, cancelled], return_when=asyncio.FIRST_COMPLETED)
        cancelled.cancel()
        if call.done():
            await self._say(call.result())
        else:
            call.cancel()
            await asyncio.wait([call])

    async def _slow(self, count: str) -> None:
        for number in range(int(count)):
            try:
                await asyncio.wait_for(self._cancelled.wait(), WORD_SECONDS)
                return
            except TimeoutError:
                await self._word(f"{number} ")

    async def _flood(self, count: str) -> None:
        for number in range(int(count)):
            await self._word(f"{number} ")

    async def _wait(self, rest: str) -> None:
        await self._cancelled.wait()

    async def _stderr(self, count: str) -> None:
        sys.stderr.write("x" * int(count) + "\n")
        sys.stderr.flush()

    async def _fail(self, text: str) -> None:
        raise Refusal(500, text or "The demo agent was told to fail.")

    async def _crash(self, code: str) -> None:
        await self._word("I am goi")
        sys.stderr.write("the demo agent was told to crash\n")
        sys.stderr.flush()
        os._exit(int(code or 1))

    async def _word(self, text: str) -> None:
        self.words += 1
        await self._update("agent_message_chunk", content={"type": "text", "text": text})

    async def _tool(self, call: str, **fields: Any) -> None:
        await self._update("tool_call", toolCallId=call, **fields)

    async def _tool_update(self, call: str, **fields: Any) -> None:
        await self._update("tool_call_update", toolCallId=call, **fields)

    async def _update(self, kind: str, /, **fields: Any) -> None:
        await self._agent.send(self._session, {"sessionUpdate": kind, **fields})

    async def _request(self, method: str, **params: Any) -> Any:
        answer = await self._agent.wire.request(method, {"sessionId": self._session, **params})
        return msgspec.json.decode(answer)


async def _call_tool(server: _McpServer, tool: str, arguments: dict[str, Any]) -> str:
    """What a tool of an MCP server says."""
    from mcp import Client, StdioServerParameters

    environment = {variable.name: variable.value for variable in server.env}
    parameters = StdioServerParameters(command=server.command, args=server.args, env=environment)
    async with Client(parameters) as client:
        result = await client.call_tool(tool, arguments)
    return "\n".join(block.text for block in result.content if block.type == "text")


async def serve(memory: Path | None) -> None:
    """Speak ACP on standard input and output until the input ends."""
    read = await _standard_input()
    output = sys.stdout.buffer

    async def write(data: bytes) -> None:
        output.write(data)
        output.flush()

    await DemoAgent(read, write, memory).wire.run()


async def _standard_input() -> Callable[[int], Awaitable[bytes]]:
    """How to read it. A file and /dev/null are there to be read at once, and cannot be waited for."""
    kind = os.fstat(sys.stdin.fileno()).st_mode
    if stat.S_ISREG(kind) or (stat.S_ISCHR(kind) and not sys.stdin.isatty()):
        return lambda size: asyncio.to_thread(os.read, sys.stdin.fileno(), size)
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    return reader.read


def main(memory: Path | None = None) -> None:
    """Run the agent; it keeps its sessions in `memory`, or in its home."""
    memory = memory or user_data_path("holdfast") / "demo-agent"
    for directory in (memory.parent, memory):  # each for its owner alone, since both may be new
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    asyncio.run(serve(memory))


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
