"""The messages that are measured, in the two shapes that the two sides take.

A message's payload is its JSON as the public interface gives it, without `seq` and `rev`, which a
store adds. The small one is 500 bytes of which 310 are text, the large one 4,096 of which 3,906 are.
The floor stores the very same JSON.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec

from holdfast import Message
from holdfast.model.ids import MessageId
from holdfast.model.message import message_body

WORDS = "The quick brown fox jumps over the lazy dog, and the dog dreams on. "
AROUND_THE_TEXT = 190
"""Bytes of the id, the role, the timestamp, the metadata and the JSON's own signs."""


class Sample(NamedTuple):
    message: Message
    """What is handed to our store. It has no id yet: giving it one is the store's work."""
    plain: dict[str, Any]
    """What is handed to the floor, complete."""
    size: int
    """Bytes of payload."""


def sample(size: int) -> Sample:
    length = size - AROUND_THE_TEXT
    text = (WORDS * (length // len(WORDS) + 1))[:length]
    bare = _stored(Message.user(text, metadata={"padding": ""}))
    message = Message.user(text, metadata={"padding": "." * (size - len(bare))})
    stored = _stored(message)
    assert len(stored) == size
    return Sample(message, msgspec.json.decode(stored), size)


def _stored(message: Message) -> bytes:
    """The JSON of a message once it is stored."""
    identity = MessageId("01900000-0000-7000-8000-000000000000")
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    return message_body(msgspec.structs.replace(message, id=identity, timestamp=moment))


SMALL = sample(500)
LARGE = sample(4096)
