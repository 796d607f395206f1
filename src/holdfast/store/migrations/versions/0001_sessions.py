"""Repositories, sessions, messages, streaming chunks, turns and compactions."""

from holdfast.store.migrations.ddl import dialect, execute

revision = "0001"
down_revision = None


def upgrade() -> None:
    execute(TABLES)
    execute(SQLITE_TRIGGERS if dialect() == "sqlite" else POSTGRES_TRIGGERS)


def downgrade() -> None:
    execute(
        "\n\n".join(
            f"DROP TABLE {table}"
            for table in (
                "compactions",
                "turns",
                "chunks",
                "open_messages",
                "messages",
                "session_heads",
                "sessions",
                "repos",
            )
        )
    )
    if dialect() == "postgresql":
        execute("DROP FUNCTION refuse_ended_turn\n\nDROP FUNCTION drop_chunks")


TABLES = """
CREATE TABLE repos (
    pk {SERIAL},
    id {UUID} NOT NULL UNIQUE,
    organization TEXT NOT NULL,
    name TEXT NOT NULL,
    path TEXT NOT NULL,
    branch TEXT,
    last_commit TEXT,
    remote TEXT,
    scanned_at {INT} NOT NULL,
    UNIQUE (organization, path)
) {END};

CREATE TABLE sessions (
    pk {SERIAL},
    id {UUID} NOT NULL UNIQUE,
    organization TEXT NOT NULL,
    owner TEXT NOT NULL,
    key TEXT NOT NULL,
    agent TEXT NOT NULL,
    channel TEXT NOT NULL,
    account TEXT NOT NULL,
    peer_kind TEXT NOT NULL CHECK (peer_kind IN ('dm', 'group', 'channel')),
    peer TEXT NOT NULL,
    repo_pk {INT} REFERENCES repos (pk) ON DELETE SET NULL,
    status TEXT NOT NULL CHECK (status IN
        ('active', 'idle', 'compacted', 'completed', 'cancelled', 'error', 'archived')),
    status_reason TEXT,
    archived_from TEXT,
    title TEXT,
    description TEXT,
    category TEXT,
    is_public {INT} NOT NULL,
    is_draft {INT} NOT NULL,
    is_deleted {INT} NOT NULL DEFAULT 0,
    stars {REAL} NOT NULL DEFAULT 0,
    ratings_count {INT} NOT NULL DEFAULT 0,
    agent_context_id TEXT,
    conversation_context_id TEXT,
    workspace_id TEXT,
    repo_name TEXT,
    default_language TEXT,
    last_model TEXT,
    input_tokens {INT} NOT NULL DEFAULT 0,
    output_tokens {INT} NOT NULL DEFAULT 0,
    compaction_count {INT} NOT NULL DEFAULT 0,
    custom TEXT NOT NULL,
    created_at {INT} NOT NULL,
    updated_at {INT} NOT NULL,
    UNIQUE (organization, key)
) {END};

CREATE INDEX sessions_created ON sessions (organization, pk);

CREATE INDEX sessions_created_by_status ON sessions (organization, status, pk);

CREATE INDEX sessions_created_by_agent ON sessions (organization, agent, pk);

CREATE INDEX sessions_created_by_repo ON sessions (organization, repo_pk, pk);

CREATE INDEX sessions_created_by_owner ON sessions (organization, owner, pk);

CREATE INDEX sessions_updated ON sessions (organization, updated_at, pk);

CREATE INDEX sessions_updated_by_status ON sessions (organization, status, updated_at, pk);

CREATE INDEX sessions_updated_by_agent ON sessions (organization, agent, updated_at, pk);

CREATE INDEX sessions_updated_by_repo ON sessions (organization, repo_pk, updated_at, pk);

CREATE INDEX sessions_updated_by_owner ON sessions (organization, owner, updated_at, pk);

CREATE INDEX sessions_peer ON sessions (organization, channel, account, peer_kind, peer);

-- What changes with every append, in a row so narrow that a hundred of them share a page.
-- `stale` marks the sessions whose updated_at has not yet caught up with this one.
CREATE TABLE session_heads (
    session_pk {INT} PRIMARY KEY REFERENCES sessions (pk) ON DELETE CASCADE,
    last_seq {INT} NOT NULL DEFAULT 0,
    turn_count {INT} NOT NULL DEFAULT 0,
    rev {INT} NOT NULL DEFAULT 0,
    updated_at {INT} NOT NULL,
    stale {INT} NOT NULL DEFAULT 0
) {END};

CREATE INDEX session_heads_stale ON session_heads (session_pk) WHERE stale = 1;

-- `rev` is given at the append and rises with `seq`; `changed_rev` only where a message changed later.
CREATE TABLE messages (
    pk {HEAP},
    session_pk {INT} NOT NULL REFERENCES sessions (pk) ON DELETE CASCADE,
    seq {INT} NOT NULL,
    rev {INT} NOT NULL,
    changed_rev {INT},
    id {UUID} NOT NULL UNIQUE,
    at {INT} NOT NULL,
    body TEXT NOT NULL,
    UNIQUE (session_pk, seq)
) {END};

CREATE INDEX messages_time ON messages (session_pk, at);

CREATE INDEX messages_changed ON messages (session_pk, changed_rev) WHERE changed_rev IS NOT NULL;

-- The messages of which more is expected, who writes them, and where their chunks begin.
CREATE TABLE open_messages (
    message_pk {INT} PRIMARY KEY REFERENCES messages (pk) ON DELETE CASCADE,
    session_pk {INT} NOT NULL,
    chunk_floor {INT} NOT NULL,
    owner TEXT NOT NULL
) {END};

CREATE INDEX open_messages_session ON open_messages (session_pk);

CREATE INDEX open_messages_floor ON open_messages (chunk_floor);

-- One heap for the chunks of all streams: a flush of many streams writes one page, not one each.
-- It has no index, so a stream is read by scanning from its floor.
CREATE TABLE chunks (
    pk {HEAP},
    message_pk {INT} NOT NULL,
    rev {INT} NOT NULL,
    text TEXT NOT NULL
) {END};

CREATE TABLE turns (
    pk {HEAP},
    session_pk {INT} NOT NULL REFERENCES sessions (pk) ON DELETE CASCADE,
    id {UUID} NOT NULL UNIQUE,
    sequence {INT} NOT NULL,
    rev {INT} NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('pending', 'completed', 'failed')),
    created_by TEXT NOT NULL,
    created_at {INT} NOT NULL,
    status_at {INT} NOT NULL,
    openai_response_received_at {INT},
    openai_chain_expires_at {INT},
    mode TEXT NOT NULL,
    conversation_id TEXT,
    openai_response_id TEXT,
    previous_openai_response_id TEXT,
    openai_model TEXT,
    instruction_summary TEXT NOT NULL,
    full_instruction_url TEXT,
    agent_answer_summary TEXT,
    full_agent_answer_url TEXT,
    openai_request_payload_url TEXT,
    openai_response_payload_url TEXT,
    chunk_refs TEXT NOT NULL,
    active_file_refs TEXT NOT NULL,
    warnings TEXT NOT NULL,
    errors TEXT NOT NULL,
    input_tokens {INT} NOT NULL DEFAULT 0,
    output_tokens {INT} NOT NULL DEFAULT 0,
    stop_reason TEXT,
    UNIQUE (session_pk, sequence),
    CHECK (status = 'completed' OR (agent_answer_summary IS NULL AND full_agent_answer_url IS NULL))
) {END};

CREATE INDEX turns_rev ON turns (session_pk, rev);

CREATE INDEX turns_pending ON turns (pk) WHERE status = 'pending';

CREATE TABLE compactions (
    pk {HEAP},
    session_pk {INT} NOT NULL REFERENCES sessions (pk) ON DELETE CASCADE,
    id {UUID} NOT NULL UNIQUE,
    rev {INT} NOT NULL,
    parent_id {UUID},
    strategy TEXT NOT NULL,
    params TEXT NOT NULL,
    first_seq {INT} NOT NULL,
    last_seq {INT} NOT NULL,
    summary TEXT NOT NULL,
    tokens_before {INT},
    tokens_after {INT},
    tokenizer TEXT,
    created_at {INT} NOT NULL,
    undone_at {INT}
) {END};

CREATE INDEX compactions_rev ON compactions (session_pk, rev)
"""

SQLITE_TRIGGERS = """
CREATE TRIGGER turns_immutable BEFORE UPDATE ON turns WHEN OLD.status <> 'pending'
BEGIN
    SELECT RAISE(ABORT, 'an ended turn is never changed');
END

CREATE TRIGGER open_messages_closed AFTER DELETE ON open_messages
BEGIN
    DELETE FROM chunks WHERE pk > OLD.chunk_floor AND message_pk = OLD.message_pk;
END
"""

POSTGRES_TRIGGERS = """
CREATE FUNCTION refuse_ended_turn() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN RAISE EXCEPTION 'an ended turn is never changed'; END $$

CREATE TRIGGER turns_immutable BEFORE UPDATE ON turns FOR EACH ROW
WHEN (OLD.status <> 'pending') EXECUTE FUNCTION refuse_ended_turn()

CREATE FUNCTION drop_chunks() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN DELETE FROM chunks WHERE pk > OLD.chunk_floor AND message_pk = OLD.message_pk; RETURN NULL; END $$

CREATE TRIGGER open_messages_closed AFTER DELETE ON open_messages FOR EACH ROW
EXECUTE FUNCTION drop_chunks()
"""
