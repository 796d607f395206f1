"""Which sessions have a pending turn: turns may also end out of order."""

from holdfast.store.migrations.ddl import execute

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    execute("CREATE INDEX turns_pending_of_session ON turns (session_pk) WHERE status = 'pending'")


def downgrade() -> None:
    execute("DROP INDEX turns_pending_of_session")
