-- Locks in a transaction that the caller already has.
--
-- The guards are in the same statement as the lock, before it, in one CASE. So a refused lock was never taken, and the
-- check costs no extra round trip:
--
--   pglock_standby         a hot standby keeps its own locks, which exclude no sessions elsewhere
--   pglock_stale_snapshot  above READ COMMITTED the transaction reads from a snapshot that is older than the lock
--
-- Every function, type and operator is written with its schema: search_path can give another meaning to one that is not.
--
-- If the caller reads the statement's result, the refusal is its value, and the transaction continues. In a batch it is
-- raised, so that nothing behind it is carried out: current_setting of a name that does not exist is an error with that
-- name in it (42704), and since the name has no dot the setting cannot be created. The function is STABLE, so it is not
-- called while the statement is planned.
--
-- These statements are parsed and planned each time they are used, since preparing them would be a round trip. That is
-- most of what they cost, so there are short ones for exclusive locks of the bigint space.

-- name: LockTx :one
SELECT (CASE
    WHEN NOT @allow_standby::pg_catalog.bool AND pg_catalog.pg_is_in_recovery() THEN 'pglock_standby'
    WHEN NOT @allow_stale::pg_catalog.bool
        AND NOT pg_catalog.starts_with(pg_catalog.current_setting('transaction_isolation'), 'read ')
        THEN 'pglock_stale_snapshot'
    WHEN CASE
        WHEN @waits::pg_catalog.bool THEN pg_catalog.pg_advisory_xact_lock(@number::pg_catalog.int8) IS NOT NULL
        ELSE pg_catalog.pg_try_advisory_xact_lock(@number::pg_catalog.int8)
    END THEN 'granted'
    ELSE 'held'
END)::pg_catalog.text AS outcome;

-- The same for shared locks, for pairs, and for several keys, in the order of the arrays. A key is passed as its space (1 bigint,
-- 2 pair; the objsubid of pg_locks) and its number (a pair packed as class << 32 | object).
-- name: LocksTx :one
SELECT COALESCE(pg_catalog.max(guard.refusal), CASE WHEN pg_catalog.bool_and(CASE
    WHEN guard.refusal IS NOT NULL THEN NULL
    WHEN @waits::pg_catalog.bool AND @shared::pg_catalog.bool AND key.pair
        THEN pg_catalog.pg_advisory_xact_lock_shared(key.class, key.object) IS NOT NULL
    WHEN @waits::pg_catalog.bool AND @shared::pg_catalog.bool
        THEN pg_catalog.pg_advisory_xact_lock_shared(key.number) IS NOT NULL
    WHEN @waits::pg_catalog.bool AND key.pair THEN pg_catalog.pg_advisory_xact_lock(key.class, key.object) IS NOT NULL
    WHEN @waits::pg_catalog.bool THEN pg_catalog.pg_advisory_xact_lock(key.number) IS NOT NULL
    WHEN @shared::pg_catalog.bool AND key.pair THEN pg_catalog.pg_try_advisory_xact_lock_shared(key.class, key.object)
    WHEN @shared::pg_catalog.bool THEN pg_catalog.pg_try_advisory_xact_lock_shared(key.number)
    WHEN key.pair THEN pg_catalog.pg_try_advisory_xact_lock(key.class, key.object)
    ELSE pg_catalog.pg_try_advisory_xact_lock(key.number)
END) THEN 'granted' ELSE 'held' END)::pg_catalog.text AS outcome
FROM pg_catalog.generate_subscripts(@numbers::pg_catalog.int8[], 1) AS i
CROSS JOIN LATERAL (
    SELECT (@spaces::pg_catalog.int2[])[i] OPERATOR(pg_catalog.=) 2 AS pair, (@numbers::pg_catalog.int8[])[i] AS number,
           ((@numbers::pg_catalog.int8[])[i] OPERATOR(pg_catalog.>>) 32)::pg_catalog.int4 AS class,
           ((@numbers::pg_catalog.int8[])[i] OPERATOR(pg_catalog.<<) 32 OPERATOR(pg_catalog.>>) 32)::pg_catalog.int4 AS object
) AS key
CROSS JOIN (
    SELECT CASE
        WHEN NOT @allow_standby::pg_catalog.bool AND pg_catalog.pg_is_in_recovery() THEN 'pglock_standby'
        WHEN NOT @allow_stale::pg_catalog.bool
            AND NOT pg_catalog.starts_with(pg_catalog.current_setting('transaction_isolation'), 'read ')
            THEN 'pglock_stale_snapshot'
    END AS refusal
) AS guard;

-- A lock in a caller's batch.
-- name: QueueLockTx :exec
SELECT CASE
    WHEN NOT @allow_standby::pg_catalog.bool AND pg_catalog.pg_is_in_recovery() THEN pg_catalog.current_setting('pglock_standby')
    WHEN NOT @allow_stale::pg_catalog.bool
        AND NOT pg_catalog.starts_with(pg_catalog.current_setting('transaction_isolation'), 'read ')
        THEN pg_catalog.current_setting('pglock_stale_snapshot')
    WHEN pg_catalog.pg_advisory_xact_lock(@number::pg_catalog.int8) IS NULL THEN NULL
END;

-- Several locks in a batch, or one of another kind, in the order of the arrays. The guard is evaluated before the first lock, since each lock is
-- asked for under a condition on it. One that is held elsewhere, where it is not waited for, is an error with the name
-- pglock_held in it.
--
-- One bound, if it is not 0, is for all the waits together: when a wait begins, lock_timeout is set to the rest of the
-- bound. lock_timeout is read when a wait begins (ProcSleep in proc.c), so setting it in the middle of the statement
-- works; the statement puts it back when the locks are granted, and the abort of the transaction does when they are not.
-- The earlier lock_timeout is read once, before the first wait. With own_timeout each wait ends after it too, if that is
-- earlier.
-- name: QueueLocksTx :exec
WITH before AS MATERIALIZED (
    SELECT pg_catalog.current_setting('lock_timeout') AS lock_timeout, pg_catalog.clock_timestamp() AS began,
           @max_wait_ms::pg_catalog.int8 AS max_wait, CASE
               WHEN @own_timeout::pg_catalog.bool AND pg_catalog.current_setting('lock_timeout') OPERATOR(pg_catalog.<>) '0'
                   THEN (pg_catalog.date_part('epoch', pg_catalog.current_setting('lock_timeout')::pg_catalog.interval)
                       OPERATOR(pg_catalog.*) 1000::pg_catalog.float8)::pg_catalog.int8
           END AS own_timeout, CASE
               WHEN NOT @allow_standby::pg_catalog.bool AND pg_catalog.pg_is_in_recovery()
                   THEN pg_catalog.current_setting('pglock_standby')
               WHEN NOT @allow_stale::pg_catalog.bool
                   AND NOT pg_catalog.starts_with(pg_catalog.current_setting('transaction_isolation'), 'read ')
                   THEN pg_catalog.current_setting('pglock_stale_snapshot')
           END AS refusal
), taken AS MATERIALIZED (
    SELECT before.lock_timeout, CASE
        WHEN before.refusal IS NOT NULL THEN NULL
        WHEN before.max_wait OPERATOR(pg_catalog.>) 0 AND pg_catalog.set_config('lock_timeout', greatest(1, least(before.own_timeout,
            before.max_wait OPERATOR(pg_catalog.-) (1000::pg_catalog.float8 OPERATOR(pg_catalog.*) pg_catalog.date_part('epoch',
            pg_catalog.clock_timestamp() OPERATOR(pg_catalog.-) before.began))::pg_catalog.int8))::pg_catalog.text, true) IS NULL THEN NULL
        WHEN CASE
            WHEN @waits::pg_catalog.bool AND @shared::pg_catalog.bool AND key.pair
                THEN pg_catalog.pg_advisory_xact_lock_shared(key.class, key.object) IS NOT NULL
            WHEN @waits::pg_catalog.bool AND @shared::pg_catalog.bool
                THEN pg_catalog.pg_advisory_xact_lock_shared(key.number) IS NOT NULL
            WHEN @waits::pg_catalog.bool AND key.pair THEN pg_catalog.pg_advisory_xact_lock(key.class, key.object) IS NOT NULL
            WHEN @waits::pg_catalog.bool THEN pg_catalog.pg_advisory_xact_lock(key.number) IS NOT NULL
            WHEN @shared::pg_catalog.bool AND key.pair THEN pg_catalog.pg_try_advisory_xact_lock_shared(key.class, key.object)
            WHEN @shared::pg_catalog.bool THEN pg_catalog.pg_try_advisory_xact_lock_shared(key.number)
            WHEN key.pair THEN pg_catalog.pg_try_advisory_xact_lock(key.class, key.object)
            ELSE pg_catalog.pg_try_advisory_xact_lock(key.number)
        END THEN NULL
        ELSE pg_catalog.current_setting('pglock_held')
    END AS lock
    FROM before CROSS JOIN pg_catalog.generate_subscripts(@numbers::pg_catalog.int8[], 1) AS i
    CROSS JOIN LATERAL (
        SELECT (@spaces::pg_catalog.int2[])[i] OPERATOR(pg_catalog.=) 2 AS pair, (@numbers::pg_catalog.int8[])[i] AS number,
               ((@numbers::pg_catalog.int8[])[i] OPERATOR(pg_catalog.>>) 32)::pg_catalog.int4 AS class,
               ((@numbers::pg_catalog.int8[])[i] OPERATOR(pg_catalog.<<) 32 OPERATOR(pg_catalog.>>) 32)::pg_catalog.int4 AS object
    ) AS key
)
SELECT pg_catalog.set_config('lock_timeout', pg_catalog.max(taken.lock_timeout), true) FROM taken;
