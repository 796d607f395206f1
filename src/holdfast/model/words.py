"""The words of a message: what a search finds it by.

Only what a person reads counts: the strings in a message's content, and not the names of its
fields, its ids or its states. A word is a run of letters and digits without regard to case,
accents and width, so "Résumé", "resume" and "ＲＥＳＵＭＥ" are one; a Chinese or Japanese character
is a word by itself, since nothing stands between them. Both engines keep exactly these words and
have no idea of their own what a word is.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from typing import Any, Self

import msgspec

READ = 100_000
"""Characters of a message that are read. What follows them is data, and nobody looks for it by a word."""

LONGEST = 64
"""Letters of a word that count."""

MOST = 16
"""Words of a search that count."""

PREFIX_FROM = 3
"""Letters from which on the last word of a search may be the beginning of one."""

BEFORE, AFTER = 60, 140
"""Characters of a snippet before and after where the word begins that it is about."""

_UNREAD = frozenset(
    (
        *("type", "kind", "status", "priority", "mimeType", "data", "blob", "annotations", "_meta"),
        *("id", "toolCallId", "terminalId", "questionSetId", "compactionId"),
    )
)
"""Fields whose text is for programs."""

_SINGLE = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_WORD = re.compile(rf"[{_SINGLE}]|[^\W_{_SINGLE}](?:[^\W_{_SINGLE}]|[\u0300-\u036f])*")
_ASCII_WORD = re.compile("[a-z0-9]+")
_BLANK = re.compile(r"\s+")


class Piece(msgspec.Struct, frozen=True, omit_defaults=True):
    """Some of a snippet, and whether it is what was looked for."""

    text: str
    hit: bool = False


class Sought(msgspec.Struct, frozen=True):
    """The words somebody looks for: a message must have all of them."""

    words: tuple[str, ...]
    """In the order in which they were said; only the last one may be the beginning of a word."""

    @classmethod
    def of(cls, text: str) -> Self:
        return cls(tuple(dict.fromkeys(word for word, _, _ in _words(text)))[:MOST])

    @property
    def has_prefix(self) -> bool:
        return bool(self.words) and len(self.words[-1]) >= PREFIX_FROM

    def meets(self, word: str) -> bool:
        return word in self.words or (self.has_prefix and word.startswith(self.words[-1]))

    def snippet(self, text: str) -> tuple[Piece, ...]:
        """Some of `text` in one line, around the longest of the words, with all of them marked."""
        longest = max(self.words, key=len, default="")
        hits: list[tuple[int, int]] = []
        focus: int | None = None
        for word, start, stop in _words(text):
            if focus is not None and start >= focus + AFTER:
                break
            if self.meets(word):
                hits.append((start, stop))
                if focus is None and word.startswith(longest):
                    focus = start
        if focus is None:
            return ()
        begin = _word_border(text, max(0, focus - BEFORE), focus)
        end = min(len(text), focus + AFTER)
        pieces = [Piece("…")] if begin else []
        for start, stop in ((start, min(stop, end)) for start, stop in hits):
            if start >= begin:
                pieces += [Piece(text[begin:start]), Piece(text[start:stop], hit=True)]
                begin = stop
        pieces += [Piece(text[begin:end]), Piece("…" if end < len(text) else "")]
        in_line = (Piece(_BLANK.sub(" ", piece.text), piece.hit) for piece in pieces)
        return tuple(piece for piece in in_line if piece.text)


def words_of(text: str) -> set[str]:
    """Every word of a text."""
    if text.isascii():
        return {word[:LONGEST] for word in _ASCII_WORD.findall(text.lower())}
    return {word for word, _, _ in _words(text)}


def readable(body: str) -> str:
    """What a person reads of a message that is stored as `body`, up to a length."""
    try:
        message = msgspec.json.decode(body)
    except (RecursionError, msgspec.DecodeError):
        return ""  # nobody reads what is nested a thousand times, or a number with a thousand digits
    pieces: list[str] = []
    size = 0
    waiting: list[Any] = [message.get("toolCalls"), message.get("content")]
    while waiting and size < READ:
        value = waiting.pop()
        if isinstance(value, str):
            pieces.append(value)
            size += len(value) + 1
        elif isinstance(value, dict):
            waiting += [each for name, each in reversed(value.items()) if name not in _UNREAD]
        elif isinstance(value, list):
            waiting += reversed(value)
    return "\n".join(pieces)[:READ]


def _words(text: str) -> Iterator[tuple[str, int, int]]:
    """The words of a text, and where they stand."""
    for found in _WORD.finditer(text):
        if word := _folded(found[0]):
            yield word, found.start(), found.end()


def _folded(word: str) -> str:
    """A word without what does not count; letters and digits are all that is left of it."""
    word = word.casefold()
    if not word.isascii():
        word = "".join(filter(str.isalnum, unicodedata.normalize("NFKD", word))).casefold()
    return word[:LONGEST]


def _word_border(text: str, begin: int, latest: int) -> int:
    """Where to begin so as not to cut a word in two, if there is such a place before `latest`."""
    if begin == 0:
        return 0
    blank = _BLANK.search(text, begin, latest)
    return begin if blank is None else blank.end()
