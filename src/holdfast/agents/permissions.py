"""What an agent may do without a person being asked: a default, and rules that come before it.

A rule names a kind of tool, a path, a command, or several of them. Paths are patterns relative to the
workspace, in which `*` stays within a name and `**` stands for any number of directories. They are compared
with real paths, links and `..` resolved, so no detour leads around a rule.

The command of a rule is compared word by word with what runs: `git log *` allows `git log -3`, and never
`git log -3; rm x`, which is a text for a shell. No rule allows such a text: its first words tell nothing.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from enum import StrEnum
from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from typing import Any

import msgspec

from holdfast.agents.workspace import Workspace
from holdfast.errors import HoldfastError

MAX_PATH = 4096
"""The longest path that is judged: that of no file is longer."""


SHELLS = frozenset({"ash", "bash", "csh", "dash", "fish", "ksh", "mksh", "sh", "tcsh", "zsh"})


class Decision(StrEnum):
    ASK = "ask"
    ALLOW = "allow"
    DENY = "deny"


class ToolKind(StrEnum):
    """What the protocol knows. An agent that says nothing, or something else, means `other`."""

    READ = "read"
    EDIT = "edit"
    DELETE = "delete"
    MOVE = "move"
    SEARCH = "search"
    EXECUTE = "execute"
    THINK = "think"
    FETCH = "fetch"
    SWITCH_MODE = "switch_mode"
    OTHER = "other"


class Rule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Applies to calls of its kind whose paths match; a call that names no path matches none.

    To ask or to deny, one matching path is enough; to allow, all of them must match.
    """

    decision: Decision
    kind: ToolKind | None = None
    path: str | None = None
    command: str | None = None
    """The words that a command begins with. In a word, `*` stands for anything; as the last one, for all
    words that follow, if any."""

    def __post_init__(self) -> None:
        if self.kind is None and self.path is None and self.command is None:
            raise ValueError("a rule needs a kind, a path or a command")
        if self.command is not None and not self.words:
            raise ValueError(f"the command {self.command!r} of a rule has no words, or an open quote")
        if self.path is not None and not _is_pattern(self.path):
            raise ValueError(
                f"the path {self.path!r} of a rule must be relative to the workspace, without .."
            )

    def __str__(self) -> str:
        parts = (self.decision, self.kind, self.path, self.command)
        return " ".join(part for part in parts if part is not None)

    @property
    def words(self) -> tuple[str, ...]:
        return split(self.command or "")

    def applies(self, call: ToolCall) -> bool:
        if self.kind is not None and self.kind is not call.kind:
            return False
        if self.decision is Decision.ALLOW and call.text_for_a_shell is not None:
            return False
        if self.command is not None and not self._names_its_command(call):
            return False
        if self.path is None:
            return True
        pattern = PurePosixPath(self.path).parts
        matches = [path is not None and _matches(path.parts, pattern) for path in call.paths]
        return bool(matches) and (all if self.decision is Decision.ALLOW else any)(matches)

    def _names_its_command(self, call: ToolCall) -> bool:
        if call.text_for_a_shell is None:
            return _begins(call.command, self.words)
        # A text for a shell holds any number of commands: to ask or to deny, one place in it is enough.
        said = split(call.text_for_a_shell) or tuple(call.text_for_a_shell.split())
        return any(_begins(said[place:], self.words) for place in range(len(said)))


class ToolCall(msgspec.Struct, frozen=True):
    """What rules look at: the kind, the places that the call names, and the command that it runs."""

    kind: ToolKind
    paths: tuple[PurePosixPath | None, ...]
    """Relative to the workspace; None for one that is outside, or cannot be judged."""
    command: tuple[str, ...] = ()
    """The program and its arguments, where the call is known to run exactly these."""
    text_for_a_shell: str | None = None
    """What a shell is told to run, if that is what the call does."""

    @classmethod
    def of(cls, call: Mapping[str, Any], workspace: Workspace) -> ToolCall:
        """A tool call of the protocol, with its locations, the files of its diffs, and its command."""
        given = call.get("rawInput")
        command = given.get("command") if isinstance(given, Mapping) else None
        args = given.get("args") if isinstance(given, Mapping) else None
        line: tuple[str, ...] = ()
        if isinstance(command, list | tuple):
            line = tuple(map(str, command))
        elif isinstance(command, str):
            rest = args if isinstance(args, list | tuple) else ()
            line = (command, *map(str, rest)) if rest else split(command)
        text = text_for_a_shell(line)
        if isinstance(command, str) and not args and shlex.join(line) != command:
            text = command  # a shell would see more in it than a program and its arguments
        return cls(
            kind=_kind(call.get("kind")),
            paths=tuple(_relative(path, workspace) for path in named_paths(call)),
            command=line,
            text_for_a_shell=text,
        )

    @property
    def stays_inside(self) -> bool:
        return None not in self.paths


class Ruling(msgspec.Struct, frozen=True):
    decision: Decision
    by: str
    """Which rule decided, or that it was the default."""


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    default: Decision = Decision.ASK
    rules: tuple[Rule, ...] = ()

    def decide(self, call: ToolCall) -> Ruling:
        """The first rule that applies decides, and the default otherwise.

        Nothing outside the workspace is allowed without a person.
        """
        for number, rule in enumerate(self.rules, 1):
            if rule.applies(call) and (call.stays_inside or rule.decision is not Decision.ALLOW):
                return Ruling(rule.decision, f"rule {number}: {rule}")
        if self.default is Decision.ALLOW and not call.stays_inside:
            return Ruling(Decision.ASK, "a path outside the workspace")
        return Ruling(self.default, f"default: {self.default}")


def named_paths(call: Mapping[str, Any]) -> list[Any]:
    """The places that a tool call names, as the agent wrote them."""
    locations, content = call.get("locations"), call.get("content")
    places = list(locations) if isinstance(locations, list | tuple) else []
    if isinstance(content, list | tuple):
        places += [block for block in content if isinstance(block, dict) and block.get("type") == "diff"]
    return [place.get("path") if isinstance(place, dict) else None for place in places]


def text_for_a_shell(line: Sequence[str]) -> str | None:
    """What a shell is told to run, if that is what a command does."""
    if not line or PurePosixPath(line[0]).name not in SHELLS:
        return None
    options = (n for n, word in enumerate(line[1:-1], 1) if word[:1] == "-" != word[1:2] and "c" in word)
    place = next(options, None)
    return None if place is None else line[place + 1]


def split(text: str) -> tuple[str, ...]:
    """The words of a command as a shell would see them; none of a text that is not complete."""
    try:
        return tuple(shlex.split(text))
    except ValueError:
        return ()


def _begins(command: Sequence[str], words: Sequence[str]) -> bool:
    """Whether a command has these words, and no others unless the last one of them is `*`."""
    open_end = words[-1:] == ("*",)
    fixed = words[:-1] if open_end else words
    if len(command) < len(fixed) or (len(command) > len(fixed) and not open_end):
        return False
    return all(fnmatchcase(word, pattern) for word, pattern in zip(command, fixed, strict=False))


def _kind(kind: Any) -> ToolKind:
    try:
        return ToolKind(kind)
    except ValueError:
        return ToolKind.OTHER


def _relative(path: Any, workspace: Workspace) -> PurePosixPath | None:
    if not isinstance(path, str) or len(path) > MAX_PATH:
        return None
    try:
        return PurePosixPath(workspace.confined(path).relative_to(workspace.root))
    except HoldfastError:
        return None


def _is_pattern(path: str) -> bool:
    parts = PurePosixPath(path).parts
    return bool(parts) and not PurePosixPath(path).is_absolute() and ".." not in parts


def _matches(parts: Sequence[str], pattern: Sequence[str]) -> bool:
    if not pattern:
        return not parts
    first, rest = pattern[0], pattern[1:]
    if first == "**":
        return any(_matches(parts[skipped:], rest) for skipped in range(len(parts) + 1))
    return bool(parts) and fnmatchcase(parts[0], first) and _matches(parts[1:], rest)
