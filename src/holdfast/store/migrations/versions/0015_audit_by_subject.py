"""Audit entries found by what they speak of: an answer is on record once, whoever notices it first."""

from holdfast.store.migrations.ddl import execute

revision = "0015"
down_revision = "0014"


def upgrade() -> None:
    execute("CREATE INDEX audit_subject ON audit (subject, action)")


def downgrade() -> None:
    execute("DROP INDEX audit_subject")
