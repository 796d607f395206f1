"""The embedded engine: SQLite through apsw, in WAL mode, one writer thread with group commit."""
