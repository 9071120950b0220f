-- Settings of one transaction, and savepoints. These statements take no snapshot and are not compiled, whatever the owner
-- of the database has set, as a SELECT of set_config would be. Several of them are sent as one message.

-- name: BeginReadCommitted :exec
BEGIN ISOLATION LEVEL READ COMMITTED;

-- name: Commit :exec
COMMIT;

-- name: SetReadCommitted :exec
SET LOCAL transaction_isolation = 'read committed';

-- name: SetNotDeferrable :exec
SET LOCAL transaction_deferrable = off;

-- name: SetSearchPath :exec
SET LOCAL search_path = pg_catalog, pg_temp;

-- name: SetNoExitOnError :exec
SET LOCAL exit_on_error = off;

-- name: SetNoJIT :exec
SET LOCAL jit = off;

-- name: SetNoStatementTimeout :exec
SET LOCAL statement_timeout = 0;

-- name: SetNoIdleTimeout :exec
SET LOCAL idle_in_transaction_session_timeout = 0;

-- name: SetDurable :exec
SET LOCAL synchronous_commit = on;

-- A wait for a row ends soon, so that others get their turn.
-- name: SetTurn :exec
SET LOCAL lock_timeout = 500;

-- The form of dates that pgx reads.
-- name: SetDates :exec
SET LOCAL datestyle = ISO;

-- With it, the warning of a commit that its standby has not confirmed reaches the client.
-- name: SetWarnings :exec
SET LOCAL client_min_messages = warning;

-- Starting workers takes longer than these statements.
-- name: SetNoWorkers :exec
SET LOCAL max_parallel_workers_per_gather = 0;

-- name: Savepoint :exec
SAVEPOINT pglock;

-- name: ReleaseSavepoint :exec
RELEASE SAVEPOINT pglock;

-- name: RollbackToSavepoint :exec
ROLLBACK TO SAVEPOINT pglock;
