"""The protocol as real agents speak it: a turn in pieces, a permission, a cancel, an end.

What they do differently from one another is dealt with by `holdfast.agents`:

- Gemini CLI asks for permission without ever having named the tool call. It answers a cancel only
  when its own request has been answered.
- codex-acp names a call before it asks to edit, and asks before it names a command. Its ids are
  texts, it does not end when its input does, and it says which commands it has at any time, also
  after a turn. The tokens it used are known from `usage_update` alone.
- hermes asks under another id than that of the tool call, which it leaves open. It may speak of the
  session before it has answered `session/new`. The tokens in its answers are those of the whole
  session. Its warnings go to standard output, between the lines of JSON. A cancel while it waits for
  a permission fails the turn, and it answers every later prompt with "Queued for the next turn".
- All three run commands outside their own process group.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from holdfast.agents.process import AgentProcess
from holdfast.agents.sandbox import Sandbox
from holdfast.agents.wire import UNKNOWN_METHOD, AgentError, Refusal, Wire
from tests.real.agents import RealAgent
from tests.real.model_server import ANSWER, WRITTEN_NAME, WRITTEN_TEXT

CANCELLED = {"outcome": {"outcome": "cancelled"}}


class Client:
    """The other side of an agent, which leaves permissions to the test."""

    def __init__(self, process: AgentProcess) -> None:
        self.updates: list[dict[str, Any]] = []
        self.permissions: asyncio.Queue[tuple[dict[str, Any], asyncio.Future[Any]]] = asyncio.Queue()
        self.wire = Wire(process.read, process.write, self)
        self.session_id = ""

    async def open(self, cwd: Path) -> None:
        about = {"name": "holdfast-tests", "version": "0"}
        await self.wire.request(
            "initialize", {"protocolVersion": 1, "clientCapabilities": {}, "clientInfo": about}
        )
        opened = await self.wire.request("session/new", {"cwd": str(cwd), "mcpServers": []})
        self.session_id = msgspec.json.decode(opened)["sessionId"]

    async def prompt(self, text: str) -> str:
        """The reason why the turn ended; `error` when it failed."""
        prompt = [{"type": "text", "text": text}]
        try:
            answer = await self.wire.request(
                "session/prompt", {"sessionId": self.session_id, "prompt": prompt}
            )
        except AgentError:
            return "error"
        return str(msgspec.json.decode(answer)["stopReason"])

    async def notified(self, method: str, params: msgspec.Raw) -> None:
        self.updates.append(msgspec.json.decode(params)["update"])

    async def requested(self, method: str, params: msgspec.Raw) -> Any:
        if method != "session/request_permission":
            raise Refusal(UNKNOWN_METHOD, method)
        decided: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.permissions.put_nowait((msgspec.json.decode(params), decided))
        return await decided

    def pieces(self) -> list[str]:
        kind = "agent_message_chunk"
        return [update["content"]["text"] for update in self.updates if update["sessionUpdate"] == kind]


@asynccontextmanager
async def talking(agent: RealAgent, cwd: Path) -> AsyncIterator[Client]:
    process = await AgentProcess.start(
        agent.entry.command_line(cwd), cwd, Sandbox.none(agent.entry.environment())
    )
    client = Client(process)
    reading = asyncio.create_task(client.wire.run())
    try:
        await client.open(cwd)
        yield client
    finally:
        await process.end()
        await reading
        await process.close()


def allowing(asked: dict[str, Any]) -> dict[str, Any]:
    option = next(option for option in asked["options"] if option["kind"] == "allow_once")
    return {"outcome": {"outcome": "selected", "optionId": option["optionId"]}}


async def test_a_turn_a_permission_and_a_cancel(agent: RealAgent, repository: Path) -> None:
    written = repository / WRITTEN_NAME
    async with talking(agent, repository) as client:
        assert await client.prompt("What is the answer?") == "end_turn"
        assert client.pieces()[-len(ANSWER) :] == list(ANSWER)

        turn = asyncio.create_task(client.prompt("TOOLWRITE, please"))
        asked, decided = await client.permissions.get()
        assert not written.exists()
        decided.set_result(allowing(asked))
        assert await turn == "end_turn"
        assert written.read_text() == WRITTEN_TEXT
        assert "The tool said: " in "".join(client.pieces())

        written.unlink()
        turn = asyncio.create_task(client.prompt("TOOLWRITE again"))
        _, decided = await client.permissions.get()
        await client.wire.notify("session/cancel", {"sessionId": client.session_id})
        decided.set_result(CANCELLED)
        assert await turn in ("cancelled", "error")
        assert not written.exists()
