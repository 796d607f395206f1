-- fragment: turn_columns
t.id, s.id AS session_id, t.sequence, t.rev, t.status, t.created_by, t.created_at, t.status_at,
    t.openai_response_received_at, t.openai_chain_expires_at, t.mode, t.conversation_id, t.openai_response_id,
    t.previous_openai_response_id, t.openai_model, t.instruction_summary, t.full_instruction_url,
    t.agent_answer_summary, t.full_agent_answer_url, t.openai_request_payload_url,
    t.openai_response_payload_url, t.chunk_refs, t.active_file_refs, t.warnings, t.errors, t.input_tokens,
    t.output_tokens, t.stop_reason, t.recipe

-- The sequence is taken here, inside the insert, and the unique index holds whatever races with it.
-- name: insert_turn
INSERT INTO turns (session_pk, id, sequence, rev, status, created_by, created_at, status_at, mode, conversation_id,
    previous_openai_response_id, openai_model, instruction_summary, full_instruction_url,
    openai_request_payload_url, chunk_refs, active_file_refs, warnings, errors)
VALUES ($1, $2, (SELECT coalesce(max(sequence), 0) + 1 FROM turns WHERE session_pk = $1), $3, 'pending', $4, $5, $5,
    $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, '[]')

-- name: turn_by_id
SELECT {{turn_columns}} FROM turns t JOIN sessions s ON s.pk = t.session_pk WHERE t.session_pk = $1 AND t.id = $2

-- name: session_of_turn
SELECT s.id FROM turns t JOIN sessions s ON s.pk = t.session_pk WHERE t.id = $1

-- name: last_turn
SELECT {{turn_columns}} FROM turns t JOIN sessions s ON s.pk = t.session_pk
WHERE t.session_pk = $1 ORDER BY t.sequence DESC LIMIT 1

-- name: answered_turn
SELECT {{turn_columns}} FROM turns t JOIN sessions s ON s.pk = t.session_pk
WHERE t.session_pk = $1 AND t.sequence < $2 AND t.status = 'completed' AND t.recipe IS NOT NULL
ORDER BY t.sequence DESC LIMIT 1

-- name: turns_after
SELECT {{turn_columns}} FROM turns t JOIN sessions s ON s.pk = t.session_pk
WHERE t.session_pk = $1 AND t.sequence > $2 ORDER BY t.sequence LIMIT $3

-- name: turns_changed_after
SELECT {{turn_columns}} FROM turns t JOIN sessions s ON s.pk = t.session_pk
WHERE t.session_pk = $1 AND t.rev > $2 ORDER BY t.rev LIMIT $3

-- name: pending_turns
SELECT {{turn_columns}} FROM turns t JOIN sessions s ON s.pk = t.session_pk
WHERE t.status = 'pending' ORDER BY t.pk

-- name: progress_turn
UPDATE turns SET rev = $1,
    openai_response_id = coalesce($2, openai_response_id),
    previous_openai_response_id = coalesce($3, previous_openai_response_id),
    openai_model = coalesce($4, openai_model),
    openai_request_payload_url = coalesce($5, openai_request_payload_url),
    chunk_refs = coalesce($6, chunk_refs),
    active_file_refs = coalesce($7, active_file_refs),
    warnings = $8,
    conversation_id = coalesce($9, conversation_id),
    recipe = coalesce($10, recipe)
WHERE session_pk = $11 AND id = $12 AND status = 'pending'

-- name: end_turn
UPDATE turns SET rev = $1, status = $2, status_at = $3,
    openai_response_id = coalesce($4, openai_response_id),
    openai_response_received_at = $5, openai_chain_expires_at = $6,
    agent_answer_summary = $7, full_agent_answer_url = $8, openai_response_payload_url = $9,
    warnings = $10, errors = $11, input_tokens = $12, output_tokens = $13, stop_reason = $14
WHERE session_pk = $15 AND id = $16 AND status = 'pending'
