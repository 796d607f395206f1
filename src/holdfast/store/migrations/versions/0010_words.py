"""What a search looks at: the words of messages, how far they were read, and titles.

Words are made from the messages when somebody searches, so an append writes nothing here. The words
are those of `holdfast.model.words`; neither engine has an idea of its own what a word is.
"""

from holdfast.store.migrations.ddl import dialect, execute

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    execute(TABLES)
    execute(SQLITE_WORDS if dialect() == "sqlite" else POSTGRES_WORDS)


def downgrade() -> None:
    if dialect() == "sqlite":
        execute("DROP INDEX sessions_titled\n\nDROP TRIGGER messages_forgotten")
    execute("DROP TABLE message_words\n\nDROP TABLE words_due\n\nDROP TABLE word_progress")


# The messages up to `last` were read. Those that more was expected of are due when they are final.
TABLES = """
CREATE TABLE word_progress (
    last {INT} NOT NULL
) {END};

INSERT INTO word_progress (last) VALUES (0);

CREATE TABLE words_due (
    message_pk {INT} PRIMARY KEY REFERENCES messages (pk) ON DELETE CASCADE
) {END}
"""

# The key of the last message may be given again once that is deleted: then the new one was not read. That is
# looked at after every message, also after one that nobody had read: it may have been the last.
# Titles are looked through in an index of their own, since a session's row is long. (In PostgreSQL's a
# title may be too long for one, and its rows are read faster.)
SQLITE_WORDS = """
CREATE VIRTUAL TABLE message_words
USING fts5 (words, content = '', contentless_delete = 1, detail = none, tokenize = 'ascii')

CREATE TRIGGER messages_forgotten AFTER DELETE ON messages WHEN (SELECT last FROM word_progress) > 0
BEGIN
    DELETE FROM message_words WHERE rowid = OLD.pk;
    UPDATE word_progress SET last = (SELECT coalesce(max(pk), 0) FROM messages)
    WHERE last > (SELECT coalesce(max(pk), 0) FROM messages);
END

CREATE INDEX sessions_titled ON sessions (organization, pk, title)
"""

# What waits to be put into the index is put there by whoever writes next, so it must not be much.
POSTGRES_WORDS = """
CREATE TABLE message_words (
    message_pk BIGINT PRIMARY KEY REFERENCES messages (pk) ON DELETE CASCADE,
    words TSVECTOR NOT NULL
)

CREATE INDEX message_words_words ON message_words USING gin (words) WITH (gin_pending_list_limit = 512)
"""
