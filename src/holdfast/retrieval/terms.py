"""Code and questions as BM25 vectors: the words that a person would use for what the code does.

An identifier counts as its words and, besides, as a whole: `getUserName` and `get_user_name` are both
`get`, `user`, `name` and `getusername`. Endings are cut off, so that "redirects are followed" meets
`follow_redirect`. A term is a dimension by its CRC-32.

A document's weights are those of BM25 without the rarity of a term, which the index itself knows and
multiplies in when it is asked (Qdrant's `idf` modifier).
"""

from __future__ import annotations

import re
import zlib
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from itertools import chain

from holdfast.retrieval.vectors import SparseVector

TERMS_VERSION = "1"
"""Another one whenever the same text would give another vector."""

K1 = 1.2

B = 0.5
"""Less than the usual 0.75: how long a chunk is, was decided by whoever cut the file."""

AVERAGE_LENGTH = 45.0
"""Terms in a chunk of ordinary source, measured over some Python packages. It is fixed, because weights
that were made with different averages could not be compared."""

SYMBOL_WEIGHT = 3
"""How often a chunk's symbol counts: it was chosen to say what the chunk does."""

_WORD = re.compile(r"\w+")
_PART = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+")

LONGEST = 64
"""A longer word is data, and nobody asks for it."""

_ENGLISH = (
    "a about all also an and any are as at be because been but by can could did do does done for from had "
    "has have how if in into is it its may might more must no not of on one only or other our out over shall "
    "should so some such than that the their them then there these they this those through to under up used "
    "uses using was we were what when where which while who why will with would you your"
)
_KEYWORDS = (
    "async await break case class const continue def del elif else except false finally fn func function "
    "global import int lambda let new nil none null pass private pub public return self static str super "
    "true try undefined var void yield"
)

STOP_WORDS = frozenset(f"{_ENGLISH} {_KEYWORDS}".split())
"""Words that say nothing about what code does."""


def document_vector(path: str, symbol: str | None, text: str) -> SparseVector:
    """The weights of a chunk's terms, of those in its path and its symbol, too."""
    counts = Counter(_dimensions(text))
    counts.update(_dimensions(path))
    for dimension in _dimensions(symbol or ""):
        counts[dimension] += SYMBOL_WEIGHT
    length = K1 * (1 - B + B * counts.total() / AVERAGE_LENGTH)
    weights = {count: count * (K1 + 1) / (count + length) for count in set(counts.values())}
    return SparseVector(list(counts), [weights[count] for count in counts.values()])


def query_vector(text: str) -> SparseVector:
    """Every term of a question counts the same."""
    asked = dict.fromkeys(_dimensions(text), 1.0)
    return SparseVector(list(asked), list(asked.values()))


def terms(text: str) -> Iterator[str]:
    return chain.from_iterable(map(_terms_of, _WORD.findall(text)))


def _dimensions(text: str) -> Iterator[int]:
    return chain.from_iterable(map(_dimensions_of, _WORD.findall(text)))


@lru_cache(maxsize=1 << 17)
def _dimensions_of(word: str) -> tuple[int, ...]:
    return tuple(zlib.crc32(term.encode()) for term in _terms_of(word))


def _terms_of(word: str) -> tuple[str, ...]:
    if len(word) > LONGEST:
        return ()
    split = _PART.findall(word) if word.isascii() else word.split("_")
    parts = [part.lower() for part in split if part]
    found = [_stem(part) for part in parts if len(part) > 1 and part not in STOP_WORDS]
    if len(parts) > 1:
        found.append("".join(parts))
    return tuple(found)


def _stem(word: str) -> str:
    """`word` without its most common endings; crude, and the same for questions and code."""
    for ending, instead in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= _SHORTEST_STEM:
            return word[: len(word) - len(ending)] + instead
    return word


_SHORTEST_STEM = 3

_ENDINGS = (
    ("ations", ""),
    ("ation", ""),
    ("ings", ""),
    ("ions", ""),
    ("ion", ""),
    ("ies", "y"),
    ("ing", ""),
    ("ers", ""),
    ("ed", ""),
    ("er", ""),
    ("es", ""),
    ("s", ""),
    ("e", ""),
)
"""The first that fits is cut off. A word's stem is no word: `parse`, `parsed` and `parser` are all `pars`."""
