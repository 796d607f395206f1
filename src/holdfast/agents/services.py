"""What is done for an agent when it asks: files, terminals, and questions to a person.

An agent that was not offered something may ask for it all the same, and is answered all the
same. Nothing outside the workspace is touched for it. What a command wrote is recorded before the
agent is told of it, so that a tool call which the agent then ends has all of it.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from holdfast.agents.asking import Asking, Audit
from holdfast.agents.protocol import AskingTool, CreateTerminal, NamedTerminal, ReadFile, WriteFile
from holdfast.agents.recorder import Recorder
from holdfast.agents.sandbox import Access, Sandbox
from holdfast.agents.terminals import Terminals
from holdfast.agents.wire import INVALID_PARAMS, NOT_FOUND, UNKNOWN_METHOD, Refusal
from holdfast.agents.workspace import OutsideWorkspace, Workspace
from holdfast.errors import InvalidInput, NotFound

SHOWN_SECONDS = 0.5
"""How often the output of a command that is waited for is recorded while it grows."""

_read = msgspec.json.Decoder(ReadFile).decode
_write = msgspec.json.Decoder(WriteFile).decode
_create = msgspec.json.Decoder(CreateTerminal).decode
_named = msgspec.json.Decoder(NamedTerminal).decode
_asking_tool = msgspec.json.Decoder(AskingTool).decode


class Services:
    def __init__(
        self,
        workspace: Workspace,
        sandbox: Sandbox,
        terminals: Terminals,
        asking: Asking,
        recorder: Recorder,
        audit: Audit,
    ) -> None:
        self.asking = asking
        self._workspace = workspace
        self._sandbox = sandbox
        self._terminals = terminals
        self._recorder = recorder
        self._audit = audit

    async def answer(self, method: str, params: msgspec.Raw) -> Any:
        """The result of a request, or `Refusal`."""
        try:
            return await self._answer(method, params)
        except OutsideWorkspace as refusal:
            await self._audit("agent.path", "denied", {"method": method, "path": refusal.path})
            raise Refusal(INVALID_PARAMS, str(refusal)) from None
        except NotFound as error:
            raise Refusal(NOT_FOUND, str(error)) from None
        except InvalidInput as error:
            raise Refusal(INVALID_PARAMS, str(error)) from None

    async def close(self) -> None:
        """Withdraw every question and end every command."""
        self.asking.cancel_all()
        await self._terminals.close()

    async def _answer(self, method: str, params: msgspec.Raw) -> Any:
        terminals = self._terminals
        match method:
            case "session/request_permission":
                await self._recorder.tool(_asking_tool(params).tool_call)
                return await self.asking.permission(params)
            case "elicitation/create":
                return await self.asking.elicitation(params)
            case "fs/read_text_file":
                read = _read(params)
                real = await asyncio.to_thread(self._workspace.confined, read.path)
                if self._sandbox.access(real) is Access.HIDDEN:
                    raise InvalidInput(f"{read.path} is not for agents to see.")
                text = await asyncio.to_thread(
                    self._workspace.read_text, read.path, line=read.line, limit=read.limit, judged=real
                )
                return {"content": text}
            case "fs/write_text_file":
                write = _write(params)
                real = await asyncio.to_thread(self._workspace.confined, write.path)
                if self._is_guarded(real):
                    await self.asking.write(write.path, write.content)
                await asyncio.to_thread(self._workspace.write_text, write.path, write.content, judged=real)
                return {}
            case "terminal/create":
                new = _create(params)
                return {
                    "terminalId": await terminals.create(
                        new.command, new.args or (), new.env or (), new.cwd, new.output_byte_limit
                    )
                }
            case "terminal/output":
                return await self._output(_named(params).terminal_id)
            case "terminal/wait_for_exit":
                return await self._exit_status(_named(params).terminal_id)
            case "terminal/kill":
                terminal_id = _named(params).terminal_id
                await terminals.kill(terminal_id)
                await self._output(terminal_id)
                return {}
            case "terminal/release":
                terminal_id = _named(params).terminal_id
                await terminals.kill(terminal_id)
                await self._output(terminal_id)
                await terminals.release(terminal_id)
                return {}
        raise Refusal(UNKNOWN_METHOD, f"{method} is not known here.")

    def _is_guarded(self, real: Path) -> bool:
        """Whether the agent may not write a file by itself."""
        return self._workspace.is_of_git(str(real)) or self._sandbox.access(real) is not Access.WRITE

    async def _output(self, terminal_id: str) -> dict[str, Any]:
        """What a command has written so far, once it is recorded."""
        output = self._terminals.output(terminal_id)
        await self._recorder.printed(terminal_id, output)
        return output

    async def _exit_status(self, terminal_id: str) -> dict[str, Any]:
        """How a command ended, once it has; meanwhile, what it writes is recorded as it comes."""
        waiting = asyncio.create_task(self._terminals.wait_for_exit(terminal_id))
        try:
            is_over = False
            while not is_over:
                await asyncio.wait([waiting], timeout=SHOWN_SECONDS)
                is_over = waiting.done()
                with suppress(NotFound):  # it was released, and recorded by whoever did that
                    await self._output(terminal_id)
            return await waiting
        finally:
            waiting.cancel()
