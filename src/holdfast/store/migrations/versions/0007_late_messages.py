"""Time windows without an index over every message.

Nearly all messages are in the order of their time as well as of their `seq`. Only those that are
earlier than one before them, after a clock was set back or with a timestamp of the caller's, carry
the time by which the others are found (`high_at`) and stand in an index of their own.
"""

from holdfast.store.migrations.ddl import execute

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    execute("""
DROP INDEX messages_time;

ALTER TABLE messages ADD COLUMN high_at {INT};

UPDATE messages SET high_at = passed.high_at
FROM (SELECT pk, at, max(at) OVER (PARTITION BY session_pk ORDER BY seq) AS high_at FROM messages) AS passed
WHERE passed.pk = messages.pk AND passed.at < passed.high_at;

CREATE INDEX messages_late ON messages (session_pk, at) WHERE high_at IS NOT NULL;

ALTER TABLE session_heads ADD COLUMN high_at {INT} NOT NULL DEFAULT 0;

UPDATE session_heads SET high_at = passed.high_at
FROM (SELECT session_pk, max(at) AS high_at FROM messages GROUP BY session_pk) AS passed
WHERE passed.session_pk = session_heads.session_pk AND passed.high_at > 0
""")


def downgrade() -> None:
    execute("""
ALTER TABLE session_heads DROP COLUMN high_at;

DROP INDEX messages_late;

ALTER TABLE messages DROP COLUMN high_at;

CREATE INDEX messages_time ON messages (session_pk, at)
""")
