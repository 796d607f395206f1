-- name: check_heads
SELECT h.session_pk, h.last_seq, coalesce(max(m.seq), 0), count(m.seq)
FROM session_heads h LEFT JOIN messages m ON m.session_pk = h.session_pk
GROUP BY h.session_pk, h.last_seq
HAVING h.last_seq <> coalesce(max(m.seq), 0) OR h.last_seq <> count(m.seq)

-- name: check_times
SELECT session_pk, seq FROM (
    SELECT session_pk, seq, coalesce(high_at, at) AS found_at,
        max(coalesce(high_at, at)) OVER (PARTITION BY session_pk ORDER BY seq) AS high_at
    FROM messages
) AS times WHERE found_at < high_at

-- name: check_turns
SELECT h.session_pk, h.turn_count, coalesce(max(t.sequence), 0), count(t.pk)
FROM session_heads h LEFT JOIN turns t ON t.session_pk = h.session_pk
GROUP BY h.session_pk, h.turn_count
HAVING h.turn_count <> coalesce(max(t.sequence), 0) OR h.turn_count <> count(t.pk)

-- name: check_counts
SELECT counted.n, stored.n
FROM (SELECT coalesce(sum(n), 0) AS n FROM session_counts WHERE owner = '' AND agent = '' AND repo_pk = 0) AS counted
CROSS JOIN (SELECT count(*) AS n FROM sessions) AS stored
WHERE counted.n <> stored.n

-- name: check_compactions
SELECT s.pk, s.compaction_count, count(c.pk) FROM sessions s LEFT JOIN compactions c ON c.session_pk = s.pk
GROUP BY s.pk, s.compaction_count HAVING s.compaction_count <> count(c.pk)

-- name: check_revisions
SELECT h.session_pk, h.rev, max(coalesce(m.changed_rev, m.rev))
FROM session_heads h JOIN messages m ON m.session_pk = h.session_pk
GROUP BY h.session_pk, h.rev HAVING h.rev < max(coalesce(m.changed_rev, m.rev))
