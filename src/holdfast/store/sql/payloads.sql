-- name: organizations
SELECT DISTINCT organization FROM sessions

-- A page of sessions with all of their turns; one without turns is there too, so that the listing goes on.
-- name: payload_references
SELECT s.pk, t.full_instruction_url, t.full_agent_answer_url, t.openai_request_payload_url,
    t.openai_response_payload_url, t.chunk_refs, t.active_file_refs, t.recipe
FROM (SELECT pk FROM sessions WHERE organization = $1 AND pk > $2 ORDER BY pk LIMIT $3) AS s
LEFT JOIN turns t ON t.session_pk = s.pk ORDER BY s.pk
