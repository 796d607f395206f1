"""Counting tokens offline: exactly with a tokenizer, or by an estimate that needs none.

The tokenizer is splintr's (the extra `tokens`), which carries its vocabularies with it. It is tried
against known counts before it is used, because a tokenizer without its vocabulary may count bytes
and say nothing.

The estimate weighs the bytes of a text by their class. No text has more tokens of a byte-level
vocabulary than it has bytes, and the estimate never says so either. On English, Russian and Chinese
prose, code, JSON and logs it lies between 0.75 and 2.2 times the count of o200k. A vocabulary knows
other scripts well or hardly at all, which bytes do not tell: there it was measured between 0.25
(runs of accented letters, pointed Hebrew, rare Chinese characters) and 3.2 times (Georgian).
"""

from __future__ import annotations

from functools import lru_cache
from importlib.util import find_spec
from typing import Any

from holdfast.errors import HoldfastError, MissingExtra
from holdfast.model.tokens import TokenCounter

DEFAULT_ENCODING = "o200k_base"

KNOWN_COUNTS = {
    "o200k_base": {"tiktoken is great!": 6, "antidisestablishmentarianism": 6, "お誕生日おめでとう": 8},
    "cl100k_base": {"tiktoken is great!": 6, "antidisestablishmentarianism": 6, "お誕生日おめでとう": 9},
}
"""Texts whose counts OpenAI has published."""


class UnusableTokenizer(HoldfastError):
    """A tokenizer that does not count as it should."""

    code = "unusable_tokenizer"


class ExactCounter:
    """The count of a vocabulary's own tokenizer."""

    def __init__(self, encoding: str = DEFAULT_ENCODING) -> None:
        self.name = encoding
        self._encode = _tokenizer(encoding).encode_ordinary

    def count(self, text: str) -> int:
        return len(self._encode(text))


class EstimatingCounter:
    """The estimate, which errs on the side of too many."""

    name = "estimate"

    def count(self, text: str) -> int:
        raw = text.encode("utf-8", "surrogatepass")
        total = sum(weight * (len(raw) - len(raw.translate(None, members))) for members, weight in _WEIGHTS)
        return min(len(raw), -int(-total * _MARGIN // 1))


def default_counter() -> TokenCounter:
    """The exact counter where its tokenizer is installed, else the estimate."""
    return ExactCounter() if find_spec("splintr") else EstimatingCounter()


@lru_cache(maxsize=4)
def _tokenizer(encoding: str) -> Any:
    if find_spec("splintr") is None:
        raise MissingExtra("Exact token counts", "tokens")
    from splintr import Tokenizer

    tokenizer = Tokenizer.from_pretrained(encoding)
    for text, count in KNOWN_COUNTS.get(encoding, {}).items():
        if (counted := len(tokenizer.encode_ordinary(text))) != count:
            raise UnusableTokenizer(
                f"The tokenizer {encoding!r} counts {counted} tokens in {text!r} where there are {count}; "
                "install splintr-rs again."
            )
    return tokenizer


_MARGIN = 1.15

_WEIGHTS = (
    (bytes(range(ord("a"), ord("z") + 1)), 0.223),
    (bytes(range(ord("A"), ord("Z") + 1)), 0.763),
    (bytes(range(ord("0"), ord("9") + 1)), 0.752),
    (b" ", 0.036),
    (b"\n\t\r", 0.15),
    (bytes(n for n in range(33, 127) if not chr(n).isalnum()), 0.396),
    (bytes([*range(0x00, 0x09), 0x0B, 0x0C, *range(0x0E, 0x20), 0x7F]), 1.0),
    # The first byte of a character of two, three and four bytes; the others weigh nothing.
    (bytes(range(0xC0, 0xE0)), 0.253),
    (bytes(range(0xE0, 0xF0)), 0.788),
    (bytes(range(0xF0, 0x100)), 2.0),
)
"""Tokens per byte by its class, fitted to o200k."""
