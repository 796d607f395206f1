"""What a compaction does to the view, message by message."""

from holdfast.store.migrations.ddl import execute

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    execute("ALTER TABLE compactions ADD COLUMN edits TEXT NOT NULL DEFAULT '{}'")


def downgrade() -> None:
    # Without its edits, it would fold everything from its first message to its last.
    execute("""
UPDATE compactions SET undone_at = coalesce(undone_at, created_at) WHERE edits <> '{}';

ALTER TABLE compactions DROP COLUMN edits
""")
