-- fragment: session_columns
s.id, s.key, s.organization, s.owner, s.agent, r.id AS repo_id, s.status, s.status_reason, s.archived_from,
    s.title, s.description, s.category, s.is_public, s.is_draft, s.is_deleted, s.stars, s.ratings_count,
    s.agent_context_id, s.conversation_context_id, s.workspace_id, s.repo_name, s.default_language,
    s.last_model, s.agent_session_id, s.agent_state, s.input_tokens, s.output_tokens, s.compaction_count, s.custom, s.created_at,
    h.updated_at AS head_updated_at, h.last_seq, h.turn_count, h.rev,
    EXISTS (SELECT 1 FROM turns t WHERE t.session_pk = s.pk AND t.status = 'pending') AS pending

-- fragment: session_source
FROM sessions s
JOIN session_heads h ON h.session_pk = s.pk
LEFT JOIN repos r ON r.pk = s.repo_pk

-- name: find_session_by_id
SELECT pk, id, organization, owner, agent, status, archived_from, is_public FROM sessions WHERE id = $1

-- name: find_session_by_key
SELECT pk, id, organization, owner, agent, status, archived_from, is_public FROM sessions
WHERE organization = $1 AND key = $2

-- name: session_by_pk
SELECT {{session_columns}} {{session_source}} WHERE s.pk = $1

-- name: session_by_id
SELECT {{session_columns}} {{session_source}} WHERE s.id = $1

-- name: session_by_key
SELECT {{session_columns}} {{session_source}} WHERE s.organization = $1 AND s.key = $2

-- name: insert_session
INSERT INTO sessions (id, organization, owner, key, agent, channel, account, peer_kind, peer, repo_pk, status,
    title, description, category, is_public, is_draft, agent_context_id, conversation_context_id, workspace_id,
    repo_name, default_language, custom, created_at, updated_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, 'active',
    $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23)
ON CONFLICT (organization, key) DO NOTHING
RETURNING pk

-- name: insert_head
INSERT INTO session_heads (session_pk, updated_at, rev, stale) VALUES ($1, $2, 1, 1)

-- name: session_metadata
SELECT custom, agent_state FROM sessions WHERE pk = $1

-- The condition holds against another node that ended the session a moment ago.
-- name: activate_session
UPDATE sessions SET status = 'active', status_reason = NULL WHERE pk = $1 AND status IN ('idle', 'compacted')

-- name: compact_session
UPDATE sessions SET status = 'compacted', status_reason = NULL WHERE pk = $1 AND status IN ('active', 'idle')

-- name: add_usage
UPDATE sessions SET input_tokens = input_tokens + $1, output_tokens = output_tokens + $2 WHERE pk = $3

-- name: count_compaction
UPDATE sessions SET compaction_count = compaction_count + 1 WHERE pk = $1

-- name: delete_session
DELETE FROM sessions WHERE pk = $1

-- name: head_rev
SELECT rev FROM session_heads WHERE session_pk = $1

-- Every change of a session begins here: the row it updates is the lock that other nodes wait for.
-- name: advance_head
UPDATE session_heads SET last_seq = last_seq + $1, turn_count = turn_count + $2, rev = rev + $3,
    updated_at = CASE WHEN updated_at < $4 THEN $4 ELSE updated_at END,
    high_at = CASE WHEN high_at < $5 THEN $5 ELSE high_at END
WHERE session_pk = $6 AND (CAST($7 AS BIGINT) IS NULL OR rev = $7)
RETURNING last_seq, rev, high_at, stale

-- name: mark_stale
UPDATE session_heads SET stale = 1 WHERE session_pk = $1

-- name: clear_stale
UPDATE session_heads SET stale = 0 WHERE stale = 1 RETURNING updated_at, session_pk

-- name: catch_up_session
UPDATE sessions SET updated_at = $1, change = $2 WHERE pk = $3

-- One transaction at a time has the row, until it commits: nobody sees a number before those below it.
-- name: next_changes
UPDATE session_changes SET last = last + $1 RETURNING last

-- name: insert_deleted_session
INSERT INTO deleted_sessions (change, id, organization, owner, agent) VALUES ($1, $2, $3, $4, $5)

-- name: session_counts
SELECT status, n FROM session_counts WHERE organization = $1 AND owner = $2 AND agent = $3 AND repo_pk = $4

-- name: session_totals
SELECT status, sum(n) FROM session_counts WHERE owner = '' AND agent = '' AND repo_pk = 0 GROUP BY status

-- name: contents
SELECT (SELECT count(DISTINCT organization) FROM sessions), (SELECT count(*) FROM sessions),
    (SELECT count(*) FROM messages), (SELECT count(*) FROM tokens), (SELECT count(*) FROM audit)

-- Filled in by listing.py: the keys are chosen from an index first, and only then joined.
-- name: session_page
SELECT c.pk, h.rev, c.updated_at
FROM (SELECT pk, updated_at FROM (CHOSEN) AS every ORDER BY ORDERED DESC, pk DESC LIMITED) AS c
JOIN session_heads h ON h.session_pk = c.pk
ORDER BY c.ORDERED DESC, c.pk DESC

-- name: sessions_by_pk
SELECT {{session_columns}}, s.pk {{session_source}} WHERE s.pk IN ({{listed}})
