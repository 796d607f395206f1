"""New public ids: UUIDv7, whose order is that of their making, so that an index on them grows at its end."""

from __future__ import annotations

import uuid_utils


def new_id() -> str:
    return str(uuid_utils.uuid7())
