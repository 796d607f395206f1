"""Moments: aware datetimes in Python, milliseconds in a database, ISO-8601 with `Z` on the wire."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from holdfast.errors import InvalidInput

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


def to_ms(moment: datetime) -> int:
    if moment.tzinfo is None:
        raise InvalidInput(f"{moment.isoformat()} has no time zone; give one, for instance UTC.")
    return (moment - _EPOCH) // _MILLISECOND


def from_ms(ms: int) -> datetime:
    return _EPOCH + timedelta(milliseconds=ms)


def iso(moment: datetime) -> str:
    """`2026-11-15T23:20:00.123Z`: always UTC, always milliseconds."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1000:03d}Z"
