-- What one follower has not yet seen of a streaming message. Its own last chunk is there as long as it is
-- open, and those that follow have higher keys.
-- name: chunks_after
SELECT pk, text, rev FROM chunks WHERE pk > $1 AND message_pk = $2 ORDER BY pk

-- name: last_chunk
SELECT coalesce(max(pk), 0) FROM chunks WHERE pk > $1 AND message_pk = $2

-- name: changes_position
SELECT last, EXISTS (SELECT 1 FROM session_heads WHERE stale = 1) FROM session_changes

-- name: sessions_changed_after
SELECT {{session_columns}}, s.change {{session_source}}
WHERE s.organization = $1 AND s.change > $2 AND ($3 = '' OR s.owner = $3) AND ($4 = '' OR s.agent = $4)
ORDER BY s.change LIMIT $5

-- name: sessions_deleted_after
SELECT id, change FROM deleted_sessions
WHERE organization = $1 AND change > $2 AND ($3 = '' OR owner = $3) AND ($4 = '' OR agent = $4)
ORDER BY change LIMIT $5
