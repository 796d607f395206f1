-- name: word_progress
SELECT last FROM word_progress

-- name: unread_messages
SELECT pk, octet_length(body) FROM messages WHERE pk > $1 ORDER BY pk LIMIT $2

-- name: messages_to_read
SELECT m.pk, m.id, s.organization, s.owner, m.body, o.message_pk IS NOT NULL
FROM messages m JOIN sessions s ON s.pk = m.session_pk LEFT JOIN open_messages o ON o.message_pk = m.pk
WHERE m.pk > $1 AND m.pk <= $2 ORDER BY m.pk

-- name: messages_due
SELECT m.pk, m.id, s.organization, s.owner, m.body
FROM words_due d JOIN messages m ON m.pk = d.message_pk JOIN sessions s ON s.pk = m.session_pk
WHERE NOT EXISTS (SELECT 1 FROM open_messages o WHERE o.message_pk = d.message_pk) ORDER BY d.message_pk LIMIT $1

-- name: unread_count
SELECT coalesce((SELECT max(pk) FROM messages), 0) - last FROM word_progress

-- name: unread_count_of
SELECT count(*) FROM (
    SELECT 1 FROM messages m JOIN sessions s ON s.pk = m.session_pk
    WHERE m.pk > (SELECT last FROM word_progress) AND s.organization = $1 LIMIT $2
) AS unread

-- name: message_ids
SELECT pk, id FROM messages WHERE pk > $1 AND pk <= $2 ORDER BY pk

-- name: advance_words
UPDATE word_progress SET last = $1

-- name: insert_due
INSERT INTO words_due (message_pk) VALUES ($1)

-- name: settle_due
DELETE FROM words_due WHERE message_pk = $1 AND EXISTS (SELECT 1 FROM messages m WHERE m.pk = $1 AND m.id = $2)
RETURNING message_pk

-- name: sessions_of_messages
SELECT pk, session_pk FROM messages WHERE pk IN ({{listed}})

-- Filled in by search.py, as is the next one. In an organization, `sessions_titled` holds all that it takes.
-- name: titled_sessions
SELECT pk FROM sessions WHERE CONDITIONS ORDER BY pk DESC LIMIT LIMITED

-- Each session is looked up by its key: CROSS JOIN keeps SQLite from reading all of an organization's instead.
-- name: listed_sessions
SELECT updated_at, pk FROM ({{listed}}) AS listed CROSS JOIN sessions WHERE pk = listed.value AND CONDITIONS
