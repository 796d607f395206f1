"""The properties that a form may have, each with its rules: what can be chosen, and what a text means.

They are those that the protocol allows: texts, numbers, yes or no, and choices. None is never a
value of theirs and means that there is none.
"""

from __future__ import annotations

import asyncio
import math
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from datetime import date, datetime
from typing import Any

import msgspec

from holdfast.agents.labels import shown

LARGEST_INTEGER = 2**53
"""Beyond it, not every program reads the same number from the same JSON."""

PATTERN_SECONDS = 2.0
"""How long an agent's pattern may take to judge a text; after that, the agent has to judge it itself."""


class Choice(msgspec.Struct, frozen=True):
    label: str
    value: Any
    description: str | None = None


class _Shape(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    pass


class _Property(_Shape, frozen=True, kw_only=True, tag_field="type"):
    title: str | None = None
    description: str | None = None

    @property
    def choices(self) -> list[Choice]:
        """The values to choose from; none where any value of the type will do."""
        return []

    @property
    def expected(self) -> str:
        """What an answer must be, in words; nothing when every text will do."""
        return "one of the choices"

    async def parsed(self, text: str) -> Any:
        """The value of a text that is none of the choices; ValueError when it has none."""
        raise ValueError(text)


class _Titled(_Shape, frozen=True, kw_only=True):
    const: str
    title: str = ""
    description: str | None = None


class StringProperty(_Property, frozen=True, kw_only=True, tag="string"):
    default: str | None = None
    min_length: int | None = None
    max_length: int | None = None
    pattern: str | None = None
    format: str | None = None
    enum: tuple[str, ...] | None = None
    one_of: tuple[_Titled, ...] | None = None

    @property
    def choices(self) -> list[Choice]:
        return _choices(self.enum, self.one_of)

    @property
    def expected(self) -> str:
        if self.choices:
            return "one of the choices"
        known = _FORMATS.get(self.format or "")
        length = _range(self.min_length, self.max_length)
        parts = (
            known[0] if known else "a text" if length or self.pattern else "",
            f"of {length} characters" if length else "",
            f"that matches {self.pattern}" if self.pattern else "",
        )
        return shown(" ".join(filter(None, parts)))

    async def parsed(self, text: str) -> str:
        if self.choices or not between(self.min_length, len(text), self.max_length):
            raise ValueError(text)
        if known := _FORMATS.get(self.format or ""):
            known[1](text)
        if self.pattern and not await asyncio.to_thread(_fits_pattern, self.pattern, text):
            raise ValueError(text)
        return text


class NumberProperty(_Property, frozen=True, kw_only=True, tag="number"):
    default: float | None = None
    minimum: float | None = None
    maximum: float | None = None

    @property
    def expected(self) -> str:
        return f"a number {_range(self.minimum, self.maximum)}".strip()

    async def parsed(self, text: str) -> float:
        number = float(text)
        if not math.isfinite(number) or not between(self.minimum, number, self.maximum):
            raise ValueError(text)
        return number


class IntegerProperty(_Property, frozen=True, kw_only=True, tag="integer"):
    default: int | None = None
    minimum: int | None = None
    maximum: int | None = None

    @property
    def expected(self) -> str:
        return f"a whole number {_range(self.minimum, self.maximum)}".strip()

    async def parsed(self, text: str) -> int:
        number = int(text)
        if abs(number) > LARGEST_INTEGER or not between(self.minimum, number, self.maximum):
            raise ValueError(text)
        return number


class BooleanProperty(_Property, frozen=True, kw_only=True, tag="boolean"):
    default: bool | None = None

    @property
    def choices(self) -> list[Choice]:
        return [Choice("Yes", True), Choice("No", False)]

    async def parsed(self, text: str) -> bool:
        word = text.strip().lower()
        if word not in _TRUTHS:
            raise ValueError(text)
        return _TRUTHS[word]


class _Items(_Shape, frozen=True, kw_only=True):
    enum: tuple[str, ...] | None = None
    any_of: tuple[_Titled, ...] | None = None


class ArrayProperty(_Property, frozen=True, kw_only=True, tag="array"):
    """Several of some choices. It is answered by choosing; a text can name one of them."""

    items: _Items
    default: tuple[str, ...] | None = None
    min_items: int | None = None
    max_items: int | None = None

    @property
    def choices(self) -> list[Choice]:
        return _choices(self.items.enum, self.items.any_of)

    @property
    def expected(self) -> str:
        return f"{_range(self.min_items, self.max_items) or 'any number'} of the choices"


Property = StringProperty | NumberProperty | IntegerProperty | BooleanProperty | ArrayProperty

TYPES = frozenset({"string", "number", "integer", "boolean", "array"})


def between(least: float | None, number: float, most: float | None) -> bool:
    return (least is None or number >= least) and (most is None or number <= most)


def _choices(values: Sequence[str] | None, titled: Sequence[_Titled] | None) -> list[Choice]:
    choices = [Choice(each.title or each.const, each.const, each.description) for each in titled or ()]
    return choices or [Choice(value, value) for value in values or ()]


def _range(least: float | None, most: float | None) -> str:
    if least is None:
        return "" if most is None else f"at most {most:.15g}"
    return f"at least {least:.15g}" if most is None else f"{least:.15g} to {most:.15g}"


def _shaped_as(pattern: str) -> Callable[[str], None]:
    def check(text: str) -> None:
        if re.fullmatch(pattern, text) is None:
            raise ValueError(text)

    return check


_FORMATS: dict[str, tuple[str, Callable[[str], object]]] = {
    "email": ("an e-mail address", _shaped_as(r"[^@\s]+@[^@\s]+")),
    "uri": ("a URI, such as https://example.org", _shaped_as(r"[A-Za-z][A-Za-z0-9+.-]*:\S+")),
    "date": ("a date, such as 2026-01-31", date.fromisoformat),
    "date-time": ("a date and time, such as 2026-01-31T12:00:00Z", datetime.fromisoformat),
}
"""Each format in words, and a function that raises ValueError for a text that has another one."""

_TRUTHS = {"yes": True, "true": True, "no": False, "false": False}

_SEARCH = """
import json, re, sys
pattern, text = json.load(sys.stdin)
sys.exit(0 if re.search(pattern, text) else 3)
"""
_NO_MATCH = 3


def _fits_pattern(pattern: str, text: str) -> bool:
    """Whether a text matches an agent's pattern. What cannot be judged here is left to the agent.

    A process of its own judges, because some patterns take for ever and nothing else can be stopped.
    """
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-c", _SEARCH],
            input=msgspec.json.encode([pattern, text]),
            capture_output=True,
            timeout=PATTERN_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired):
        return True
    return done.returncode != _NO_MATCH
