"""The schema's revision: reading it, and rendering the SQL that moves it.

Opening a store reads the recorded revision with one query. Alembic, which costs half a second
to import, is loaded only when a database with something in it is behind. What all migrations
together make of an empty one is written down beside them (`python -m holdfast.store.migrations`).
"""

from __future__ import annotations

import io
from functools import cache
from pathlib import Path

from holdfast.errors import InvalidInput, NotADatabase, SchemaTooNew, StoreReplaced
from holdfast.store.migrations import HEAD

BASE = "base"
"""The revision of an empty database, in Alembic's word."""

DIALECTS = ("sqlite", "postgresql")

MIGRATIONS = Path(__file__).parent / "migrations"


OURS = "session_heads"
"""A table that every revision of ours has."""


def recorded(revision: object) -> str:
    """The revision that a database with our tables records."""
    if not isinstance(revision, str) or not revision.isdigit():
        raise NotADatabase(
            f"The database records the schema {revision!r}, which is none of Holdfast's; give another one."
        )
    return revision


def behind(recorded: str | None) -> bool:
    """Whether a database at `recorded` (None: nothing yet) must be upgraded before use."""
    if recorded is None:
        return True
    if recorded > HEAD:
        raise SchemaTooNew(
            f"The database has schema {recorded}, and this version of Holdfast knows {HEAD}: "
            "install a newer Holdfast to open it."
        )
    return recorded < HEAD


def require_head(recorded: str | None) -> None:
    """Raise unless an open database still has the schema that it was opened with."""
    if recorded != HEAD:
        raise StoreReplaced(
            f"The database went from schema {HEAD} to {recorded or BASE} while it was open; start again."
        )


def is_down(recorded: str | None, target: str) -> bool:
    return recorded is not None and (target == BASE or target < recorded)


def script(dialect: str, recorded: str | None, target: str | None = None) -> str:
    """The SQL that brings a database to `target`, or up to date; empty when it is there already."""
    is_behind = behind(recorded)
    if target is None:
        if not is_behind:
            return ""
        target = HEAD
    if _known(target) == (recorded or BASE):
        return ""
    if recorded is None and target == HEAD:
        return whole_file(dialect).read_text()
    if target != BASE and target > (recorded or ""):
        return render("upgrade", dialect, f"{recorded or BASE}:{target}")
    emptied = "DROP TABLE alembic_version;" if target == BASE else ""
    return render("downgrade", dialect, f"{recorded}:{target}") + emptied


def whole_file(dialect: str) -> Path:
    """Where it is written down what all migrations together make of an empty database."""
    return MIGRATIONS / f"{dialect}.sql"


def whole(dialect: str) -> str:
    """What all migrations together make of an empty database."""
    return "-- Written by: python -m holdfast.store.migrations\n" + render(
        "upgrade", dialect, f"{BASE}:{HEAD}"
    )


def _known(target: str) -> str:
    if target != BASE and not (target.isdigit() and "0001" <= target <= HEAD):
        raise InvalidInput(f"There is no schema revision {target!r}; it is base, or 0001 to {HEAD}.")
    return target


@cache
def render(direction: str, dialect: str, revisions: str) -> str:
    """The SQL of some migrations, by Alembic."""
    from alembic import command
    from alembic.config import Config

    output = io.StringIO()
    config = Config(output_buffer=output)
    config.set_main_option("script_location", str(MIGRATIONS))
    config.attributes.update(dialect=dialect, output=output)
    getattr(command, direction)(config, revisions, sql=True)
    # The caller owns the transaction; Alembic brackets the script with its own.
    lines = (line.rstrip() for line in output.getvalue().splitlines() if line not in ("BEGIN;", "COMMIT;"))
    return "\n".join(lines) + "\n"
