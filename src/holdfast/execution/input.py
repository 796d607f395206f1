"""What is executed, whichever client asked: the requests of all kinds of clients become one input.

- A **browser** sends what a person wrote, and the files they gave it.
- The **thin CLI** sends files as it read them itself, and says no more than it must.
- A **thick client**, an editor, says which files are open and which are changed, and leaves out the
  content of those that the server can read in the repository.

After `normalized` nobody knows which client called.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import msgspec

from holdfast.errors import InvalidInput
from holdfast.model.ids import SessionId, id_bytes
from holdfast.model.path import relative_path
from holdfast.model.text import label, storable
from holdfast.retrieval.languages import TEXT, language_of

MAX_INSTRUCTION = 1_000_000
"""Characters. What is longer is a file."""

MAX_FILES = 200


class Mode(StrEnum):
    ASK = "ask"
    EDIT = "edit"


class ActiveFile(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """A file that the person is working on."""

    path: str
    """Relative to its repository, with forward slashes."""
    content: str | None = None
    """None where the client only names it: then it is read from the repository."""
    is_touched: bool = False
    """Whether it was changed and not yet committed."""

    def __post_init__(self) -> None:
        relative_path(self.path)


class ExecutionInput(msgspec.Struct, frozen=True, kw_only=True):
    """An instruction and everything that was said with it."""

    instruction: str
    agent_context: str | None = None
    """Its id or name; that of the session, or the default, where none is given."""
    conversation_context: str | None = None
    session_id: SessionId | None = None
    mode: Mode = Mode.ASK
    workspace_id: str | None = None
    repository: str | None = None
    language: str | None = None
    active_files: tuple[ActiveFile, ...] = ()

    def __post_init__(self) -> None:
        if not self.instruction.strip():
            raise InvalidInput("The instruction is empty; say what is wanted.")
        if len(self.instruction) > MAX_INSTRUCTION:
            raise InvalidInput(
                f"The instruction has {len(self.instruction):,} characters, and {MAX_INSTRUCTION:,} are the "
                "most; put the long part into a file."
            )
        storable(self.instruction, "instruction")
        for name in ("agent_context", "conversation_context", "workspace_id", "repository", "language"):
            if (value := getattr(self, name)) is not None:
                label(value, name.replace("_", " "))
        if self.session_id is not None:
            id_bytes(self.session_id, "session id")
        if len(self.active_files) > MAX_FILES:
            raise InvalidInput(f"{len(self.active_files)} files came along; at most {MAX_FILES} can be sent.")


class ClientRequest(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """What the requests of all clients may say."""

    instruction: str
    agent_context_id: str | None = None
    conversation_context_id: str | None = None
    session_id: str | None = None
    mode: Mode = Mode.ASK
    workspace_id: str | None = None
    repo: str | None = None
    language: str | None = None
    active_files: tuple[ActiveFile, ...] = ()

    def input(self) -> ExecutionInput:
        """Of a file that came twice, the last counts."""
        return ExecutionInput(
            instruction=self.instruction,
            agent_context=self.agent_context_id,
            conversation_context=self.conversation_context_id,
            session_id=SessionId(self.session_id) if self.session_id is not None else None,
            mode=self.mode,
            workspace_id=self.workspace_id,
            repository=self.repo,
            language=self.language,
            active_files=tuple({file.path: file for file in self.active_files}.values()),
        )


class CliRequest(ClientRequest, frozen=True, kw_only=True):
    """Says no more than it must: without a language, it is that of most of the files."""

    def input(self) -> ExecutionInput:
        return msgspec.structs.replace(super().input(), language=self.language or self._language())

    def _language(self) -> str | None:
        found = Counter(language_of(file.path) for file in self.active_files)
        del found[TEXT]
        return found.most_common(1)[0][0] if found else None


SHAPES: Mapping[str, type[ClientRequest]] = {
    "browser": ClientRequest,
    "cli": CliRequest,
    "thick": ClientRequest,
}
"""The shapes by `clientType`; a request that names none is a browser's."""


def normalized(request: Mapping[str, Any]) -> ExecutionInput:
    """The one input that a client's request means."""
    given = dict(request)
    client = given.pop("clientType", None) or "browser"
    shape = SHAPES.get(client)
    if shape is None:
        raise InvalidInput(f"{client!r} is no kind of client; it is one of {', '.join(SHAPES)}.")
    try:
        return msgspec.convert(given, shape).input()
    except msgspec.ValidationError as error:
        raise InvalidInput(f"The request cannot be understood: {error}.") from None
