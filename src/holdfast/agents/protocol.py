"""The parts of the Agent Client Protocol that are looked at. Everything else is kept as it came.

Shapes are read leniently: unknown fields are ignored here and kept where the update itself is
stored; a known kind in another shape counts as unknown.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from holdfast.model.text import MAX_LABEL
from holdfast.model.usage import TokenUsage

VERSION = 1


def client_capabilities(*, reads: bool = True) -> dict[str, Any]:
    """What an agent may ask of us. One that reads files itself may still write them through us."""
    return {
        "fs": {"readTextFile": reads, "writeTextFile": True},
        "terminal": True,
        "elicitation": {"form": {}, "url": {}},
    }


MAX_TOKENS = 10**12
"""The greatest number of tokens that a turn is believed to have used."""

Meta = dict[str, Any]


class _Shape(msgspec.Struct, rename="camel", kw_only=True):
    pass


# What an agent reports


class _Update(_Shape, tag_field="sessionUpdate", kw_only=True):
    meta: Meta | None = msgspec.field(default=None, name="_meta")


class Block(_Shape, kw_only=True):
    """A block of content; only text is looked into."""

    type: str
    text: str = ""


class _Chunk(_Update, kw_only=True):
    content: Block
    message_id: str | None = None

    @property
    def is_empty(self) -> bool:
        """Whether it says nothing at all: agents send such chunks, some only for their `_meta`."""
        return self.content.type == "text" and not self.content.text and not self.meta


class AgentChunk(_Chunk, tag="agent_message_chunk"):
    pass


class ThoughtChunk(_Chunk, tag="agent_thought_chunk"):
    pass


class UserChunk(_Chunk, tag="user_message_chunk"):
    pass


class ToolCallFields(_Shape, kw_only=True):
    """A tool call, or what changed of one: absent fields stay as they were."""

    tool_call_id: str
    title: str | None = None
    kind: str | None = None
    status: str | None = None
    content: tuple[Any, ...] | None = None
    locations: tuple[Any, ...] | None = None
    raw_input: Any = None
    raw_output: Any = None
    meta: Meta | None = msgspec.field(default=None, name="_meta")


class ToolCallStart(ToolCallFields, tag_field="sessionUpdate", tag="tool_call", kw_only=True):
    pass


class ToolCallProgress(ToolCallFields, tag_field="sessionUpdate", tag="tool_call_update", kw_only=True):
    pass


class Plan(_Update, tag="plan", kw_only=True):
    entries: tuple[Any, ...]


class Commands(_Update, tag="available_commands_update", kw_only=True):
    available_commands: list[Any]


class CurrentMode(_Update, tag="current_mode_update", kw_only=True):
    current_mode_id: str


class ConfigOptions(_Update, tag="config_option_update", kw_only=True):
    config_options: list[Any]


class SessionInfo(_Update, tag="session_info_update", kw_only=True):
    title: str | None = None


class ContextUsage(_Update, tag="usage_update", kw_only=True):
    used: int
    size: int
    cost: Any = None


Update = (
    AgentChunk
    | ThoughtChunk
    | UserChunk
    | ToolCallStart
    | ToolCallProgress
    | Plan
    | Commands
    | CurrentMode
    | ConfigOptions
    | SessionInfo
    | ContextUsage
)


class _Notification(_Shape, kw_only=True):
    update: Update


class _RawNotification(_Shape, kw_only=True):
    update: msgspec.Raw


_decode_notification = msgspec.json.Decoder(_Notification).decode
_decode_raw = msgspec.json.Decoder(_RawNotification).decode


def decode_update(params: msgspec.Raw) -> Update | None:
    """The update in the parameters of `session/update`; None for a kind or a shape that is not known."""
    try:
        return _decode_notification(params).update
    except msgspec.ValidationError:
        return None


def raw_update(params: msgspec.Raw) -> bytes:
    """The same update, as the agent wrote it."""
    return bytes(_decode_raw(params).update)


# What an agent answers


class Initialized(_Shape, kw_only=True):
    protocol_version: int = VERSION
    agent_info: dict[str, Any] | None = None
    agent_capabilities: dict[str, Any] = {}
    auth_methods: list[Any] = []

    def can(self, method: str) -> bool:
        """Whether the agent says that it can `session/load`, `session/resume`, …"""
        if method == "load":
            return bool(self.agent_capabilities.get("loadSession"))
        offered = self.agent_capabilities.get("sessionCapabilities")
        return isinstance(offered, dict) and offered.get(method) is not None


class Opened(_Shape, kw_only=True):
    """The answer to `session/load` and `session/resume`."""

    modes: dict[str, Any] | None = None
    models: dict[str, Any] | None = None
    config_options: list[Any] | None = None


class NewlyOpened(Opened, kw_only=True):
    """The answer to `session/new`."""

    session_id: Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_LABEL)]


class Prompted(_Shape, kw_only=True):
    """The answer to `session/prompt`: the turn has ended."""

    stop_reason: str = "end_turn"
    usage: Any = None
    meta: Any = msgspec.field(default=None, name="_meta")

    @property
    def session_usage(self) -> TokenUsage | None:
        """What the session has used so far, which is what the protocol counts."""
        return _counted(self.usage, "inputTokens", "outputTokens") if isinstance(self.usage, dict) else None

    def turn_usage(self, before: TokenUsage) -> TokenUsage:
        """What this turn has used, in a session that had used `before`. Gemini CLI says it in `_meta`."""
        total = self.session_usage
        if total is not None:
            counted_anew = total.input < before.input or total.output < before.output
            return (
                total
                if counted_anew
                else TokenUsage(total.input - before.input, total.output - before.output)
            )
        quota = self.meta.get("quota") if isinstance(self.meta, dict) else None
        counts = quota.get("token_count") if isinstance(quota, dict) else None
        return _counted(counts, "input_tokens", "output_tokens") if isinstance(counts, dict) else TokenUsage()


def _counted(counts: dict[str, Any], *names: str) -> TokenUsage:
    """Two counts of tokens; what cannot be a count of tokens is none."""
    used = [counts.get(name) for name in names]
    return TokenUsage(*(n if type(n) is int and 0 < n <= MAX_TOKENS else 0 for n in used))


# What an agent asks for


class ReadFile(_Shape, kw_only=True):
    path: str
    line: int | None = None
    limit: int | None = None


class WriteFile(_Shape, kw_only=True):
    path: str
    content: str


class _NameAndValue(_Shape, kw_only=True):
    name: str
    value: str


class CreateTerminal(_Shape, kw_only=True):
    command: str
    args: list[str] | None = None
    env: list[_NameAndValue] | None = None
    cwd: str | None = None
    output_byte_limit: int | None = None


class NamedTerminal(_Shape, kw_only=True):
    terminal_id: str


class AskingTool(_Shape, kw_only=True):
    """The tool call that a permission is asked for."""

    tool_call: ToolCallFields
