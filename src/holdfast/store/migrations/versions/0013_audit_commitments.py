"""Audit rows that never change. What was said stands beside them, and can be erased without touching them."""

from holdfast.store.migrations.ddl import dialect, execute

revision = "0013"
down_revision = "0012"

TABLES = """
CREATE TABLE audit_words (
    audit_pk {INT} NOT NULL PRIMARY KEY REFERENCES audit (pk),
    salt {BYTES},
    words TEXT NOT NULL
) {END};

INSERT INTO audit_words (audit_pk, words) SELECT pk, detail FROM audit;

ALTER TABLE audit DROP COLUMN detail;

ALTER TABLE audit ADD COLUMN door TEXT;

ALTER TABLE audit ADD COLUMN commitment {BYTES}
"""

REFUSALS = {
    "sqlite": """
CREATE TRIGGER audit_unchanged BEFORE UPDATE ON audit
BEGIN
    SELECT RAISE(ABORT, 'an audit entry is never changed');
END;

CREATE TRIGGER audit_kept BEFORE DELETE ON audit
BEGIN
    SELECT RAISE(ABORT, 'an audit entry is never deleted');
END;

CREATE TRIGGER audit_words_unchanged BEFORE UPDATE ON audit_words
BEGIN
    SELECT RAISE(ABORT, 'the words of an audit entry are never changed');
END
""",
    "postgresql": """
CREATE FUNCTION refuse_audit_change() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN RAISE EXCEPTION 'an audit entry is never changed or deleted'; END $$;

CREATE TRIGGER audit_unchanged BEFORE UPDATE OR DELETE ON audit FOR EACH ROW
EXECUTE FUNCTION refuse_audit_change();

CREATE TRIGGER audit_kept BEFORE TRUNCATE ON audit EXECUTE FUNCTION refuse_audit_change();

CREATE TRIGGER audit_words_unchanged BEFORE UPDATE ON audit_words FOR EACH ROW
EXECUTE FUNCTION refuse_audit_change()
""",
}


def upgrade() -> None:
    execute(TABLES)
    execute(REFUSALS[dialect()])


def downgrade() -> None:
    if dialect() == "postgresql":
        execute("DROP FUNCTION refuse_audit_change() CASCADE")
    else:
        execute("DROP TRIGGER audit_unchanged\n\nDROP TRIGGER audit_kept")
    execute("""
ALTER TABLE audit ADD COLUMN detail TEXT NOT NULL DEFAULT '{}';

UPDATE audit SET detail = coalesce((SELECT words FROM audit_words WHERE audit_pk = pk), '{}');

DROP TABLE audit_words;

ALTER TABLE audit DROP COLUMN commitment;

ALTER TABLE audit DROP COLUMN door
""")
