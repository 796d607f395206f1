"""Public ids: UUIDs as text at every edge, sixteen bytes inside a database.

The model makes no ids of its own (that takes a clock); the store does.
"""

from __future__ import annotations

from typing import NewType

from holdfast.errors import InvalidInput

SessionId = NewType("SessionId", str)
MessageId = NewType("MessageId", str)
TurnId = NewType("TurnId", str)
CompactionId = NewType("CompactionId", str)
RepoId = NewType("RepoId", str)
TokenId = NewType("TokenId", str)
ContextId = NewType("ContextId", str)


def id_bytes(text: str, what: str = "id") -> bytes:
    """The sixteen bytes of a UUID's text form."""
    try:
        raw = bytes.fromhex(text.replace("-", ""))
    except ValueError:
        raw = b""
    if len(raw) != 16:
        raise InvalidInput(f"{text!r} is not a valid {what}: it must be a UUID.")
    return raw


def id_text(raw: bytes) -> str:
    """The canonical text form of a UUID's sixteen bytes."""
    h = raw.hex()
    return f"{h[:8]}-{h[8:12]}-{h[12:16]}-{h[16:20]}-{h[20:]}"
