"""Cutting a file into pieces that can be understood by themselves.

Where the language is understood, a function or method is a piece, with the comments above it; what a
class holds besides its methods is the class's own; what a file holds besides is nobody's. Every line
is in one piece at most. A piece that is too long is cut into even windows. Other files are windows of
lines throughout.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from math import ceil
from typing import TYPE_CHECKING

import msgspec

from holdfast.retrieval.languages import (
    CLASSES,
    FUNCTIONS,
    LEADING,
    NAMESPACES,
    TRANSPARENT,
    TYPES,
    WRAPPERS,
    parser_of,
)

if TYPE_CHECKING:
    from tree_sitter import Node

CHUNKING_VERSION = "1"
"""Another one whenever the same file would give other pieces."""

LINES = 60
"""How long a piece may be."""

LONGEST_LINE = 4000
"""A longer line is data or was made by a program. It is in no piece."""

DEEPEST = 12
"""How many classes and namespaces are looked into, one inside the other."""


_ONLY_CLOSING = re.compile(r"\W*(?:end\W*)*")
"""What is left of a class below its last method: a bracket, or Ruby's `end`."""


class Piece(msgspec.Struct, frozen=True):
    """Lines of a file, counted from 1, both ends included."""

    start_line: int
    end_line: int
    text: str
    symbol: str | None = None
    """The name, with those around it: `Client.send`."""
    symbol_type: str | None = None


class _Span(msgspec.Struct, frozen=True):
    """Rows of a file, counted from 0, both ends included."""

    first: int
    last: int
    symbol: str | None = None
    symbol_type: str | None = None


def pieces(text: str, language: str) -> list[Piece]:
    lines = text.split("\n")
    whole = _Span(0, len(lines) - 1)
    parser = parser_of(language)
    spans = [whole] if parser is None else _spans(parser.parse(text.encode()).root_node, whole)
    return [piece for span in spans for piece in _windows(lines, span)]


def _spans(node: Node, around: _Span, depth: int = 0) -> Iterator[_Span]:
    """The rows of `around` in spans: those of the definitions inside, and its own between them."""
    row = around.first
    for definition in _definitions(node, around):
        first, last = max(definition.span.first, row), min(definition.span.last, around.last)
        if first > last:  # it shares its only line with the one before
            continue
        if row < first:
            yield msgspec.structs.replace(around, first=row, last=first - 1)
        span = msgspec.structs.replace(definition.span, first=first, last=last)
        if definition.body is not None and depth < DEEPEST:
            yield from _spans(definition.body, span, depth + 1)
        else:
            yield span
        row = last + 1
    if row <= around.last:
        yield msgspec.structs.replace(around, first=row)


class _Definition(msgspec.Struct, frozen=True):
    span: _Span
    body: Node | None
    """Where its members are, if they are to be pieces of their own."""


def _definitions(node: Node, around: _Span) -> Iterator[_Definition]:
    """The definitions directly inside of `node`, in order."""
    leading: int | None = None
    previous = -1
    for child in node.named_children:
        first, last = _rows(child)
        if child.type in LEADING:
            if first > previous:  # and does not stand behind something else
                leading = first if leading is None or first > previous + 1 else leading
                previous = last
            continue
        if child.type in TRANSPARENT:
            yield from _definitions(child, around)
        elif (definition := _definition(child, around)) is not None:
            if leading is not None and first <= previous + 1:
                span = msgspec.structs.replace(definition.span, first=leading)
                definition = _Definition(span, definition.body)
            yield definition
        leading = None
        previous = last


def _definition(node: Node, around: _Span) -> _Definition | None:
    inner = _unwrapped(node)
    kind = inner.type
    name = _name(inner)
    if name is None:
        return None
    symbol = f"{around.symbol}.{name}" if around.symbol else name
    first, last = _rows(node)
    if kind in FUNCTIONS:
        symbol_type = "method" if around.symbol_type in CLASSES.values() else FUNCTIONS[kind]
        return _Definition(_Span(first, last, symbol, symbol_type), None)
    if kind in CLASSES or kind in NAMESPACES:
        span = _Span(first, last, symbol, CLASSES.get(kind) or NAMESPACES[kind])
        return _Definition(span, inner.child_by_field_name("body") or inner)
    return _Definition(_Span(first, last, symbol, TYPES[kind]), None)


def _rows(node: Node) -> tuple[int, int]:
    """The first and the last row of a node; Rust's comments end where the next line begins."""
    # By number: to read `.row` again and again ends the process (tree-sitter 0.26.0 counts references wrong).
    (first, _), (last, column) = node.start_point, node.end_point
    return first, last - 1 if column == 0 and last > first else last


def _unwrapped(node: Node) -> Node:
    while node.type in WRAPPERS:
        field = WRAPPERS[node.type]
        inner = node.named_children[-1] if field is None else node.child_by_field_name(field)
        if inner is None:
            return node
        node = inner
    return node


def _name(node: Node) -> str | None:
    """What a definition defines; None when it is none, as a variable that holds no function."""
    kind = node.type
    if kind in ("lexical_declaration", "variable_declaration"):
        return _function_variable(node)
    if kind == "type_declaration":  # Go's, which may hold several
        node = node.named_children[0] if node.named_children else node
    elif kind not in CLASSES and kind not in NAMESPACES and kind not in FUNCTIONS and kind not in TYPES:
        return None
    elif kind.endswith("_specifier") and node.child_by_field_name("body") is None:
        return None  # C's `struct x y;` only mentions it
    found = node.child_by_field_name("type" if kind == "impl_item" else "name")
    name = _text(found or _declared(node))
    if name and kind == "method_declaration" and (receiver := node.child_by_field_name("receiver")):
        return f"{_text(receiver).strip('()').split()[-1].lstrip('*')}.{name}"
    return name or None


def _function_variable(node: Node) -> str | None:
    """`const name = () => …` defines a function."""
    for child in node.named_children:
        value = child.child_by_field_name("value")
        if value is not None and value.type in ("arrow_function", "function_expression", "function"):
            return _text(child.child_by_field_name("name")) or None
    return None


def _declared(node: Node) -> Node | None:
    """The name inside of a C declarator, below pointers and parameters."""
    found = node.child_by_field_name("declarator")
    while found is not None and (below := found.child_by_field_name("declarator")) is not None:
        found = below
    return found


def _text(node: Node | None) -> str:
    if node is None or node.text is None:
        return ""
    return " ".join(node.text.decode(errors="replace").split())


def _windows(lines: list[str], span: _Span) -> Iterator[Piece]:
    for first, last in _readable(lines, span):
        count = ceil((last - first + 1) / LINES)
        size = ceil((last - first + 1) / count)
        for begin in range(first, last + 1, size):
            end = min(begin + size - 1, last)
            text = "\n".join(lines[begin : end + 1])
            if not _ONLY_CLOSING.fullmatch(text):
                yield Piece(begin + 1, end + 1, text, span.symbol, span.symbol_type)


def _readable(lines: list[str], span: _Span) -> Iterator[tuple[int, int]]:
    """The rows of a span without blank ones at its ends, and without lines that nobody reads."""
    start = span.first
    if max(map(len, lines[start : span.last + 1])) > LONGEST_LINE:
        for row in range(start, span.last + 1):
            if len(lines[row]) > LONGEST_LINE:
                yield from _trimmed(lines, start, row - 1)
                start = row + 1
    yield from _trimmed(lines, start, span.last)


def _trimmed(lines: list[str], first: int, last: int) -> Iterator[tuple[int, int]]:
    while first <= last and not lines[first].strip():
        first += 1
    while last >= first and not lines[last].strip():
        last -= 1
    if first <= last:
        yield first, last
