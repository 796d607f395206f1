"""Gemini CLI, codex-acp and hermes, each in a home of its own, with the scripted model as its model."""

import asyncio
import os
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path

import msgspec
import psutil

from holdfast.agents.catalogue import AgentEntry, default_entries
from tests.real.programs import NODE, npm_program, pip_program
from tests.waiting import until

NAMES = ("gemini", "codex", "hermes")

# Without a sandbox of its own, for which codex needs a program that few machines have.
CODEX_SETTINGS = """
model = "scripted"
model_provider = "scripted"
approval_policy = "untrusted"
sandbox_mode = "danger-full-access"

[model_providers.scripted]
name = "scripted"
base_url = "{model_url}/v1"
wire_api = "responses"
env_key = "OPENAI_API_KEY"
request_max_retries = 0
stream_max_retries = 0
"""

HERMES_SETTINGS = """
model:
  default: scripted
  provider: custom
  base_url: {model_url}/v1
  api_key: none
security:
  tirith_enabled: false
"""

NOTHING_BUT_LOOPBACK = {
    name: value
    for lower, value in {"https_proxy": "http://127.0.0.1:9", "no_proxy": "127.0.0.1"}.items()
    for name in (lower, lower.upper())
}
"""Agents look things up on the internet. Here they are refused at once, instead of after a time-out."""


class RealAgent:
    """An installed agent of the catalogue. Everything it runs has its home in the environment."""

    def __init__(self, name: str, home: Path, model_url: str) -> None:
        self.name = name
        self.home = home
        self._model_url = model_url
        _configure(home, model_url)

    @property
    def entry(self) -> AgentEntry:
        """The default entry, with the place and the environment that are the test's own."""
        entry = default_entries({})[self.name]
        command = _commands(self.name) / entry.command
        return msgspec.structs.replace(entry, command=str(command), env=self._environment())

    def processes(self, name: str | None = None) -> list[psutil.Process]:
        """What is running of the agent, helpers and their commands included; only those with a name."""
        return [
            process
            for process in psutil.process_iter(["environ", "name"])
            if (process.info["environ"] or {}).get("HOME") == str(self.home)
            and name in (None, process.info["name"])
        ]

    async def is_gone(self) -> None:
        """Wait until nothing of it is running: a helper may need a moment to see that its agent has ended."""

        async def nothing_is_left() -> bool:
            return not await asyncio.to_thread(self.processes)

        await until(nothing_is_left)

    def kill(self) -> None:
        for process in self.processes():
            with suppress(psutil.NoSuchProcess):
                process.kill()

    def _environment(self) -> Mapping[str, str]:
        return {
            "HOME": str(self.home),
            "PATH": os.pathsep.join((str(NODE), os.environ["PATH"])),
            "GEMINI_API_KEY": "none",
            "GEMINI_CLI_TRUST_WORKSPACE": "true",  # or it uses no MCP server
            "GOOGLE_GEMINI_BASE_URL": self._model_url,
            "OPENAI_API_KEY": "none",
            **NOTHING_BUT_LOOPBACK,
        }


@cache
def _commands(name: str) -> Path:
    match name:
        case "gemini":
            return npm_program("@google/gemini-cli", "0.61.0")
        case "codex":
            return npm_program("@zed-industries/codex-acp", "0.16.0")
        case _:
            return pip_program("hermes-agent", "0.19.0", extra="acp,mcp")


def _configure(home: Path, model_url: str) -> None:
    for path, settings in (
        (home / ".codex" / "config.toml", CODEX_SETTINGS),
        (home / ".hermes" / "config.yaml", HERMES_SETTINGS),
    ):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(settings.format(model_url=model_url))
