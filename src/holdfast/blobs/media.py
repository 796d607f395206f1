"""What kind of bytes a blob holds, as far as that can be told from them."""

from __future__ import annotations

import msgspec

JSON = "application/json"
TEXT = "text/plain; charset=utf-8"
BINARY = "application/octet-stream"


def media_type(data: bytes) -> str:
    """JSON only when it is an object or an array: a number or a quoted word is more likely a text."""
    try:
        data.decode()
    except UnicodeDecodeError:
        return BINARY
    if data.lstrip()[:1] not in (b"{", b"["):
        return TEXT
    try:
        msgspec.json.decode(data, type=msgspec.Raw)
    except msgspec.DecodeError:
        return TEXT
    return JSON
