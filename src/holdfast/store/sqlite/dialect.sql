-- The last chunk key ever given, as far as any open message can tell: a key is never used twice
-- while a message that might read it is open, although the table is emptied and refilled.
-- fragment: chunk_top
(SELECT max(coalesce((SELECT max(pk) FROM chunks), 0), coalesce((SELECT max(chunk_floor) FROM open_messages), 0)))

-- name: insert_chunk
INSERT INTO chunks (pk, message_pk, rev, text) VALUES ({{chunk_top}} + 1, $1, $2, $3)
