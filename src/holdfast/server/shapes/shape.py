"""What all shapes have in common."""

from __future__ import annotations

from datetime import datetime

import msgspec

from holdfast.model.times import iso


class Shape(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    pass


def moment_text(moment: datetime | None) -> str | None:
    return None if moment is None else iso(moment)
