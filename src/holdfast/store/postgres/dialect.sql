-- Every chunk of a message is inserted after it was opened, so its key is above all keys given by then.
-- fragment: chunk_top
(SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM chunks_pk_seq)

-- A page in wire form, put together inside PostgreSQL: no message passes through Python.
-- name: history_as_json
SELECT string_agg(message, ',' ORDER BY seq), max(seq) FROM (
    SELECT seq, '{"seq":' || seq || ',"rev":' || coalesce(changed_rev, rev) || ',' || substr(body, 2) AS message
    FROM messages WHERE session_pk = $1 AND seq > $2 ORDER BY seq LIMIT $3
) AS page

-- name: insert_chunk
INSERT INTO chunks (message_pk, rev, text) VALUES ($1, $2, $3)

-- Two reads, each by its index: with OR, every session would be looked at.
-- name: find_sessions
SELECT pk, id, organization, owner, agent, status, archived_from, is_public, key FROM sessions WHERE id = ANY($1::uuid[])
UNION ALL
SELECT pk, id, s.organization, owner, agent, status, archived_from, is_public, s.key
FROM unnest($2::text[], $3::text[]) AS named (organization, key)
JOIN sessions s ON s.organization = named.organization AND s.key = named.key

-- Appends of many callers in one statement: the heads advance, and each message finds its place
-- by its head. A session that must first become active, or is gone, is not in the answer.
-- name: append_many
WITH said AS (
    SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::uuid[], $4::bigint[], $5::text[])
        AS said (session_pk, place, id, at, body)
), grown AS (
    SELECT session_pk, count(*) AS n, max(at) AS latest FROM said GROUP BY session_pk
), head AS (
    UPDATE session_heads h SET last_seq = h.last_seq + g.n, rev = h.rev + g.n,
        updated_at = greatest(h.updated_at, $6), high_at = greatest(h.high_at, g.latest), stale = 1
    FROM grown g JOIN sessions s ON s.pk = g.session_pk
    JOIN (SELECT session_pk FROM session_heads WHERE session_pk = ANY($1) ORDER BY session_pk FOR UPDATE) AS locked
        ON locked.session_pk = g.session_pk
    WHERE h.session_pk = g.session_pk AND s.status NOT IN ('idle', 'compacted')
    RETURNING h.session_pk, h.last_seq - g.n AS seq, h.rev - g.n AS rev, h.high_at
), stored AS (
    INSERT INTO messages (session_pk, seq, rev, id, at, high_at, body)
    SELECT m.session_pk, head.seq + m.place, head.rev + m.place, m.id, m.at,
        CASE WHEN m.at < head.high_at THEN head.high_at END, m.body
    FROM said m JOIN head ON head.session_pk = m.session_pk
)
SELECT session_pk, seq, rev FROM head

-- Shared until the end of the transaction: nobody takes the lease over before what it guards is written.
-- name: lease_token
SELECT token FROM turn_leases WHERE session_pk = $1 FOR SHARE
