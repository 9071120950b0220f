-- Transactions that cannot commit what a lost lock should have protected.
--
-- A lock session holds an identity: a pair key of one fixed class with a random object. A guarded transaction takes, to
-- its end, a lock on the companion of each key, and then makes sure that the identity is held: if a shared lock on it can
-- be had, the session has ended, and the statement raises. If the session ends afterwards, the next holder's guarded
-- transaction waits on the companions until this one has ended: what they do stays in order. It also shows that both
-- connections are in the same database.

-- name: TakeIdentity :one
SELECT (CASE WHEN @pid::int4 = 0 OR pg_catalog.pg_backend_pid() = @pid::int4
    THEN pg_catalog.pg_try_advisory_lock(@class::int4, @object::int4) END)::bool AS taken;

-- name: GuardTx :one
SELECT (CASE
        WHEN max(guard.refusal) IS NOT NULL THEN max(guard.refusal)
        WHEN count(CASE
                WHEN guard.refusal IS NOT NULL THEN NULL
                WHEN @shared::bool THEN pg_catalog.pg_advisory_xact_lock_shared((@companions::int8[])[i])
                ELSE pg_catalog.pg_advisory_xact_lock((@companions::int8[])[i])
            END) >= 0
            AND pg_catalog.pg_try_advisory_xact_lock_shared(@class::int4, @object::int4)
            THEN pg_catalog.current_setting('pglock_lost')
        ELSE 'granted' END)::text AS outcome
FROM pg_catalog.generate_subscripts(@companions::int8[], 1) AS i,
     (SELECT CASE
                 WHEN pg_catalog.current_setting('transaction_isolation') IN ('repeatable read', 'serializable')
                     THEN 'pglock_stale_snapshot'
             END AS refusal) AS guard;

-- For a lock whose loss is known without asking: the transaction must not be able to commit either.
-- name: AbortGuarded :exec
SELECT pg_catalog.current_setting('pglock_lost');
