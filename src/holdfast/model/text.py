"""Checks for text that goes into a column of its own."""

from __future__ import annotations

from enum import Enum
from typing import Any, TypeVar

from msgspec.structs import astuple

from holdfast.errors import InvalidInput

MAX_TEXT = 20_000
"""Characters in a text that comes with every listing of what it is about."""

MAX_LABEL = 512
"""Characters in an id-like text (agent, channel, peer, user, …): ample, and every index stays small."""


Choice = TypeVar("Choice", bound=Enum)


def one_of(choices: type[Choice], value: object, what: str) -> Choice:
    """`value` as one of `choices`, which may be given by its text."""
    try:
        return choices(value)
    except ValueError:
        known = ", ".join(choice.value for choice in choices)
        raise InvalidInput(f"{str(value)!r} is not a {what}; it is one of {known}.") from None


def label(value: str, what: str) -> str:
    """`value`, if it can name something: not empty, storable, and short enough to index."""
    if not value:
        raise InvalidInput(f"The {what} must not be empty.")
    if len(value) > MAX_LABEL:
        raise InvalidInput(f"The {what} has {len(value)} characters; at most {MAX_LABEL} are allowed.")
    return storable(value, what)


def storable(value: str, what: str) -> str:
    """`value`, if both engines can keep it: no NUL, and valid Unicode."""
    if "\0" in value:
        raise InvalidInput(f"The {what} contains a NUL character, which cannot be stored.")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise InvalidInput(f"The {what} is not valid Unicode: half of a surrogate pair is in it.") from None
    return value


def readable(text: str) -> str:
    """`text` without what cannot be stored."""
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}").encode(errors="replace").decode()


def short_fields(record: Any) -> None:
    """Check every text field of a struct that comes with listings."""
    storable_fields(record)
    for place, value in enumerate(astuple(record)):
        if isinstance(value, str) and len(value) > MAX_TEXT:
            name = record.__struct_fields__[place].replace("_", " ")
            raise InvalidInput(f"The {name} has {len(value):,} characters; at most {MAX_TEXT:,} are kept.")


def storable_fields(record: Any) -> None:
    """Check every text field of a struct."""
    for place, value in enumerate(astuple(record)):
        if isinstance(value, str):
            storable(value, record.__struct_fields__[place].replace("_", " "))
