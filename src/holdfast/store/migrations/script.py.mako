"""${message}"""

from holdfast.store.migrations.ddl import execute

revision = ${repr(up_revision)}
down_revision = ${repr(down_revision)}


def upgrade() -> None:
    execute("""${upgrades if upgrades else ""}""")


def downgrade() -> None:
    execute("""${downgrades if downgrades else ""}""")
