"""Bearer tokens, and the record of what people decided or were denied."""

from holdfast.store.migrations.ddl import execute

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    execute("""
CREATE TABLE tokens (
    pk {SERIAL},
    id {UUID} NOT NULL UNIQUE,
    hash TEXT NOT NULL UNIQUE,
    organization TEXT NOT NULL,
    username TEXT NOT NULL,
    role TEXT NOT NULL CHECK (role IN ('member', 'admin')),
    label TEXT NOT NULL,
    created_at {INT} NOT NULL,
    last_used_at {INT},
    expires_at {INT},
    revoked_at {INT}
) {END};

CREATE TABLE audit (
    pk {SERIAL},
    at {INT} NOT NULL,
    organization TEXT NOT NULL,
    username TEXT NOT NULL,
    action TEXT NOT NULL,
    outcome TEXT NOT NULL,
    subject TEXT,
    detail TEXT NOT NULL
) {END};

CREATE INDEX audit_organization ON audit (organization, pk)
""")


def downgrade() -> None:
    execute("DROP TABLE audit\n\nDROP TABLE tokens")
