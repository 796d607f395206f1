"""Whether an agent is installed and speaks ACP: start it, ask `initialize`, end it."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import uuid4

import msgspec

from holdfast.agents.catalogue import AgentEntry, AgentNotInstalled
from holdfast.agents.process import SESSION_MARK, AgentProcess
from holdfast.agents.protocol import VERSION, Initialized, client_capabilities
from holdfast.agents.sandbox import Kind, Sandbox, Sandboxes, SandboxRefused
from holdfast.agents.wire import UNKNOWN_METHOD, UNREADABLE, AgentError, ConnectionLost, Refusal, Wire

SECONDS = 20.0
"""How long an agent may take: the slowest that was measured needs seven."""


class Probe(msgspec.Struct, frozen=True, kw_only=True):
    """What was found out about an entry of the catalogue."""

    path: Path | None
    """Where its program is; None when it is not installed."""
    answers: bool = False
    name: str | None = None
    """What the agent calls itself, with its version."""
    problem: str | None = None
    sandbox: dict[str, Any] | None = None
    """What it was started in."""


class _Mute:
    """The other side of a conversation that is only about `initialize`."""

    async def notified(self, method: str, params: msgspec.Raw) -> None:
        pass

    async def requested(self, method: str, params: msgspec.Raw) -> Any:
        raise Refusal(UNKNOWN_METHOD, "There is no session yet.")


async def probe(entry: AgentEntry, sandboxes: Sandboxes | None = None, *, seconds: float = SECONDS) -> Probe:
    path = entry.path()
    async with AsyncExitStack() as opened:
        directory = Path(opened.enter_context(TemporaryDirectory(prefix="holdfast-")))
        workspace = directory / "workspace"
        workspace.mkdir()
        try:
            environment = entry.environment() | {SESSION_MARK: str(uuid4())}  # a session without a session
            sandbox = Sandbox.none(environment)
            if sandboxes is not None:
                homes = sandboxes.below(directory / "homes")
                sandbox = await homes.open(entry, workspace, environment, owner=("local", "local", "probe"))
            opened.push_async_callback(sandbox.close)
            confined = sandbox.kind is not Kind.NONE
            command = entry.command_line(workspace, confined=confined)
            process = await AgentProcess.start(command, workspace, sandbox)
        except AgentNotInstalled as error:
            return Probe(path=None, problem=str(error))
        except SandboxRefused as error:
            return Probe(path=path, problem=str(error))
        except OSError as error:
            return Probe(path=path, problem=f"It cannot be started: {error.strerror}.")
        wire = Wire(process.read, process.write, _Mute())
        reading = asyncio.create_task(wire.run())
        try:
            async with asyncio.timeout(seconds):
                about = await _initialize(wire)
        except TimeoutError:
            return Probe(path=path, problem=f"It did not answer within {seconds:g} seconds.")
        except (AgentError, ConnectionLost, *UNREADABLE) as error:
            await process.end()  # by then all is heard that it said
            last = process.stderr_tail.strip().splitlines()[-1:]
            return Probe(path=path, problem=" ".join([str(error), *last]))
        finally:
            await process.end()
            reading.cancel()
            await asyncio.wait([reading])
            await process.close()
    return Probe(path=path, answers=True, name=_called(about), sandbox=sandbox.description)


async def _initialize(wire: Wire) -> Initialized:
    params = {"protocolVersion": VERSION, "clientCapabilities": client_capabilities()}
    return msgspec.json.decode(await wire.request("initialize", params), type=Initialized)


def _called(about: Initialized) -> str | None:
    info = about.agent_info or {}
    named = [str(info[key]) for key in ("title", "version") if info.get(key)]
    return " ".join(named) or None
