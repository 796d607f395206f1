-- Written by: python -m holdfast.store.migrations
CREATE TABLE alembic_version (
    version_num VARCHAR(32) NOT NULL,
    CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);

-- Running upgrade  -> 0001

CREATE TABLE repos (
    pk INTEGER PRIMARY KEY AUTOINCREMENT,
    id BLOB NOT NULL UNIQUE,
    organization TEXT NOT NULL,
    name TEXT NOT NULL,
    path TEXT NOT NULL,
    branch TEXT,
    last_commit TEXT,
    remote TEXT,
    scanned_at INTEGER NOT NULL,
    UNIQUE (organization, path)
) STRICT;

CREATE TABLE sessions (
    pk INTEGER PRIMARY KEY AUTOINCREMENT,
    id BLOB NOT NULL UNIQUE,
    organization TEXT NOT NULL,
    owner TEXT NOT NULL,
    key TEXT NOT NULL,
    agent TEXT NOT NULL,
    channel TEXT NOT NULL,
    account TEXT NOT NULL,
    peer_kind TEXT NOT NULL CHECK (peer_kind IN ('dm', 'group', 'channel')),
    peer TEXT NOT NULL,
    repo_pk INTEGER REFERENCES repos (pk) ON DELETE SET NULL,
    status TEXT NOT NULL CHECK (status IN
        ('active', 'idle', 'compacted', 'completed', 'cancelled', 'error', 'archived')),
    status_reason TEXT,
    archived_from TEXT,
    title TEXT,
    description TEXT,
    category TEXT,
    is_public INTEGER NOT NULL,
    is_draft INTEGER NOT NULL,
    is_deleted INTEGER NOT NULL DEFAULT 0,
    stars REAL NOT NULL DEFAULT 0,
    ratings_count INTEGER NOT NULL DEFAULT 0,
    agent_context_id TEXT,
    conversation_context_id TEXT,
    workspace_id TEXT,
    repo_name TEXT,
    default_language TEXT,
    last_model TEXT,
    input_tokens INTEGER NOT NULL DEFAULT 0,
    output_tokens INTEGER NOT NULL DEFAULT 0,
    compaction_count INTEGER NOT NULL DEFAULT 0,
    custom TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    UNIQUE (organization, key)
) STRICT;

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
    session_pk INTEGER PRIMARY KEY REFERENCES sessions (pk) ON DELETE CASCADE,
    last_seq INTEGER NOT NULL DEFAULT 0,
    turn_count INTEGER NOT NULL DEFAULT 0,
    rev INTEGER NOT NULL DEFAULT 0,
    updated_at INTEGER NOT NULL,
    stale INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE INDEX session_heads_stale ON session_heads (session_pk) WHERE stale = 1;

-- `rev` is given at the append and rises with `seq`; `changed_rev` only where a message changed later.
CREATE TABLE messages (
    pk INTEGER PRIMARY KEY,
    session_pk INTEGER NOT NULL REFERENCES sessions (pk) ON DELETE CASCADE,
    seq INTEGER NOT NULL,
    rev INTEGER NOT NULL,
    changed_rev INTEGER,
    id BLOB NOT NULL UNIQUE,
    at INTEGER NOT NULL,
    body TEXT NOT NULL,
    UNIQUE (session_pk, seq)
) STRICT;

CREATE INDEX messages_time ON messages (session_pk, at);

CREATE INDEX messages_changed ON messages (session_pk, changed_rev) WHERE changed_rev IS NOT NULL;

-- The messages of which more is expected, who writes them, and where their chunks begin.
CREATE TABLE open_messages (
    message_pk INTEGER PRIMARY KEY REFERENCES messages (pk) ON DELETE CASCADE,
    session_pk INTEGER NOT NULL,
    chunk_floor INTEGER NOT NULL,
    owner TEXT NOT NULL
) STRICT;

CREATE INDEX open_messages_session ON open_messages (session_pk);

CREATE INDEX open_messages_floor ON open_messages (chunk_floor);

-- One heap for the chunks of all streams: a flush of many streams writes one page, not one each.
-- It has no index, so a stream is read by scanning from its floor.
CREATE TABLE chunks (
    pk INTEGER PRIMARY KEY,
    message_pk INTEGER NOT NULL,
    rev INTEGER NOT NULL,
    text TEXT NOT NULL
) STRICT;

CREATE TABLE turns (
    pk INTEGER PRIMARY KEY,
    session_pk INTEGER NOT NULL REFERENCES sessions (pk) ON DELETE CASCADE,
    id BLOB NOT NULL UNIQUE,
    sequence INTEGER NOT NULL,
    rev INTEGER NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('pending', 'completed', 'failed')),
    created_by TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    status_at INTEGER NOT NULL,
    openai_response_received_at INTEGER,
    openai_chain_expires_at INTEGER,
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
    input_tokens INTEGER NOT NULL DEFAULT 0,
    output_tokens INTEGER NOT NULL DEFAULT 0,
    stop_reason TEXT,
    UNIQUE (session_pk, sequence),
    CHECK (status = 'completed' OR (agent_answer_summary IS NULL AND full_agent_answer_url IS NULL))
) STRICT;

CREATE INDEX turns_rev ON turns (session_pk, rev);

CREATE INDEX turns_pending ON turns (pk) WHERE status = 'pending';

CREATE TABLE compactions (
    pk INTEGER PRIMARY KEY,
    session_pk INTEGER NOT NULL REFERENCES sessions (pk) ON DELETE CASCADE,
    id BLOB NOT NULL UNIQUE,
    rev INTEGER NOT NULL,
    parent_id BLOB,
    strategy TEXT NOT NULL,
    params TEXT NOT NULL,
    first_seq INTEGER NOT NULL,
    last_seq INTEGER NOT NULL,
    summary TEXT NOT NULL,
    tokens_before INTEGER,
    tokens_after INTEGER,
    tokenizer TEXT,
    created_at INTEGER NOT NULL,
    undone_at INTEGER
) STRICT;

CREATE INDEX compactions_rev ON compactions (session_pk, rev);

CREATE TRIGGER turns_immutable BEFORE UPDATE ON turns WHEN OLD.status <> 'pending'
BEGIN
    SELECT RAISE(ABORT, 'an ended turn is never changed');
END;

CREATE TRIGGER open_messages_closed AFTER DELETE ON open_messages
BEGIN
    DELETE FROM chunks WHERE pk > OLD.chunk_floor AND message_pk = OLD.message_pk;
END;

INSERT INTO alembic_version (version_num) VALUES ('0001') RETURNING version_num;

-- Running upgrade 0001 -> 0002

CREATE TABLE tokens (
    pk INTEGER PRIMARY KEY AUTOINCREMENT,
    id BLOB NOT NULL UNIQUE,
    hash TEXT NOT NULL UNIQUE,
    organization TEXT NOT NULL,
    username TEXT NOT NULL,
    role TEXT NOT NULL CHECK (role IN ('member', 'admin')),
    label TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    last_used_at INTEGER,
    expires_at INTEGER,
    revoked_at INTEGER
) STRICT;

CREATE TABLE audit (
    pk INTEGER PRIMARY KEY AUTOINCREMENT,
    at INTEGER NOT NULL,
    organization TEXT NOT NULL,
    username TEXT NOT NULL,
    action TEXT NOT NULL,
    outcome TEXT NOT NULL,
    subject TEXT,
    detail TEXT NOT NULL
) STRICT;

CREATE INDEX audit_organization ON audit (organization, pk);

UPDATE alembic_version SET version_num='0002' WHERE alembic_version.version_num = '0001';

-- Running upgrade 0002 -> 0003

CREATE TABLE session_counts (
    organization TEXT NOT NULL,
    owner TEXT NOT NULL,
    agent TEXT NOT NULL,
    repo_pk INTEGER NOT NULL,
    status TEXT NOT NULL,
    n INTEGER NOT NULL,
    PRIMARY KEY (organization, owner, agent, repo_pk, status)
) STRICT;

CREATE TRIGGER sessions_counted AFTER INSERT ON sessions
BEGIN
    INSERT INTO session_counts (organization, owner, agent, repo_pk, status, n)
    SELECT NEW.organization, o.owner, a.agent, r.repo_pk, NEW.status, 1
    FROM (SELECT '' AS owner UNION ALL SELECT NEW.owner) o
    CROSS JOIN (SELECT '' AS agent UNION ALL SELECT NEW.agent) a
    CROSS JOIN (SELECT 0 AS repo_pk UNION ALL SELECT NEW.repo_pk WHERE NEW.repo_pk IS NOT NULL) r
    WHERE true
    ON CONFLICT (organization, owner, agent, repo_pk, status)
    DO UPDATE SET n = session_counts.n + excluded.n;
END;

CREATE TRIGGER sessions_recounted AFTER UPDATE OF organization, owner, agent, repo_pk, status ON sessions
WHEN OLD.organization <> NEW.organization OR OLD.owner <> NEW.owner OR OLD.agent <> NEW.agent
    OR OLD.status <> NEW.status OR coalesce(OLD.repo_pk, 0) <> coalesce(NEW.repo_pk, 0)
BEGIN
    INSERT INTO session_counts (organization, owner, agent, repo_pk, status, n)
    SELECT OLD.organization, o.owner, a.agent, r.repo_pk, OLD.status, -1
    FROM (SELECT '' AS owner UNION ALL SELECT OLD.owner) o
    CROSS JOIN (SELECT '' AS agent UNION ALL SELECT OLD.agent) a
    CROSS JOIN (SELECT 0 AS repo_pk UNION ALL SELECT OLD.repo_pk WHERE OLD.repo_pk IS NOT NULL) r
    WHERE true
    ON CONFLICT (organization, owner, agent, repo_pk, status)
    DO UPDATE SET n = session_counts.n + excluded.n;
    INSERT INTO session_counts (organization, owner, agent, repo_pk, status, n)
    SELECT NEW.organization, o.owner, a.agent, r.repo_pk, NEW.status, 1
    FROM (SELECT '' AS owner UNION ALL SELECT NEW.owner) o
    CROSS JOIN (SELECT '' AS agent UNION ALL SELECT NEW.agent) a
    CROSS JOIN (SELECT 0 AS repo_pk UNION ALL SELECT NEW.repo_pk WHERE NEW.repo_pk IS NOT NULL) r
    WHERE true
    ON CONFLICT (organization, owner, agent, repo_pk, status)
    DO UPDATE SET n = session_counts.n + excluded.n;
END;

CREATE TRIGGER sessions_uncounted AFTER DELETE ON sessions
BEGIN
    INSERT INTO session_counts (organization, owner, agent, repo_pk, status, n)
    SELECT OLD.organization, o.owner, a.agent, r.repo_pk, OLD.status, -1
    FROM (SELECT '' AS owner UNION ALL SELECT OLD.owner) o
    CROSS JOIN (SELECT '' AS agent UNION ALL SELECT OLD.agent) a
    CROSS JOIN (SELECT 0 AS repo_pk UNION ALL SELECT OLD.repo_pk WHERE OLD.repo_pk IS NOT NULL) r
    WHERE true
    ON CONFLICT (organization, owner, agent, repo_pk, status)
    DO UPDATE SET n = session_counts.n + excluded.n;
END;

INSERT INTO session_counts (organization, owner, agent, repo_pk, status, n)
SELECT s.organization,
       CASE WHEN o.any_owner = 1 THEN '' ELSE s.owner END,
       CASE WHEN a.any_agent = 1 THEN '' ELSE s.agent END,
       CASE WHEN r.any_repo = 1 THEN 0 ELSE s.repo_pk END,
       s.status, count(*)
FROM sessions s
CROSS JOIN (SELECT 0 AS any_owner UNION ALL SELECT 1) o
CROSS JOIN (SELECT 0 AS any_agent UNION ALL SELECT 1) a
CROSS JOIN (SELECT 0 AS any_repo UNION ALL SELECT 1) r
WHERE r.any_repo = 1 OR s.repo_pk IS NOT NULL
GROUP BY 1, 2, 3, 4, 5;

UPDATE alembic_version SET version_num='0003' WHERE alembic_version.version_num = '0002';

-- Running upgrade 0003 -> 0004

ALTER TABLE sessions ADD COLUMN agent_session_id TEXT;

ALTER TABLE sessions ADD COLUMN agent_state TEXT NOT NULL DEFAULT '{}';

CREATE TABLE processes (
    pk INTEGER PRIMARY KEY AUTOINCREMENT,
    session_pk INTEGER NOT NULL REFERENCES sessions (pk) ON DELETE CASCADE,
    owner TEXT NOT NULL,
    process_group INTEGER NOT NULL,
    started REAL NOT NULL
) STRICT;

CREATE INDEX processes_session ON processes (session_pk);

CREATE INDEX processes_owner ON processes (owner);

UPDATE alembic_version SET version_num='0004' WHERE alembic_version.version_num = '0003';

-- Running upgrade 0004 -> 0005

CREATE TABLE session_changes (
    last INTEGER NOT NULL
) STRICT;

INSERT INTO session_changes (last) SELECT coalesce(max(pk), 0) FROM sessions;

ALTER TABLE sessions ADD COLUMN change INTEGER NOT NULL DEFAULT 0;

UPDATE sessions SET change = pk;

CREATE INDEX sessions_changed ON sessions (organization, change);

CREATE TABLE deleted_sessions (
    change INTEGER PRIMARY KEY,
    id BLOB NOT NULL,
    organization TEXT NOT NULL,
    owner TEXT NOT NULL,
    agent TEXT NOT NULL
) STRICT;

UPDATE alembic_version SET version_num='0005' WHERE alembic_version.version_num = '0004';

-- Running upgrade 0005 -> 0006

ALTER TABLE compactions ADD COLUMN edits TEXT NOT NULL DEFAULT '{}';

UPDATE alembic_version SET version_num='0006' WHERE alembic_version.version_num = '0005';

-- Running upgrade 0006 -> 0007

DROP INDEX messages_time;

ALTER TABLE messages ADD COLUMN high_at INTEGER;

UPDATE messages SET high_at = passed.high_at
FROM (SELECT pk, at, max(at) OVER (PARTITION BY session_pk ORDER BY seq) AS high_at FROM messages) AS passed
WHERE passed.pk = messages.pk AND passed.at < passed.high_at;

CREATE INDEX messages_late ON messages (session_pk, at) WHERE high_at IS NOT NULL;

ALTER TABLE session_heads ADD COLUMN high_at INTEGER NOT NULL DEFAULT 0;

UPDATE session_heads SET high_at = passed.high_at
FROM (SELECT session_pk, max(at) AS high_at FROM messages GROUP BY session_pk) AS passed
WHERE passed.session_pk = session_heads.session_pk AND passed.high_at > 0;

UPDATE alembic_version SET version_num='0007' WHERE alembic_version.version_num = '0006';

-- Running upgrade 0007 -> 0008

CREATE TABLE bindings (
    pk INTEGER PRIMARY KEY AUTOINCREMENT,
    organization TEXT NOT NULL,
    rule TEXT NOT NULL,
    created_at INTEGER NOT NULL
) STRICT;

CREATE INDEX bindings_organization ON bindings (organization, pk);

CREATE TABLE turn_leases (
    session_pk INTEGER PRIMARY KEY REFERENCES sessions (pk) ON DELETE CASCADE,
    token INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    interrupted INTEGER NOT NULL,
    joined INTEGER NOT NULL
) STRICT;

CREATE TABLE session_moves (
    pk INTEGER PRIMARY KEY AUTOINCREMENT,
    organization TEXT NOT NULL,
    at INTEGER NOT NULL,
    undone_at INTEGER,
    steps TEXT NOT NULL
) STRICT;

CREATE INDEX session_moves_organization ON session_moves (organization, pk);

UPDATE alembic_version SET version_num='0008' WHERE alembic_version.version_num = '0007';

-- Running upgrade 0008 -> 0009

ALTER TABLE turns ADD COLUMN owner TEXT;

ALTER TABLE turns ADD COLUMN recipe TEXT;

ALTER TABLE turn_leases ADD COLUMN owner TEXT;

CREATE INDEX turns_owner ON turns (owner) WHERE status = 'pending' AND owner IS NOT NULL;

CREATE INDEX turns_participant ON turns (session_pk, created_by);

CREATE TABLE execution_keys (
    organization TEXT NOT NULL,
    user_id TEXT NOT NULL,
    key TEXT NOT NULL,
    request_hash TEXT NOT NULL,
    session_pk INTEGER NOT NULL REFERENCES sessions (pk) ON DELETE CASCADE,
    turn_id BLOB NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (organization, user_id, key)
) STRICT;

CREATE INDEX execution_keys_session ON execution_keys (session_pk);

CREATE TABLE contexts (
    pk INTEGER PRIMARY KEY AUTOINCREMENT,
    id BLOB NOT NULL UNIQUE,
    organization TEXT NOT NULL,
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    definition TEXT NOT NULL,
    updated_at INTEGER NOT NULL,
    UNIQUE (organization, kind, name)
) STRICT;

UPDATE alembic_version SET version_num='0009' WHERE alembic_version.version_num = '0008';

-- Running upgrade 0009 -> 0010

CREATE TABLE word_progress (
    last INTEGER NOT NULL
) STRICT;

INSERT INTO word_progress (last) VALUES (0);

CREATE TABLE words_due (
    message_pk INTEGER PRIMARY KEY REFERENCES messages (pk) ON DELETE CASCADE
) STRICT;

CREATE VIRTUAL TABLE message_words
USING fts5 (words, content = '', contentless_delete = 1, detail = none, tokenize = 'ascii');

CREATE TRIGGER messages_forgotten AFTER DELETE ON messages WHEN (SELECT last FROM word_progress) > 0
BEGIN
    DELETE FROM message_words WHERE rowid = OLD.pk;
    UPDATE word_progress SET last = (SELECT coalesce(max(pk), 0) FROM messages)
    WHERE last > (SELECT coalesce(max(pk), 0) FROM messages);
END;

CREATE INDEX sessions_titled ON sessions (organization, pk, title);

UPDATE alembic_version SET version_num='0010' WHERE alembic_version.version_num = '0009';

-- Running upgrade 0010 -> 0011

ALTER TABLE tokens ADD COLUMN parent_id BLOB;

CREATE INDEX tokens_parent ON tokens (parent_id) WHERE parent_id IS NOT NULL;

UPDATE alembic_version SET version_num='0011' WHERE alembic_version.version_num = '0010';

-- Running upgrade 0011 -> 0012

CREATE INDEX turns_pending_of_session ON turns (session_pk) WHERE status = 'pending';

UPDATE alembic_version SET version_num='0012' WHERE alembic_version.version_num = '0011';

-- Running upgrade 0012 -> 0013

CREATE TABLE audit_words (
    audit_pk INTEGER NOT NULL PRIMARY KEY REFERENCES audit (pk),
    salt BLOB,
    words TEXT NOT NULL
) STRICT;

INSERT INTO audit_words (audit_pk, words) SELECT pk, detail FROM audit;

ALTER TABLE audit DROP COLUMN detail;

ALTER TABLE audit ADD COLUMN door TEXT;

ALTER TABLE audit ADD COLUMN commitment BLOB;

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
END;

UPDATE alembic_version SET version_num='0013' WHERE alembic_version.version_num = '0012';

-- Running upgrade 0013 -> 0014

ALTER TABLE repos ADD COLUMN for_members INTEGER NOT NULL DEFAULT 0;

UPDATE alembic_version SET version_num='0014' WHERE alembic_version.version_num = '0013';

-- Running upgrade 0014 -> 0015

CREATE INDEX audit_subject ON audit (subject, action);

UPDATE alembic_version SET version_num='0015' WHERE alembic_version.version_num = '0014';

