"""What a session's agent calls the session and offers in it, and the processes that serve it."""

from holdfast.store.migrations.ddl import execute

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    execute("""
ALTER TABLE sessions ADD COLUMN agent_session_id TEXT;

ALTER TABLE sessions ADD COLUMN agent_state TEXT NOT NULL DEFAULT '{}';

CREATE TABLE processes (
    pk {SERIAL},
    session_pk {INT} NOT NULL REFERENCES sessions (pk) ON DELETE CASCADE,
    owner TEXT NOT NULL,
    process_group {INT} NOT NULL,
    started {REAL} NOT NULL
) {END};

CREATE INDEX processes_session ON processes (session_pk);

CREATE INDEX processes_owner ON processes (owner)
""")


def downgrade() -> None:
    execute("""
DROP TABLE processes;

ALTER TABLE sessions DROP COLUMN agent_state;

ALTER TABLE sessions DROP COLUMN agent_session_id
""")
