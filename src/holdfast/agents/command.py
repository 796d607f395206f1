"""A command that an agent wants to run through us, exactly as it would run.

It is made before it is decided, and what was decided is what runs: the program, its arguments, its directory
and its variables do not change in between.
"""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import msgspec

from holdfast.agents.permissions import ToolCall, ToolKind, text_for_a_shell
from holdfast.agents.workspace import Workspace
from holdfast.errors import InvalidInput, NotFound

SHELL = "/bin/sh"

INERT = frozenset({"CI", "CLAUDECODE", "COLUMNS", "FORCE_COLOR", "LINES", "NO_COLOR", "TERM"})
"""Variables that change how a command looks, and not what it does. Others are shown to the person."""


class EnvVariable(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def value(self) -> str: ...


class Command(msgspec.Struct, frozen=True):
    line: tuple[str, ...]
    """The program and its arguments."""
    directory: Path
    variables: Mapping[str, str]
    """What the agent sets, beside the environment that all of its commands have."""

    @classmethod
    def of(
        cls,
        workspace: Workspace,
        environment: Mapping[str, str],
        command: str,
        args: Sequence[str] = (),
        env: Sequence[EnvVariable] = (),
        cwd: str | None = None,
    ) -> Command:
        """What `terminal/create` asks for.

        Some agents send a whole line for a shell as the command, without arguments, and get a shell.
        """
        line = _checked_line(command, args)
        variables = _checked_variables(env)
        directory = workspace.confined(cwd or ".")
        if not directory.is_dir():
            raise NotFound(f"There is no directory {cwd}.")
        if not _is_there(line[0], directory, {**environment, **variables}.get("PATH")):
            is_plain = shlex.quote(line[0]) == line[0]  # nothing in it that only a shell understands
            if len(line) > 1 or is_plain:
                raise InvalidInput(
                    f"The command {line[0]!r} was not found; give its path, or a program that is in PATH."
                )
            line = (SHELL, "-c", line[0])
        return cls(line, directory, variables)

    @property
    def shown(self) -> str:
        """The command as a person would type it."""
        set_here = [f"{name}={shlex.quote(value)}" for name, value in self.telling_variables.items()]
        return " ".join([*set_here, shlex.join(self.line)])

    @property
    def telling_variables(self) -> dict[str, str]:
        return {name: value for name, value in self.variables.items() if name not in INERT}

    @property
    def call(self) -> ToolCall:
        """What rules look at. It has no path: where a command is started says nothing of what it touches.

        With variables such as PATH, its words tell as little as a text for a shell: no rule allows it.
        """
        text = text_for_a_shell(self.line) or (self.shown if self.telling_variables else None)
        return ToolCall(ToolKind.EXECUTE, (), self.line, text)

    def request(self, root: Path) -> dict[str, Any]:
        """The tool call that a person is shown."""
        given = {"command": self.shown}
        if self.directory != root:
            given["cwd"] = str(self.directory.relative_to(root))
        return {"title": self.shown, "kind": ToolKind.EXECUTE.value, "rawInput": given}

    def is_what_was_shown(self, raw_input: Any, root: Path) -> bool:
        """Whether a person who allowed a tool call with this input saw this very command."""
        if self.telling_variables or not isinstance(raw_input, Mapping):
            return False
        directory = raw_input.get("cwd") or raw_input.get("directory") or "."
        if not isinstance(directory, str) or os.path.realpath(root / directory) != str(self.directory):
            return False
        command, args = raw_input.get("command"), raw_input.get("args")
        if isinstance(command, list | tuple):
            return tuple(command) == self.line
        if isinstance(args, list | tuple):
            return (command, *args) == self.line
        is_typed = len(self.line) == 3 and self.line[1] in ("-c", "-lc")
        typed = text_for_a_shell(self.line) if is_typed else None
        return isinstance(command, str) and command in (shlex.join(self.line), typed)


def _is_there(program: str, directory: Path, path: str | None) -> bool:
    if "/" in program:
        return (directory / program).exists()
    return shutil.which(program, path=path or os.defpath) is not None


def _checked_line(command: str, args: Sequence[str]) -> tuple[str, ...]:
    if not command:
        raise InvalidInput("A terminal needs a command.")
    return tuple(_passable(part, "command") for part in (command, *args))


def _checked_variables(env: Sequence[EnvVariable]) -> dict[str, str]:
    for variable in env:
        if not variable.name or "=" in variable.name:
            raise InvalidInput(f"{variable.name!r} cannot be the name of an environment variable.")
    return {_passable(each.name, "environment"): _passable(each.value, "environment") for each in env}


def _passable(text: str, what: str) -> str:
    """`text`, if a program can be given it."""
    try:
        if b"\0" not in os.fsencode(text):
            return text
    except UnicodeEncodeError:
        pass
    raise InvalidInput(
        f"The {what} contains a NUL or half of a surrogate pair, which no program can be given."
    )
