"""Whether an agent is installed and speaks ACP: start it, ask `initialize`, end it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import uuid4

import msgspec

from holdfast.agents.catalogue import AgentEntry, AgentNotInstalled
from holdfast.agents.process import SESSION_MARK, AgentProcess
from holdfast.agents.protocol import VERSION, Initialized, client_capabilities
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


class _Mute:
    """The other side of a conversation that is only about `initialize`."""

    async def notified(self, method: str, params: msgspec.Raw) -> None:
        pass

    async def requested(self, method: str, params: msgspec.Raw) -> Any:
        raise Refusal(UNKNOWN_METHOD, "There is no session yet.")


async def probe(entry: AgentEntry, *, seconds: float = SECONDS) -> Probe:
    path = entry.path()
    with TemporaryDirectory(prefix="holdfast-") as directory:
        try:
            command = entry.command_line(Path(directory))
            environment = entry.environment() | {SESSION_MARK: str(uuid4())}  # a session without a session
            process = await AgentProcess.start(command, Path(directory), environment)
        except AgentNotInstalled as error:
            return Probe(path=None, problem=str(error))
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
    return Probe(path=path, answers=True, name=_called(about))


async def _initialize(wire: Wire) -> Initialized:
    params = {"protocolVersion": VERSION, "clientCapabilities": client_capabilities()}
    return msgspec.json.decode(await wire.request("initialize", params), type=Initialized)


def _called(about: Initialized) -> str | None:
    info = about.agent_info or {}
    named = [str(info[key]) for key in ("title", "version") if info.get(key)]
    return " ".join(named) or None
