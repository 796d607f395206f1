-- The numbers of a JSON array.
-- fragment: listed
SELECT value FROM json_each($1)

-- Of many messages at once: a JSON array of keys and words.
-- name: insert_words
REPLACE INTO message_words (rowid, words) SELECT value ->> 0, value ->> 1 FROM json_each($1)

-- The newest first, as many as are wanted: the others are not read. Words are quoted; $2 is * or nothing, for the
-- last of them.
-- name: messages_with_words
SELECT rowid FROM message_words
WHERE message_words MATCH (SELECT group_concat('"' || value || '"', ' AND ' ORDER BY key) FROM json_each($1)) || $2
ORDER BY rowid DESC LIMIT $3
