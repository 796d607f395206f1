-- name: head_revisions
SELECT session_pk, rev FROM session_heads
WHERE session_pk IN (SELECT value::bigint FROM json_array_elements_text($1::json))
