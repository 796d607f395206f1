-- name: insert_binding
INSERT INTO bindings (organization, rule, created_at) VALUES ($1, $2, $3) RETURNING pk

-- name: bindings
SELECT pk, rule, created_at FROM bindings WHERE organization = $1 ORDER BY pk

-- name: delete_binding
DELETE FROM bindings WHERE organization = $1 AND pk = $2 RETURNING pk, rule, created_at

-- A lease that has ended stays as a row, so that its token is never given again. 0 is "released". How many
-- joined and were not answered is kept, too: the next holder answers them.
-- name: take_lease
INSERT INTO turn_leases (session_pk, token, expires_at, interrupted, joined, owner) VALUES ($1, 1, $2, 0, 0, $3)
ON CONFLICT (session_pk) DO UPDATE
SET token = turn_leases.token + 1, expires_at = excluded.expires_at, interrupted = 0, owner = excluded.owner
WHERE turn_leases.expires_at <= $4
RETURNING token

-- name: renew_lease
UPDATE turn_leases SET expires_at = $1 WHERE session_pk = $2 AND token = $3 AND expires_at > 0
RETURNING interrupted

-- name: release_lease
UPDATE turn_leases SET expires_at = 0 WHERE session_pk = $1 AND token = $2 AND (joined = 0 OR $3 = 1)
RETURNING token

-- What was interrupted is the turn that ended, not the one in which those who joined are answered.
-- name: go_on
UPDATE turn_leases SET interrupted = 0 WHERE session_pk = $1 AND token = $2 AND expires_at > 0 RETURNING token

-- name: lock_running_lease
UPDATE turn_leases SET joined = joined
WHERE session_pk = $1 AND expires_at > $2 AND coalesce(owner <> $3, TRUE)
RETURNING token

-- name: count_joined
UPDATE turn_leases SET joined = joined + 1 WHERE session_pk = $1

-- name: answer_joined
UPDATE turn_leases SET joined = CASE WHEN joined > $1 THEN joined - $1 ELSE 0 END WHERE session_pk = $2

-- name: joined_count
SELECT joined FROM turn_leases WHERE session_pk = $1

-- name: lease_owner
SELECT owner FROM turn_leases WHERE session_pk = $1

-- name: interrupt_lease
UPDATE turn_leases SET interrupted = 1 WHERE session_pk = $1 AND expires_at > $2 RETURNING token

-- name: lease_owners
SELECT DISTINCT owner FROM turn_leases WHERE expires_at > 0 AND owner IS NOT NULL

-- name: free_leases
UPDATE turn_leases SET expires_at = 0 WHERE owner = $1

-- name: lease_expiry
SELECT expires_at FROM turn_leases WHERE session_pk = $1

-- name: rekey_session
UPDATE sessions SET key = $1, agent = $2, channel = $3, account = $4, peer_kind = $5, peer = $6, status = $7,
    archived_from = $8
WHERE pk = $9

-- name: insert_moves
INSERT INTO session_moves (organization, at, steps) VALUES ($1, $2, $3) RETURNING pk

-- name: last_moves
SELECT pk, at, undone_at, steps FROM session_moves WHERE organization = $1 AND undone_at IS NULL
ORDER BY pk DESC LIMIT 1

-- The condition holds against another node that undid them a moment ago.
-- name: undo_moves
UPDATE session_moves SET undone_at = $1 WHERE pk = $2 AND undone_at IS NULL RETURNING pk
