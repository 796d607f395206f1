"""The messages that are measured, in the two shapes that the two sides take.

A message's payload is its JSON as the public interface gives it, without `seq` and `rev`, which a
store adds. The small one is 500 bytes of which 310 are text, the large one 4,096 of which 3,906 are.
The floor stores the very same JSON.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from holdfast import Message

WORDS = "The quick brown fox jumps over the lazy dog, and the dog dreams on. "
AROUND_THE_TEXT = 190
"""Bytes of the id, the role, the timestamp, the metadata and the JSON's own signs."""


class Sample(NamedTuple):
    message: Message
    """What is handed to our store. It has no id yet: giving it one is the store's work."""
    plain: dict[str, Any]
    """What is handed to the floor, complete: what our store gives back, but for `seq` and `rev`."""
    size: int
    """Bytes of payload."""


def sample(size: int) -> Sample:
    length = size - AROUND_THE_TEXT
    text = (WORDS * (length // len(WORDS) + 1))[:length]
    plain: dict[str, Any] = {
        "id": "01900000-0000-7000-8000-000000000000",
        "role": "user",
        "content": {"type": "text", "text": text},
        "timestamp": "2026-01-01T00:00:00.000Z",
        "metadata": {"padding": ""},
    }
    plain["metadata"]["padding"] = "." * (size - len(msgspec.json.encode(plain)))
    return Sample(Message.user(text, metadata=plain["metadata"]), plain, size)


SMALL = sample(500)
LARGE = sample(4096)
