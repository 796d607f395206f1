"""Tokens used."""

from __future__ import annotations

import msgspec

from holdfast.errors import InvalidInput


class TokenUsage(msgspec.Struct, frozen=True):
    input: int = 0
    output: int = 0

    def __post_init__(self) -> None:
        if self.input < 0 or self.output < 0:
            raise InvalidInput("Token usage cannot be negative.")

    def __add__(self, other: TokenUsage) -> TokenUsage:
        return TokenUsage(self.input + other.input, self.output + other.output)
