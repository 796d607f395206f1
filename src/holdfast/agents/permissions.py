"""What an agent may do without a person being asked: a default, and rules that come before it.

A rule names a kind of tool, a path, or both. Paths are patterns relative to the workspace, in
which `*` stays within a name and `**` stands for any number of directories. They are compared
with real paths, links and `..` resolved, so no detour leads around a rule.
"""

from __future__ import annotations

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

    def __post_init__(self) -> None:
        if self.kind is None and self.path is None:
            raise ValueError("a rule needs a kind, a path, or both")
        if self.path is not None and not _is_pattern(self.path):
            raise ValueError(
                f"the path {self.path!r} of a rule must be relative to the workspace, without .."
            )

    def __str__(self) -> str:
        parts = (self.decision, self.kind, self.path)
        return " ".join(part for part in parts if part is not None)

    def applies(self, call: ToolCall) -> bool:
        if self.kind is not None and self.kind is not call.kind:
            return False
        if self.path is None:
            return True
        pattern = PurePosixPath(self.path).parts
        matches = [path is not None and _matches(path.parts, pattern) for path in call.paths]
        return bool(matches) and (all if self.decision is Decision.ALLOW else any)(matches)


class ToolCall(msgspec.Struct, frozen=True):
    """What rules look at: the kind, and the places that the call names."""

    kind: ToolKind
    paths: tuple[PurePosixPath | None, ...]
    """Relative to the workspace; None for one that is outside, or cannot be judged."""

    @classmethod
    def of(cls, call: Mapping[str, Any], workspace: Workspace) -> ToolCall:
        """A tool call of the protocol, with its locations and the files of its diffs."""
        return cls(
            kind=_kind(call.get("kind")),
            paths=tuple(_relative(path, workspace) for path in named_paths(call)),
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
