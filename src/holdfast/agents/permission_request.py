"""An agent's request for permission, `session/request_permission` of ACP, as a question to a person."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from holdfast.agents.labels import shown, unique_labels
from holdfast.agents.permissions import named_paths
from holdfast.agents.wire import INVALID_PARAMS, Refusal
from holdfast.model.question import Option, Question

MEANINGS = {
    "allow_once": "Allow this time only",
    "allow_always": "Allow now, and do not ask again",
    "reject_once": "Refuse this time only",
    "reject_always": "Refuse now, and do not ask again",
}

QUOTES = "`'\"(),:;"
"""What agents put around a name or a command in a title."""

ALLOWING = ("allow_once", "allow_always")
REFUSING = ("reject_once", "reject_always")


class PermissionOption(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    option_id: str
    name: str
    kind: str

    @property
    def outcome(self) -> str:
        """What it comes to when this option is taken."""
        return "allowed" if self.kind in ALLOWING else "denied" if self.kind in REFUSING else "answered"


class PermissionRequest(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    tool_call: dict[str, Any]
    options: tuple[PermissionOption, ...]

    def __post_init__(self) -> None:
        if not self.options:
            raise Refusal(INVALID_PARAMS, "A permission request needs at least one option to choose from.")

    def completed(self, known: Callable[[str], Mapping[str, Any]]) -> PermissionRequest:
        """The request with what was said of its tool call before: agents do not repeat all of it."""
        call_id = self.tool_call.get("toolCallId")
        before = known(call_id) if isinstance(call_id, str) else {}
        said = {name: value for name, value in self.tool_call.items() if value is not None}
        return msgspec.structs.replace(self, tool_call={**before, **said})

    @property
    def allowing(self) -> PermissionOption | None:
        """The option that allows least, if any does."""
        return self._first(ALLOWING)

    @property
    def refusing(self) -> PermissionOption | None:
        """The option that refuses least, if any does."""
        return self._first(REFUSING)

    @property
    def title(self) -> str:
        title = self.tool_call.get("title")
        return (shown(title) if isinstance(title, str) else "") or "Use a tool"

    @property
    def paths(self) -> list[str]:
        """The files that it is about, as the agent names them."""
        named = (shown(path) for path in named_paths(self.tool_call) if isinstance(path, str))
        return list(dict.fromkeys(filter(None, named)))

    def question(self, agent: str) -> Question:
        """Says all that a person must know to decide, for places where only the question is shown."""
        lines = [f"{agent} asks for permission: {self.title}"]
        if (command := self._given("command")) not in ("", self.title, self.title.strip(QUOTES)):
            lines.append(f"Command: {command}")
        if directory := self._given("cwd"):
            lines.append(f"Directory: {directory}")
        named = {word.strip(QUOTES) for word in self.title.split()}
        if paths := [path for path in self.paths if path not in named]:
            lines.append(f"Files: {', '.join(paths)}")
        options = zip(self._labels(), self.options, strict=True)
        return Question(
            title="Permission",
            prompt="\n".join(lines),
            options=tuple(Option(label, MEANINGS.get(option.kind)) for label, option in options),
        )

    def option(self, label: str) -> PermissionOption:
        """The option that has this label in the question."""
        return self.options[self._labels().index(label)]

    def _labels(self) -> tuple[str, ...]:
        return unique_labels([option.name for option in self.options])

    def _first(self, kinds: tuple[str, ...]) -> PermissionOption | None:
        return next((option for kind in kinds for option in self.options if option.kind == kind), None)

    def _given(self, name: str) -> str:
        """An input of the tool, as it would be typed; empty when there is none."""
        given = self.tool_call.get("rawInput")
        value = given.get(name) if isinstance(given, Mapping) else None
        if isinstance(value, list | tuple):
            return shown(shlex.join(map(str, value)))
        return shown(value) if isinstance(value, str) else ""
