"""A summary made of the session's own words, without a model.

It keeps what a later reader cannot guess: what was asked and on what terms, what was decided, what is
still open, what went wrong, and the names of things (paths, identifiers, addresses, numbers with a
meaning). The same messages always give the same summary. One that is summarised again is taken apart
into its own sections first, so what it kept is not lost at once.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache

from holdfast.compaction.items import is_note
from holdfast.compaction.summaries import SummaryRequest
from holdfast.model.content import CompactionContent, PlanContent, TextContent, ToolContent
from holdfast.model.message import Message, Role
from holdfast.model.tokens import TokenCounter, shown_text

LINE = 240
"""Characters of one line of a summary."""

LOOKED_THROUGH = 4_000
"""Characters of one message in which names are looked for: beyond is a listing, not a name."""

PER_LINE = 2
"""Tokens around one line."""

SECTIONS = {
    "Asked": 0.24,
    "Required": 0.12,
    "Decided": 0.24,
    "Open": 0.14,
    "Failed": 0.08,
    "Said": 0.08,
    "Names": 0.10,
}
"""The sections in order, and the share of the summary each may take before another needs it."""

SPARE_PORTION = 0.25

ROUTINE = frozenset({"Asked", "Said"})
"""Where lines that differ in nothing but numbers stand for one another."""

PLEASANTRY = 16
"""Letters below which a sentence that names nothing, orders nothing and reports nothing is one: "Thanks!"."""

LISTED = "Listed"
"""Names that only a tool gave back, which matter less than those that somebody said."""

_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])|\n+")
_DECIDED = re.compile(
    r"\b(decid\w+|chose|chosen|agreed?|will use|we use|use \w+ instead|instead of|must(?: not)?|never|"
    r"(?:go|goes|going|went) with|switch(?:ed|ing)? (?:\w+ ){0,3}to|settled? on|opt(?:ed)? for|"
    r"always|should|because|fixed|changed|renamed|removed|added|created|deployed|merged|done|works? now|"
    r"root cause)\b",
    re.IGNORECASE,
)
_REQUIRED = re.compile(
    r"\b(must(?: not)?|never|always|only|don't|do not|should(?: not|n't)?|prefer|make sure|as long as|"
    r"until)\b",
    re.IGNORECASE,
)
_OPEN = re.compile(
    r"\?\s*$|\b(todo|fixme|open question|not yet|still (?:need|fail|open)\w*|next(?: steps?)?(?=:)|"
    r"remains|wait(?:ing)? (?:for|on)|let me know|not sure|unclear|unsure|blocked (?:on|by)|tb[dc])\b",
    re.IGNORECASE,
)
_FAILED = re.compile(
    r"\b(\w*(?:error|exception)|fail(?:s|ed|ure)?|refused|denied|timed out|traceback)\b", re.IGNORECASE
)
# Every repetition is bounded, so that no text takes longer than its length.
_NAME = re.compile(
    r"https?://[^\s\"'<>)\]]{1,200}"
    r"|\b[\w.+-]{1,60}@[\w-]{1,60}(?:\.[\w-]{1,30}){1,5}|\b[A-Za-z]:\\[\w.\\-]{1,120}"
    r"|\b[\w-]{1,60}(?:\.[\w-]{1,60}){0,5}:\d{2,5}\b"
    r"|(?<![\w/])(?:~|\.{1,2})?/?(?:[\w.@-]{1,60}/){1,12}[\w.@-]{0,60}"
    r"|\b[\w-]{1,60}\.(?:py|js|ts|tsx|rs|go|c|h|java|rb|sh|md|toml|json|ya?ml|sql|html|css|txt|lock|db)\b"
    r"|`[^`\n]{2,80}`"
    r"|\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b|\b[0-9a-f]{7,40}\b"
    r"|#\d{1,9}\b|\b[A-Z][A-Z0-9]{0,30}(?:[_-][A-Z0-9]{1,30}){1,6}\b"
    r"|\b[a-z_]\w{1,40}(?:\.[a-z_]\w{1,40}){1,6}\b|\b(?:[A-Z][a-z0-9]{1,30}){2,6}\b"
    r"|\b[a-z]{1,30}(?:_[a-z0-9]{1,30}){1,6}\b|\b[a-z]{1,30}[A-Z]\w{1,40}\b"
    r"|\bv?\d{1,6}(?:\.\d{1,6}){1,4}\b|\b\d[\d,.]{0,15}\s?(?:ms|s|min|h|KB|MB|GB|TB|%|€|\$)(?!\w)"
)
_DIGITS = re.compile(r"\d+")
_HEADING = re.compile(r"^(" + "|".join(SECTIONS) + r"):$", re.MULTILINE)


async def extractive(request: SummaryRequest) -> str:
    """The summariser."""
    return await asyncio.to_thread(extract, request.messages, request.max_tokens, request.counter)


def extract(messages: Sequence[Message], max_tokens: int, counter: TokenCounter) -> str:
    """A summary of at most `max_tokens`."""
    plan = next((each for each in reversed(messages) if isinstance(each.content, PlanContent)), None)
    lines = [each for message in messages for each in _lines(message, plan)]
    found = _found(lines or _begun(messages))
    shares = {section: int(max_tokens * share) for section, share in SECTIONS.items()}
    kept = {section: _fitting(section, found, shares[section], counter) for section in SECTIONS}
    for portion in (SPARE_PORTION, 1.0):  # each section gets some of what is left before one gets it all
        for section in SECTIONS:
            spare = max_tokens - counter.count(_written(kept))
            if spare > 0:
                room = counter.count("\n".join(kept[section])) + int(spare * portion)
                kept[section] = _fitting(section, found, room, counter)
    return _cut(_written(kept), max_tokens, counter)


def _found(lines: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """The lines of each section, the one that matters most last."""
    sections: dict[str, dict[str, int]] = {section: {} for section in (*SECTIONS, LISTED)}
    alike: dict[tuple[str, str], str] = {}
    for section, line in lines:
        if section in ROUTINE and not _names_something(line):
            earlier = alike.pop((section, like := _DIGITS.sub("0", line)), None)
            sections[section].pop(earlier or "", None)  # "step 7 is done" stands for the six before it
            alike[section, like] = line
        times = sections[section].pop(line, 0)  # what is said again counts as said now
        sections[section][line] = times + 1
    names = sections["Names"]
    listed = [name for name in sections.pop(LISTED) if name not in names]
    return {section: list(found) for section, found in sections.items()} | {
        "Names": [*listed, *sorted(names, key=lambda name: names[name])]
    }


def _lines(message: Message, plan: Message | None) -> Iterator[tuple[str, str]]:
    """What a message says to each section. Only the last plan counts: what others left open may be done."""
    match message.content:
        case CompactionContent(summary=summary):
            yield from _sections(summary)
        case TextContent(text=text) if message.role is not Role.TOOL and not is_note(message):
            yield from _of_text(text, asked=message.role is Role.USER)
        case PlanContent(steps=steps):
            for step in steps if message is plan else ():
                if isinstance(step, dict) and step.get("status") != "completed":
                    yield "Open", _one_line(str(step.get("content")))
        case ToolContent() as tool:
            if tool.status == "failed":
                yield "Failed", _one_line(f"{tool.title or tool.tool}: {tool.result}")
            yield from _names(f"{tool.title or ''} {tool.args}")
        case _:
            text = shown_text(message)
            failures = _failures(text)
            yield from (("Failed", line) for line in failures)
            yield from _names(" ".join(failures))
            yield from ((LISTED, name) for _, name in _names(text))
    for call in message.tool_calls:
        yield from _names(str(call.arguments))


def _of_text(text: str, *, asked: bool) -> Iterator[tuple[str, str]]:
    sentences = [line for each in _SENTENCE_END.split(text) if (line := _one_line(each))]
    for number, sentence in enumerate(sentences):
        if asked and (_REQUIRED.search if number else _REQUIRED.match)(sentence):
            yield "Required", sentence
        elif asked and (sentence.endswith("?") or (number == 0 and not _is_pleasantry(sentence))):
            yield "Asked", sentence
        elif _OPEN.search(sentence):
            yield "Open", sentence
        elif _FAILED.search(sentence):
            yield "Failed", sentence
        elif _DECIDED.search(sentence):
            yield "Decided", sentence
        elif number in (0, len(sentences) - 1) and not _is_pleasantry(sentence):
            yield "Said", sentence
    yield from _names(text)


@lru_cache(maxsize=4096)
def _names_something(line: str) -> bool:
    return _NAME.search(line) is not None


def _is_pleasantry(sentence: str) -> bool:
    short = len(sentence) < PLEASANTRY and sentence.isascii()
    return short and not _names_something(sentence)


def _failures(text: str) -> list[str]:
    """What went wrong, by the last lines that say so; a traceback says it in the line it ends with."""
    lines = [_one_line(line) for line in text.splitlines() if line.strip()]
    failed = [line for line in lines if _FAILED.search(line) and not line.startswith("Traceback")]
    if not failed and any(line.startswith("Traceback") for line in lines):
        failed = lines[-1:]
    return failed[-3:]


def _names(text: str) -> Iterator[tuple[str, str]]:
    for name in _NAME.findall(text[:LOOKED_THROUGH]):
        yield "Names", name.strip("`").rstrip(".,;:")


def _sections(summary: str) -> Iterator[tuple[str, str]]:
    """The lines of an earlier summary, under the sections they were in."""
    opening, *pieces = _HEADING.split(summary)
    for line in opening.splitlines():
        if line.strip():
            yield "Decided", _one_line(line.strip().removeprefix("- "))
    for section, body in zip(pieces[0::2], pieces[1::2], strict=True):
        for line in body.splitlines():
            if line := line.strip().removeprefix("- "):
                if section == "Names":
                    yield from ((section, name) for name in line.split(" · "))
                else:
                    yield section, line


def _one_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= LINE else f"{line[: LINE - 1]}…"


def _begun(messages: Iterable[Message]) -> list[tuple[str, str]]:
    """The beginnings of messages in which nothing stands out."""
    return [("Said", line) for message in messages if (line := _one_line(shown_text(message)))]


def _fitting(
    section: str, found: Mapping[str, Sequence[str]], tokens: int, counter: TokenCounter
) -> list[str]:
    """The lines that fit: the first one of all, which said what it is about, and the last ones, rather
    those that name something; in order."""
    lines = found[section]
    opening = 0 if section == "Names" else 1
    left = tokens - sum(counter.count(line) + PER_LINE for line in lines[:opening])
    rest = range(opening, len(lines))
    places = [*range(min(opening, len(lines)))]
    for place in sorted(rest, key=lambda each: (_names_something(lines[each]), each), reverse=True):
        if (left := left - counter.count(lines[place]) - PER_LINE) < 0:
            break
        places.append(place)
    return [lines[place] for place in sorted(places)] if tokens > 0 else []


def _written(kept: dict[str, list[str]]) -> str:
    parts = []
    for section, lines in kept.items():
        if lines:
            body = [" · ".join(lines)] if section == "Names" else [f"- {line}" for line in lines]
            parts.append("\n".join([f"{section}:", *body]))
    return "\n".join(parts)


def _cut(text: str, max_tokens: int, counter: TokenCounter) -> str:
    """The text, cut between characters where it is still too long."""
    while (count := counter.count(text)) > max_tokens:
        text = text[: min(len(text) - 1, len(text) * max_tokens // count)]
    return text.rstrip() or "…"
