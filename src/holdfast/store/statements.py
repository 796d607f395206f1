"""The SQL of the store, by name.

Statements live in `sql/*.sql`, once for both engines wherever the dialects agree; an engine's
own folder holds the few that differ and wins. Parameters are `$1`, `$2`, …, which PostgreSQL
numbers and SQLite takes in order of appearance, so a statement must mention them in order.
`{{name}}` stands for a fragment.
"""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path

_HEADING = re.compile(r"^-- (name|fragment): (\w+)$", re.MULTILINE)
_COMMENT = re.compile(r"^--.*\n?", re.MULTILINE)
_PARAMETER = re.compile(r"\$(\d+)")


def load(dialect: str) -> dict[str, str]:
    """All statements of one engine."""
    here = Path(__file__).parent
    statements: dict[str, str] = {}
    fragments: dict[str, str] = {}
    for folder in (here / "sql", here / dialect):
        for path in sorted(folder.glob("*.sql")):
            _, *pieces = _HEADING.split(path.read_text())
            for kind, name, text in zip(pieces[0::3], pieces[1::3], pieces[2::3], strict=True):
                (statements if kind == "name" else fragments)[name] = _COMMENT.sub("", text).strip()
    return {name: checked(_filled(text, fragments)) for name, text in statements.items()}


@lru_cache(maxsize=512)
def checked(sql: str) -> str:
    """`sql`, if its parameters first appear in order."""
    seen = list(dict.fromkeys(int(number) for number in _PARAMETER.findall(sql)))
    if seen != list(range(1, len(seen) + 1)):
        raise ValueError(f"parameters appear as {seen}, not in order, in: {sql}")
    return sql


def _filled(text: str, fragments: dict[str, str]) -> str:
    return re.sub(r"\{\{(\w+)\}\}", lambda match: fragments[match[1]], text)
