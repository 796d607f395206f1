-- name: insert_message
INSERT INTO messages (session_pk, seq, rev, id, at, body) VALUES ($1, $2, $3, $4, $5, $6)

-- name: insert_message_returning
INSERT INTO messages (session_pk, seq, rev, id, at, body) VALUES ($1, $2, $3, $4, $5, $6) RETURNING pk

-- name: message_by_id
SELECT pk, session_pk, seq, coalesce(changed_rev, rev), body FROM messages WHERE id = $1

-- name: change_message
UPDATE messages SET body = $1, changed_rev = $2 WHERE pk = $3

-- name: history_before
SELECT pk, seq, coalesce(changed_rev, rev), body FROM messages
WHERE session_pk = $1 AND seq < $2 ORDER BY seq DESC LIMIT $3

-- name: history_after
SELECT pk, seq, coalesce(changed_rev, rev), body FROM messages
WHERE session_pk = $1 AND seq > $2 ORDER BY seq LIMIT $3

-- `seq + 0` keeps the order from choosing the index: the time window (messages_time) does.
-- name: history_window_before
SELECT pk, seq, coalesce(changed_rev, rev), body FROM messages
WHERE session_pk = $1 AND at > $2 AND at < $3 AND seq + 0 < $4 ORDER BY seq + 0 DESC LIMIT $5

-- name: history_window_after
SELECT pk, seq, coalesce(changed_rev, rev), body FROM messages
WHERE session_pk = $1 AND at > $2 AND at < $3 AND seq + 0 > $4 ORDER BY seq + 0 LIMIT $5

-- The seq of the last message that was already there at a revision. Messages get their revisions
-- in the order of seq, so twenty probes find it among a million, and no index on rev is needed.
-- name: last_seq_at
WITH RECURSIVE probe (lo, hi) AS (
    SELECT 0 * last_seq, last_seq FROM session_heads WHERE session_pk = $1
    UNION ALL
    SELECT CASE WHEN m.rev <= $2 THEN m.seq ELSE p.lo END,
           CASE WHEN m.rev <= $2 THEN p.hi ELSE m.seq - 1 END
    FROM probe p JOIN messages m ON m.session_pk = $1 AND m.seq = (p.lo + p.hi + 1) / 2
    WHERE p.lo < p.hi
)
SELECT lo FROM probe WHERE lo = hi

-- name: messages_created_after
SELECT pk, seq, coalesce(changed_rev, rev), body, rev FROM messages
WHERE session_pk = $1 AND seq > $2 ORDER BY seq LIMIT $3

-- name: messages_changed_after
SELECT pk, seq, changed_rev, body, changed_rev FROM messages
WHERE session_pk = $1 AND changed_rev > $2 ORDER BY changed_rev LIMIT $3

-- name: insert_open_message
INSERT INTO open_messages (message_pk, session_pk, chunk_floor, owner)
VALUES ($1, $2, {{chunk_top}}, $3)

-- name: open_messages_of_session
SELECT message_pk, chunk_floor FROM open_messages WHERE session_pk = $1

-- name: open_message_owners
SELECT DISTINCT owner FROM open_messages

-- Of several nodes that find the same dead one, each message goes to the node that gets here first.
-- name: claim_open_messages
UPDATE open_messages SET owner = $1 WHERE owner = $2 RETURNING message_pk, session_pk, chunk_floor

-- name: open_message
SELECT chunk_floor FROM open_messages WHERE message_pk = $1

-- name: message_row
SELECT m.pk, m.seq, coalesce(m.changed_rev, m.rev), m.body, m.rev
FROM messages m WHERE m.pk = $1

-- name: close_message
DELETE FROM open_messages WHERE message_pk = $1

-- name: chunks_of_message
SELECT text, rev FROM chunks WHERE pk > $1 AND message_pk = $2 ORDER BY pk
