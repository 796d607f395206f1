-- The last chunk key ever given, as far as any open message can tell: a key is never used twice
-- while a message that might read it is open, although the table is emptied and refilled.
-- fragment: chunk_top
(SELECT max(coalesce((SELECT max(pk) FROM chunks), 0), coalesce((SELECT max(chunk_floor) FROM open_messages), 0)))

-- A page in wire form, put together inside SQLite: no message passes through Python.
-- name: history_as_json
SELECT group_concat(message, ','), max(seq) FROM (
    SELECT seq, '{"seq":' || seq || ',"rev":' || coalesce(changed_rev, rev) || ',' || substr(body, 2) AS message
    FROM messages WHERE session_pk = $1 AND seq > $2 ORDER BY seq LIMIT $3
)

-- name: insert_chunk
INSERT INTO chunks (pk, message_pk, rev, text) VALUES ({{chunk_top}} + 1, $1, $2, $3)

-- name: lease_token
SELECT token FROM turn_leases WHERE session_pk = $1
