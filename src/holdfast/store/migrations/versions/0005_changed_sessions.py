"""Which sessions changed, in the order in which that became known, and which were deleted."""

from holdfast.store.migrations.ddl import execute

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    execute("""
CREATE TABLE session_changes (
    last {INT} NOT NULL
) {END};

INSERT INTO session_changes (last) SELECT coalesce(max(pk), 0) FROM sessions;

ALTER TABLE sessions ADD COLUMN change {INT} NOT NULL DEFAULT 0;

UPDATE sessions SET change = pk;

CREATE INDEX sessions_changed ON sessions (organization, change);

CREATE TABLE deleted_sessions (
    change {INT} PRIMARY KEY,
    id {UUID} NOT NULL,
    organization TEXT NOT NULL,
    owner TEXT NOT NULL,
    agent TEXT NOT NULL
) {END}
""")


def downgrade() -> None:
    execute("""
DROP TABLE deleted_sessions;

DROP INDEX sessions_changed;

ALTER TABLE sessions DROP COLUMN change;

DROP TABLE session_changes
""")
