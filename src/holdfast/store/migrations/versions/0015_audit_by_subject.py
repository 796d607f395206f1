"""Audit entries are found by their subject, so that an answer is recorded once."""

from holdfast.store.migrations.ddl import execute

revision = "0015"
down_revision = "0014"


def upgrade() -> None:
    execute("CREATE INDEX audit_subject ON audit (subject, action)")


def downgrade() -> None:
    execute("DROP INDEX audit_subject")
