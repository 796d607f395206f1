"""Repositories in which members may start agents. Until an admin says so, only admins may."""

from holdfast.store.migrations.ddl import execute

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    execute("ALTER TABLE repos ADD COLUMN for_members {INT} NOT NULL DEFAULT 0")


def downgrade() -> None:
    execute("ALTER TABLE repos DROP COLUMN for_members")
