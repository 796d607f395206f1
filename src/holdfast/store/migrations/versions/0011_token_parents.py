"""Tokens given for another one: what a browser gets for a sign-in link goes with what made the link."""

from holdfast.store.migrations.ddl import execute

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    execute("""
ALTER TABLE tokens ADD COLUMN parent_id {UUID};

CREATE INDEX tokens_parent ON tokens (parent_id) WHERE parent_id IS NOT NULL
""")


def downgrade() -> None:
    # Without its parent, nothing would revoke it any more.
    execute("""
UPDATE tokens SET revoked_at = coalesce(revoked_at, created_at) WHERE parent_id IS NOT NULL;

DROP INDEX tokens_parent;

ALTER TABLE tokens DROP COLUMN parent_id
""")
