"""Bindings that are kept here, who runs a session's turn, and the moves of sessions that can be undone."""

from holdfast.store.migrations.ddl import execute

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    execute("""
CREATE TABLE bindings (
    pk {SERIAL},
    organization TEXT NOT NULL,
    rule TEXT NOT NULL,
    created_at {INT} NOT NULL
) {END};

CREATE INDEX bindings_organization ON bindings (organization, pk);

CREATE TABLE turn_leases (
    session_pk {INT} PRIMARY KEY REFERENCES sessions (pk) ON DELETE CASCADE,
    token {INT} NOT NULL,
    expires_at {INT} NOT NULL,
    interrupted {INT} NOT NULL,
    joined {INT} NOT NULL
) {END};

CREATE TABLE session_moves (
    pk {SERIAL},
    organization TEXT NOT NULL,
    at {INT} NOT NULL,
    undone_at {INT},
    steps TEXT NOT NULL
) {END};

CREATE INDEX session_moves_organization ON session_moves (organization, pk)
""")


def downgrade() -> None:
    execute("DROP TABLE session_moves\n\nDROP TABLE turn_leases\n\nDROP TABLE bindings")
