-- name: insert_message
INSERT INTO messages (session_pk, seq, rev, id, at, high_at, body) VALUES ($1, $2, $3, $4, $5, $6, $7)

-- name: insert_message_returning
INSERT INTO messages (session_pk, seq, rev, id, at, high_at, body) VALUES ($1, $2, $3, $4, $5, $6, $7) RETURNING pk

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

-- How long messages are, which both engines know without reading them.
-- name: history_sizes_before
SELECT octet_length(body) FROM messages WHERE session_pk = $1 AND seq < $2 ORDER BY seq DESC LIMIT $3

-- name: history_sizes_after
SELECT octet_length(body) FROM messages WHERE session_pk = $1 AND seq > $2 ORDER BY seq LIMIT $3

-- How many there are, and how long they are together: sooner told than the size of each.
-- name: history_size_before
SELECT count(*), coalesce(sum(size), 0) FROM (
    SELECT octet_length(body) AS size FROM messages WHERE session_pk = $1 AND seq < $2 ORDER BY seq DESC LIMIT $3
) AS page

-- Sooner still than of a page that must be cut at its limit. A session has no gaps.
-- name: history_size_after
SELECT count(*), coalesce(sum(octet_length(body)), 0) FROM messages WHERE session_pk = $1 AND seq > $2 AND seq <= $2 + $3

-- The seq of the last message up to which nothing is later than a moment. `coalesce(high_at, at)`, the
-- latest time of all messages so far, never falls as seq rises, so it is found by halving, without an index.
-- name: last_seq_by
WITH RECURSIVE probe (lo, hi) AS (
    SELECT 0 * last_seq, last_seq FROM session_heads WHERE session_pk = $1
    UNION ALL
    SELECT CASE WHEN coalesce(m.high_at, m.at) <= $2 THEN m.seq ELSE p.lo END,
           CASE WHEN coalesce(m.high_at, m.at) <= $2 THEN p.hi ELSE m.seq - 1 END
    FROM probe p JOIN messages m ON m.session_pk = $1 AND m.seq = (p.lo + p.hi + 1) / 2
    WHERE p.lo < p.hi
)
SELECT lo FROM probe WHERE lo = hi

-- A time window: the messages in order of time are those between two seqs, the late ones are looked up.
-- `seq + 0` keeps the order from choosing the index for them: the window (messages_late) does.
-- name: history_window_before
SELECT * FROM (
    SELECT pk, seq, coalesce(changed_rev, rev), body FROM messages
    WHERE session_pk = $1 AND seq > $2 AND seq <= $3 AND seq < $4 AND high_at IS NULL ORDER BY seq DESC LIMIT $5
) AS in_order UNION ALL SELECT * FROM (
    SELECT pk, seq, coalesce(changed_rev, rev), body FROM messages
    WHERE session_pk = $1 AND at > $6 AND at < $7 AND seq + 0 < $4 AND high_at IS NOT NULL
    ORDER BY seq + 0 DESC LIMIT $5
) AS late ORDER BY seq DESC LIMIT $5

-- name: history_window_after
SELECT * FROM (
    SELECT pk, seq, coalesce(changed_rev, rev), body FROM messages
    WHERE session_pk = $1 AND seq > $2 AND seq <= $3 AND seq > $4 AND high_at IS NULL ORDER BY seq LIMIT $5
) AS in_order UNION ALL SELECT * FROM (
    SELECT pk, seq, coalesce(changed_rev, rev), body FROM messages
    WHERE session_pk = $1 AND at > $6 AND at < $7 AND seq + 0 > $4 AND high_at IS NOT NULL
    ORDER BY seq + 0 LIMIT $5
) AS late ORDER BY seq LIMIT $5

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

-- name: forget_chunks
DELETE FROM chunks
WHERE pk > (SELECT chunk_floor FROM open_messages WHERE message_pk = $1) AND message_pk = $1

-- name: close_message
DELETE FROM open_messages WHERE message_pk = $1

-- name: chunks_of_message
SELECT text, rev FROM chunks WHERE pk > $1 AND message_pk = $2 ORDER BY pk
