-- name: own_turn
UPDATE turns SET owner = $1 WHERE session_pk = $2 AND id = $3 AND status = 'pending'

-- name: turn_owners
SELECT DISTINCT owner FROM turns WHERE status = 'pending' AND owner IS NOT NULL

-- Of several nodes that find the same dead one, each turn goes to the node that gets here first.
-- name: claim_turns
UPDATE turns SET owner = $1 WHERE status = 'pending' AND owner = $2 RETURNING session_pk, id

-- name: insert_execution_key
INSERT INTO execution_keys (organization, user_id, key, request_hash, session_pk, turn_id, created_at)
VALUES ($1, $2, $3, $4, $5, $6, $7)
ON CONFLICT (organization, user_id, key) DO NOTHING
RETURNING key

-- name: execution_key
SELECT k.request_hash, s.id, k.turn_id FROM execution_keys k JOIN sessions s ON s.pk = k.session_pk
WHERE k.organization = $1 AND k.user_id = $2 AND k.key = $3

-- name: save_context
INSERT INTO contexts (id, organization, kind, name, definition, updated_at) VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT (organization, kind, name) DO UPDATE
SET definition = excluded.definition, updated_at = excluded.updated_at
RETURNING id

-- name: contexts
SELECT id, kind, name, definition, updated_at FROM contexts WHERE organization = $1 ORDER BY kind, name

-- name: delete_context
DELETE FROM contexts WHERE organization = $1 AND kind = $2 AND name = $3
RETURNING id, kind, name, definition, updated_at
