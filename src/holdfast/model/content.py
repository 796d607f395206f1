"""What a message says or does, by kind.

A content is JSON with a `type`. The kinds below are typed; any other JSON is kept as
`JsonContent`, byte for byte, so that what a newer agent says survives an older Holdfast. A
content is *open* while more of it is expected: text still streaming, a tool still running.
"""

from __future__ import annotations

import re
from itertools import accumulate
from typing import Any, ClassVar

import msgspec

from holdfast.errors import InvalidInput

MAX_DEPTH = 200
"""Levels of nesting in JSON that is kept. Reading recurses, and Python ends that near a thousand."""

_BLANKS = b" \t\r\n"
_STRINGS = re.compile(rb'"(?:[^"\\]|\\.)*"')
_STEPS = bytes.maketrans(b"[{]}", bytes((1, 1, 255, 255)))  # as signed bytes: a level deeper, a level up
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))


class _Kind(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, tag_field="type"):
    @property
    def open(self) -> bool:
        """Whether more of this content is expected."""
        return False


class TextContent(_Kind, frozen=True, kw_only=True, tag="text"):
    text: str
    partial: bool | None = None
    """True while more chunks are expected. An agent's text always says; a person's has none."""

    @property
    def open(self) -> bool:
        return self.partial is True


class ThoughtContent(_Kind, frozen=True, kw_only=True, tag="thought"):
    text: str
    partial: bool | None = None

    @property
    def open(self) -> bool:
        return self.partial is True


STREAMED = frozenset({"text", "thought"})
"""The kinds that are said bit by bit."""


class PlanContent(_Kind, frozen=True, kw_only=True, tag="plan"):
    steps: tuple[Any, ...]


class ToolContent(_Kind, frozen=True, kw_only=True, tag="tool"):
    tool: str
    args: Any
    result: Any = None
    status: str | None = None
    """`pending` and `in_progress` are open; none means that the call is over."""
    tool_call_id: str | None = None
    title: str | None = None
    kind: str | None = None
    content: tuple[Any, ...] = ()
    """Output to show: text, diffs, terminals."""
    locations: tuple[Any, ...] = ()
    meta: dict[str, Any] | None = msgspec.field(default=None, name="_meta")
    """What the agent added for itself."""

    OPEN_STATUSES: ClassVar[frozenset[str]] = frozenset({"pending", "in_progress"})

    @property
    def open(self) -> bool:
        return self.status in self.OPEN_STATUSES


class ResourceContent(_Kind, frozen=True, kw_only=True, tag="resource"):
    uri: str
    name: str | None = None
    mime_type: str | None = None
    text: str | None = None
    blob: str | None = None


class QuestionContent(_Kind, frozen=True, kw_only=True, tag="question"):
    question_set_id: str
    kind: str = "question"
    questions: tuple[Any, ...] = ()
    status: str | None = None
    """`pending` is open; then how the set ended. Older messages say nothing of it."""
    answers: tuple[Any, ...] = ()
    answered_by: str | None = None
    answered_from: str | None = None
    answered_at: str | None = None
    rejection_reason: str | None = None

    @property
    def open(self) -> bool:
        return self.status == "pending"


class CompactionContent(_Kind, frozen=True, kw_only=True, tag="compaction"):
    compaction_id: str
    summary: str
    first_seq: int
    last_seq: int


class JsonContent:
    """Content of a kind this program does not know: its JSON, unchanged."""

    __slots__ = ("json",)

    def __init__(self, json: bytes | str) -> None:
        self.json = json.encode() if isinstance(json, str) else bytes(json)

    @classmethod
    def of(cls, value: Any) -> JsonContent:
        return cls(encode_json(value, "content"))

    @property
    def value(self) -> Any:
        return msgspec.json.decode(self.json)

    @property
    def open(self) -> bool:
        return False

    def __eq__(self, other: object) -> bool:
        return isinstance(other, JsonContent) and self.json == other.json

    def __hash__(self) -> int:
        return hash(self.json)

    def __repr__(self) -> str:
        return f"JsonContent({self.json!r})"


Content = (
    TextContent
    | ThoughtContent
    | PlanContent
    | ToolContent
    | ResourceContent
    | QuestionContent
    | CompactionContent
    | JsonContent
)

_DECODERS: dict[str, msgspec.json.Decoder[Any]] = {
    kind.__struct_config__.tag: msgspec.json.Decoder(kind)
    for kind in (
        TextContent,
        ThoughtContent,
        PlanContent,
        ToolContent,
        ResourceContent,
        QuestionContent,
        CompactionContent,
    )
    if isinstance(kind.__struct_config__.tag, str)
}


class _Tagged(msgspec.Struct):
    type: Any = None


class _Progress(msgspec.Struct):
    """The fields by which a content of any kind is open."""

    partial: Any = None
    status: Any = None


_peek = msgspec.json.Decoder(_Tagged)
_progress = msgspec.json.Decoder(_Progress)


def content_type(json: bytes | msgspec.Raw) -> str | None:
    """The kind that a content says it is, without decoding the rest."""
    try:
        said = _peek.decode(json).type
    except msgspec.ValidationError:  # no object
        return None
    return said if isinstance(said, str) else None


def decode_content(json: bytes | str) -> Content:
    """The typed content of `json`; `JsonContent` for an unknown kind, or a known one in another shape."""
    try:
        decoder = _DECODERS.get(_peek.decode(json).type)
        return JsonContent(json) if decoder is None else decoder.decode(json)
    except (msgspec.ValidationError, TypeError):
        return JsonContent(json)


def is_open(json: bytes | msgspec.Raw) -> bool:
    """Whether more of a content is expected; most are over, and need not be decoded to know it."""
    try:
        progress = _progress.decode(json)
    except msgspec.ValidationError:  # no object
        return False
    if progress.partial is not True and progress.status is None:
        return False
    return decode_content(bytes(json)).open


def encode_content(content: Content) -> bytes:
    """The JSON of `content`; that of a `JsonContent` is given back unchanged but for blanks around it."""
    if not isinstance(content, JsonContent):
        return encode_json(content, "content")
    return checked_json(content.json.strip(_BLANKS), "content")


def checked_json(json: bytes | msgspec.Raw, what: str) -> bytes:
    """One JSON value in UTF-8 that every reader can decode."""
    json = bytes(json)
    try:
        msgspec.json.decode(json, type=msgspec.Raw)
        json.decode()
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise InvalidInput(f"The {what} is not valid JSON in UTF-8.") from None
    if _is_deep(json):
        raise InvalidInput(f"The {what} is nested too deeply; at most {MAX_DEPTH} levels are kept.")
    return json


def encode_json(value: Any, what: str, *, depth: int = MAX_DEPTH) -> bytes:
    try:
        json = msgspec.json.encode(value)
    except (TypeError, ValueError, RecursionError) as error:  # UnicodeEncodeError is a ValueError
        raise InvalidInput(f"The {what} cannot be written as JSON: {error}.") from None
    if _is_deep(json, depth):
        raise InvalidInput(f"The {what} is nested too deeply; at most {MAX_DEPTH} levels are kept.")
    return json


def _is_deep(json: bytes, depth: int = MAX_DEPTH) -> bool:
    """Whether JSON has more levels than every reader can follow, however deep it was called itself."""
    if json.count(b"[") + json.count(b"{") <= depth:
        return False
    steps = _STRINGS.sub(b"", json).translate(_STEPS, delete=_NO_BRACKETS)
    return max(accumulate(memoryview(steps).cast("b")), default=0) > depth


def interrupted(content: Any) -> Any:
    """The JSON object of an open content as it stands when its writer is gone for good."""
    if content.get("type") in (ToolContent.__struct_config__.tag, QuestionContent.__struct_config__.tag):
        return content | {"status": "interrupted"}
    return content | {"partial": False}
