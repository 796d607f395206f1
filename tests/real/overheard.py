"""What is said to agents, judged by the schema models of the protocol's own SDK.

The models read leniently, so a message must also come out of its model as it went in: a field
that the protocol does not have would be missing then.
"""

import json
from typing import Any, NamedTuple

import pytest
from acp import schema
from pydantic import BaseModel, ValidationError

from holdfast.agents.process import AgentProcess

SENT: dict[str, type[BaseModel]] = {
    "initialize": schema.InitializeRequest,
    "session/new": schema.NewSessionRequest,
    "session/load": schema.LoadSessionRequest,
    "session/resume": schema.ResumeSessionRequest,
    "session/prompt": schema.PromptRequest,
    "session/cancel": schema.CancelNotification,
    "session/set_mode": schema.SetSessionModeRequest,
}

ANSWERED: dict[str, type[BaseModel]] = {
    "session/request_permission": schema.RequestPermissionResponse,
    "fs/read_text_file": schema.ReadTextFileResponse,
    "fs/write_text_file": schema.WriteTextFileResponse,
    "terminal/create": schema.CreateTerminalResponse,
    "terminal/output": schema.TerminalOutputResponse,
    "terminal/wait_for_exit": schema.WaitForTerminalExitResponse,
    "terminal/kill": schema.KillTerminalResponse,
    "terminal/release": schema.ReleaseTerminalResponse,
}


class Said(NamedTuple):
    pid: int
    by_us: bool
    line: dict[str, Any]

    @property
    def method(self) -> str | None:
        return self.line.get("method")


class Overheard:
    """Everything that is said while it listens at the pipes of every agent."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.said: list[Said] = []
        self._unfinished: dict[int, bytes] = {}
        read, write = AgentProcess.read, AgentProcess.write

        async def overheard_read(process: AgentProcess, size: int) -> bytes:
            data = await read(process, size)
            *lines, rest = (self._unfinished.get(process.pid, b"") + data).split(b"\n")
            self._unfinished[process.pid] = rest
            for line in lines:
                self._hear(process.pid, False, line)
            return data

        async def overheard_write(process: AgentProcess, data: bytes) -> None:
            self._hear(process.pid, True, data)
            await write(process, data)

        monkeypatch.setattr(AgentProcess, "read", overheard_read)
        monkeypatch.setattr(AgentProcess, "write", overheard_write)

    def sent(self, method: str) -> list[dict[str, Any]]:
        """The parameters of what we sent with this method."""
        return [each.line["params"] for each in self.said if each.by_us and each.method == method]

    def mistakes(self) -> list[str]:
        """What we said that is not in the protocol."""
        found = []
        asked: dict[tuple[int, str], str] = {}
        for each in self.said:
            key = each.pid, json.dumps(each.line.get("id"))
            if each.method is not None and not each.by_us:
                asked[key] = each.method
            elif each.by_us:
                found += _mistakes(each, each.method or asked.pop(key, "an answer to nothing"))
        return found

    def _hear(self, pid: int, by_us: bool, line: bytes) -> None:
        try:
            said = json.loads(line)
        except ValueError:
            return  # agents also print other things, which is for the wire to survive
        if isinstance(said, dict):
            self.said.append(Said(pid, by_us, said))


def _mistakes(said: Said, method: str) -> list[str]:
    if "error" in said.line:
        return []
    model, content = (
        (SENT.get(method), said.line["params"])
        if said.method is not None
        else (ANSWERED.get(method), said.line["result"])
    )
    if model is None:
        return [f"there is no schema for {method}: {content}"]
    try:
        understood = model.model_validate(content).model_dump(mode="json", by_alias=True, exclude_unset=True)
    except ValidationError as error:
        return [f"{method}: {error}"]
    return [] if understood == content else [f"{method}: {content} was understood as {understood}"]
