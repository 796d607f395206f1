-- name: insert_process
INSERT INTO processes (session_pk, owner, process_group, started) VALUES ($1, $2, $3, $4)

-- name: delete_process
DELETE FROM processes WHERE owner = $1 AND process_group = $2

-- name: delete_processes_of_session
DELETE FROM processes WHERE session_pk = $1 AND owner = $2

-- name: processes_of_session
SELECT process_group, started, owner FROM processes WHERE session_pk = $1

-- name: process_owners
SELECT DISTINCT owner FROM processes

-- Of several nodes that find the same dead one, each process goes to the node that gets here first.
-- name: claim_processes
UPDATE processes SET owner = $1 WHERE owner = $2 RETURNING session_pk, process_group, started

-- name: session_id_by_pk
SELECT id FROM sessions WHERE pk = $1
