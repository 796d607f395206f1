-- name: head_revisions
SELECT session_pk, rev FROM session_heads WHERE session_pk IN (SELECT value FROM json_each($1))
