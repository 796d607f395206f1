-- fragment: compaction_columns
id, rev, parent_id, strategy, params, first_seq, last_seq, summary, tokens_before, tokens_after, tokenizer,
    created_at, undone_at, edits

-- name: insert_compaction
INSERT INTO compactions (session_pk, id, rev, parent_id, strategy, params, first_seq, last_seq, summary,
    tokens_before, tokens_after, tokenizer, created_at, edits)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)

-- name: compaction_by_id
SELECT {{compaction_columns}} FROM compactions WHERE session_pk = $1 AND id = $2

-- name: compactions_of_session
SELECT {{compaction_columns}} FROM compactions WHERE session_pk = $1 ORDER BY pk

-- name: compaction_outlines
SELECT c.id, c.parent_id, c.first_seq, c.last_seq, c.undone_at
FROM compactions c JOIN sessions s ON s.pk = c.session_pk WHERE s.id = $1 ORDER BY c.pk

-- name: compactions_changed_after
SELECT {{compaction_columns}} FROM compactions WHERE session_pk = $1 AND rev > $2 ORDER BY rev LIMIT $3

-- name: undo_compaction
UPDATE compactions SET undone_at = $1, rev = $2 WHERE session_pk = $3 AND id = $4

-- fragment: repo_columns
id, name, path, branch, last_commit, remote, for_members

-- name: save_repo
INSERT INTO repos (id, organization, name, path, branch, last_commit, remote, scanned_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
ON CONFLICT (organization, path) DO UPDATE SET name = excluded.name, branch = excluded.branch,
    last_commit = excluded.last_commit, remote = excluded.remote, scanned_at = excluded.scanned_at
RETURNING {{repo_columns}}

-- name: open_repo
UPDATE repos SET for_members = $1 WHERE organization = $2 AND id = $3
RETURNING {{repo_columns}}

-- name: repo_by_id
SELECT {{repo_columns}} FROM repos WHERE organization = $1 AND id = $2

-- name: repo_pk
SELECT pk FROM repos WHERE organization = $1 AND id = $2

-- name: repos
SELECT {{repo_columns}} FROM repos WHERE organization = $1 ORDER BY name, path

-- Its sessions are then bound to none, which is a change of each.
-- name: advance_sessions_of_repo
UPDATE session_heads SET rev = rev + 1, stale = 1, updated_at = CASE WHEN updated_at < $1 THEN $1 ELSE updated_at END
WHERE session_pk IN (SELECT pk FROM sessions WHERE repo_pk = $2)
RETURNING session_pk

-- name: delete_repo
DELETE FROM repos WHERE pk = $1

-- fragment: token_columns
id, organization, username, role, label, created_at, last_used_at, expires_at, revoked_at, parent_id

-- name: insert_token
INSERT INTO tokens (id, hash, organization, username, role, label, created_at, expires_at, parent_id)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)

-- name: token_by_hash
SELECT t.id, t.organization, t.username, t.role, t.label, t.created_at, t.last_used_at, t.expires_at,
    coalesce(t.revoked_at, parent.revoked_at), t.parent_id
FROM tokens AS t LEFT JOIN tokens AS parent ON parent.id = t.parent_id WHERE t.hash = $1

-- name: touch_token
UPDATE tokens SET last_used_at = $1 WHERE id = $2

-- name: tokens
SELECT {{token_columns}} FROM tokens WHERE organization = $1 ORDER BY pk

-- name: token_owner
SELECT username FROM tokens WHERE organization = $1 AND id = $2

-- name: revoke_token
UPDATE tokens SET revoked_at = coalesce(revoked_at, $1) WHERE organization = $2 AND id = $3
RETURNING {{token_columns}}

-- name: revoke_children
UPDATE tokens SET revoked_at = coalesce(revoked_at, $1) WHERE parent_id = $2

-- name: insert_audit
INSERT INTO audit (at, organization, username, action, outcome, subject, door, commitment)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8) RETURNING pk

-- name: audit_of
SELECT pk FROM audit WHERE organization = $1 AND subject = $2 AND action = $3 LIMIT 1

-- name: insert_audit_words
INSERT INTO audit_words (audit_pk, salt, words) VALUES ($1, $2, $3)

-- name: audit_before
SELECT pk, at, organization, username, action, outcome, subject, door, words
FROM audit LEFT JOIN audit_words ON audit_pk = pk
WHERE organization = $1 AND pk < $2 ORDER BY pk DESC LIMIT $3

-- name: audit_commitments
SELECT pk, commitment, salt, words FROM audit JOIN audit_words ON audit_pk = pk
WHERE pk > $1 AND commitment IS NOT NULL ORDER BY pk LIMIT $2
