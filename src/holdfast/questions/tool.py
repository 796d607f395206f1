"""What a permission is asked for: the diff or the command to judge, read from the set's `tool`.

`tool` is JSON of whoever asks. What ACP agents send is understood (`content` with diffs and texts,
`rawInput` with a command), and so are a plain `command`, `diff` or `args`; anything else is shown
as the JSON it is, because nobody can judge what is not shown.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher
from enum import StrEnum
from typing import Any

from holdfast.questions.shown import harmless, one_line

CONTEXT = 3
"""Unchanged lines around a change."""

COMPARABLE = 2_000
"""More changed lines than this are shown as removed and added, without looking for what they share:
that search takes a time that grows with the square of their number."""


class Sign(StrEnum):
    ADDED = "+"
    REMOVED = "-"
    SAME = " "
    GAP = "⋯"


@dataclass(frozen=True)
class Line:
    """A line of a diff."""

    sign: Sign
    number: int | None
    text: str


@dataclass(frozen=True)
class Part:
    """Something to judge, under a heading that says what it is: a text, or the lines of a diff."""

    heading: str
    body: str | tuple[Line, ...]


def parts(tool: Mapping[str, Any]) -> list[Part]:
    """Everything in `tool` that a person may want to see before they decide."""
    found = []
    raw = _mapping(tool.get("rawInput")) or _mapping(tool.get("args"))
    if command := _command(tool.get("command")) or _command(raw.get("command")):
        found.append(Part(_heading("Command", raw.get("cwd") or tool.get("cwd")), command))
    if isinstance(patch := tool.get("diff"), str) and patch:
        found.append(Part("Diff", tuple(_patch_lines(patch))))
    if isinstance(content := tool.get("content"), list):
        found.extend(part for entry in content if (part := _part(_mapping(entry))) is not None)
    return found or [Part(_heading("Tool", tool.get("name")), _json(raw or tool))]


def as_text(tool: Mapping[str, Any]) -> str:
    """The same for a terminal without a screen of its own, made harmless."""
    return "\n\n".join(filter(None, map(_as_text, parts(tool))))


def _as_text(part: Part) -> str:
    if isinstance(part.body, str):
        body = harmless(part.body)
    else:
        body = "\n".join(f"{line.sign} {harmless(line.text)}".rstrip() for line in part.body)
    return "\n".join(filter(None, (part.heading, body)))


def diff_lines(old: str, new: str) -> Iterator[Line]:
    """The lines of a change with those around it. Numbers are those of the new file, or of the old
    one where a line is removed."""
    before, after = _lines(old), _lines(new)
    end_before = end_after = 0
    groups = _groups(before, after)
    for group in groups:
        if group[0][3] > end_after or group[0][1] > end_before:
            yield Line(Sign.GAP, None, "")
        for tag, start, stop, new_start, new_stop in group:
            if tag == "equal":
                for offset, text in enumerate(after[new_start:new_stop], new_start + 1):
                    yield Line(Sign.SAME, offset, text)
                continue
            for offset, text in enumerate(before[start:stop], start + 1):
                yield Line(Sign.REMOVED, offset, text)
            for offset, text in enumerate(after[new_start:new_stop], new_start + 1):
                yield Line(Sign.ADDED, offset, text)
        end_before, end_after = group[-1][2], group[-1][4]
    if groups and end_after < len(after):
        yield Line(Sign.GAP, None, "")


Change = tuple[str, int, int, int, int]


def _groups(before: list[str], after: list[str]) -> list[list[Change]]:
    """Changes with their context, as `SequenceMatcher` groups them. Only what lies between the first
    and the last changed line is compared."""
    same_start = _common(before, after)
    same_end = _common(before[same_start:][::-1], after[same_start:][::-1])
    old_stop, new_stop = len(before) - same_end, len(after) - same_end
    if same_start == old_stop == new_stop:
        return []
    head, tail = max(same_start - CONTEXT, 0), min(CONTEXT, same_end)
    if max(old_stop, new_stop) - same_start > COMPARABLE:
        return [
            [
                ("equal", head, same_start, head, same_start),
                ("replace", same_start, old_stop, same_start, new_stop),
                ("equal", old_stop, old_stop + tail, new_stop, new_stop + tail),
            ]
        ]
    matcher = SequenceMatcher(None, before[head : old_stop + tail], after[head : new_stop + tail])
    return [
        [
            (tag, old + head, old_end + head, new + head, new_end + head)
            for tag, old, old_end, new, new_end in group
        ]
        for group in matcher.get_grouped_opcodes(CONTEXT)
    ]


def _common(first: list[str], second: list[str]) -> int:
    """How many lines both begin with."""
    for index, (one, other) in enumerate(zip(first, second, strict=False)):
        if one != other:
            return index
    return min(len(first), len(second))


def _part(entry: Mapping[str, Any]) -> Part | None:
    match entry:
        case {"type": "diff", "newText": str(new)}:
            old = entry.get("oldText")
            heading = _heading("Change" if old else "New file", entry.get("path"))
            return Part(heading, tuple(diff_lines(old if isinstance(old, str) else "", new)))
        case {"type": "content", "content": {"type": "text", "text": str(text)}}:
            return Part("", text) if text.strip() else None
        case {"type": str()}:
            return Part(_heading("Content", entry.get("type")), _json(entry))
        case _:
            return None


def _patch_lines(patch: str) -> Iterator[Line]:
    """A diff that is text already."""
    signs = {"+": Sign.ADDED, "-": Sign.REMOVED, " ": Sign.SAME}
    for text in _lines(patch):
        sign = signs.get(text[:1], Sign.GAP)
        yield Line(sign, None, text if sign is Sign.GAP else text[1:])


def _lines(text: str) -> list[str]:
    """The lines of a file. Only a newline ends one: other characters that might are to be seen."""
    return text.removesuffix("\n").split("\n") if text else []


def _heading(what: str, where: object) -> str:
    return f"{what} · {one_line(where)}" if isinstance(where, str) and where.strip() else what


def _command(value: object) -> str:
    if isinstance(value, list) and value and all(isinstance(word, str) for word in value):
        return shlex.join(value)
    return value if isinstance(value, str) else ""


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _json(value: object) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)
