"""Schema changes, one numbered file each, written once for both engines.

Alembic orders them and renders them to SQL; our own connections run that SQL in one
transaction (`holdfast.store.schema`), so a migration never opens the database through a second
SQLite library, which would break its file locks.
"""

HEAD = "0015"
"""The revision this program works with."""
