"""Turns that a model answers: who runs them, what their requests were made of, and the calls that repeat."""

from holdfast.store.migrations.ddl import execute

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    execute("""
ALTER TABLE turns ADD COLUMN owner TEXT;

ALTER TABLE turns ADD COLUMN recipe TEXT;

ALTER TABLE turn_leases ADD COLUMN owner TEXT;

CREATE INDEX turns_owner ON turns (owner) WHERE status = 'pending' AND owner IS NOT NULL;

CREATE INDEX turns_participant ON turns (session_pk, created_by);

CREATE TABLE execution_keys (
    organization TEXT NOT NULL,
    user_id TEXT NOT NULL,
    key TEXT NOT NULL,
    request_hash TEXT NOT NULL,
    session_pk {INT} NOT NULL REFERENCES sessions (pk) ON DELETE CASCADE,
    turn_id {UUID} NOT NULL,
    created_at {INT} NOT NULL,
    PRIMARY KEY (organization, user_id, key)
) {END};

CREATE INDEX execution_keys_session ON execution_keys (session_pk);

CREATE TABLE contexts (
    pk {SERIAL},
    id {UUID} NOT NULL UNIQUE,
    organization TEXT NOT NULL,
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    definition TEXT NOT NULL,
    updated_at {INT} NOT NULL,
    UNIQUE (organization, kind, name)
) {END}
""")


def downgrade() -> None:
    execute("""
DROP TABLE contexts;

DROP TABLE execution_keys;

DROP INDEX turns_participant;

DROP INDEX turns_owner;

ALTER TABLE turn_leases DROP COLUMN owner;

ALTER TABLE turns DROP COLUMN recipe;

ALTER TABLE turns DROP COLUMN owner
""")
