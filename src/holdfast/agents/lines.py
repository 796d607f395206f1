"""Lines that an agent wrote, before anything is made of them.

JSON parsers disagree about what they let pass. What is stored here must be readable for all of
them, so a line that is not text throughout is mended, and one that is nested too deep is told.
"""

from __future__ import annotations

import re
from itertools import accumulate

MAX_DEPTH = 200
"""How deep the JSON of a line may be nested: readers of what is stored may have less stack than we."""

_STRING = re.compile(rb'"(?:[^"\\]|\\.)*+"')
_ALL_BUT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_ESCAPE = re.compile(rb"\\(?:u(?:d[89ab]..\\ud[c-f]..|d[89a-f]..)|.)", re.IGNORECASE)
_HALF_A_PAIR = 6
"""Bytes of an escape that is one half of a surrogate pair, without the other half."""


def depth(raw: bytes) -> int:
    """How deep a line is nested; at most that, if it is short or has few brackets."""
    if len(raw) <= MAX_DEPTH:
        return len(raw)
    opening = raw.count(b"[") + raw.count(b"{")
    if opening <= MAX_DEPTH:
        return opening
    brackets = _STRING.sub(b"", raw).translate(None, _ALL_BUT_BRACKETS)
    return max(accumulate(1 if bracket in b"[{" else -1 for bracket in brackets), default=0)


def mended(raw: bytes) -> bytes:
    """The line, with U+FFFD for what is no text: agents cut texts in the middle of a character."""
    if not raw.isascii():
        raw = raw.decode(errors="replace").encode()
    if b"\\ud" in raw or b"\\uD" in raw:
        raw = _ESCAPE.sub(lambda found: rb"\ufffd" if len(found[0]) == _HALF_A_PAIR else found[0], raw)
    return raw
