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
-- pglock_held in it, and the number of the key behind that.
--
-- One bound, if it is not 0, is for all the waits together: when a wait begins, lock_timeout is set to the rest of the
-- bound. lock_timeout is read when a wait begins (ProcSleep in proc.c), so setting it in the middle of the statement
-- works; the statement puts it back when the locks are granted, and the abort of the transaction does when they are not.
-- The earlier lock_timeout is read once, before the first wait.
-- name: QueueLocksTx :exec
WITH before AS MATERIALIZED (
    SELECT pg_catalog.current_setting('lock_timeout') AS lock_timeout, pg_catalog.clock_timestamp() AS began,
           @max_wait_ms::pg_catalog.int8 AS max_wait, CASE
               WHEN NOT @allow_standby::pg_catalog.bool AND pg_catalog.pg_is_in_recovery()
                   THEN pg_catalog.current_setting('pglock_standby')
               WHEN NOT @allow_stale::pg_catalog.bool
                   AND NOT pg_catalog.starts_with(pg_catalog.current_setting('transaction_isolation'), 'read ')
                   THEN pg_catalog.current_setting('pglock_stale_snapshot')
           END AS refusal
), taken AS MATERIALIZED (
    SELECT before.lock_timeout, CASE
        WHEN before.refusal IS NOT NULL THEN NULL
        WHEN before.max_wait OPERATOR(pg_catalog.>) 0 AND pg_catalog.set_config('lock_timeout', greatest(1,
            before.max_wait OPERATOR(pg_catalog.-) (1000::pg_catalog.float8 OPERATOR(pg_catalog.*) pg_catalog.date_part('epoch',
            pg_catalog.clock_timestamp() OPERATOR(pg_catalog.-) before.began))::pg_catalog.int8)::pg_catalog.text, true) IS NULL THEN NULL
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
        ELSE pg_catalog.current_setting(pg_catalog.concat('pglock_held_', i))
    END AS lock
    FROM before CROSS JOIN pg_catalog.generate_subscripts(@numbers::pg_catalog.int8[], 1) AS i
    CROSS JOIN LATERAL (
        SELECT (@spaces::pg_catalog.int2[])[i] OPERATOR(pg_catalog.=) 2 AS pair, (@numbers::pg_catalog.int8[])[i] AS number,
               ((@numbers::pg_catalog.int8[])[i] OPERATOR(pg_catalog.>>) 32)::pg_catalog.int4 AS class,
               ((@numbers::pg_catalog.int8[])[i] OPERATOR(pg_catalog.<<) 32 OPERATOR(pg_catalog.>>) 32)::pg_catalog.int4 AS object
    ) AS key
)
SELECT pg_catalog.set_config('lock_timeout', pg_catalog.max(taken.lock_timeout), true) FROM taken;

-- The next three are sent as one simple-protocol message: a bounded wait after which the transaction can go on. Only an
-- exception block (a subtransaction) survives the error of lock_timeout, and a DO block is the only one that needs
-- nothing installed. It takes no parameters and returns nothing. So the parameters and the result are passed in
-- settings local to the transaction, and the outcome is the number of rows of the last statement: 1 granted, 2 not in
-- time, 3 and 4 the refusals, 5 not within the session's own lock_timeout. No rows mean that there is no answer. The
-- settings are read before the first lock is asked for.
--
-- A bound that the caller asked for takes the place of the session's own lock_timeout; one that comes from a context's
-- deadline (own_timeout) leaves a shorter one in force.

-- name: BeginBoundedWait :exec
SELECT pg_catalog.set_config('pglock.spaces', (@spaces::pg_catalog.int2[])::pg_catalog.text, true),
       pg_catalog.set_config('pglock.numbers', (@numbers::pg_catalog.int8[])::pg_catalog.text, true),
       pg_catalog.set_config('pglock.shared', (@shared::pg_catalog.bool)::pg_catalog.text, true),
       pg_catalog.set_config('pglock.max_wait', (@max_wait_ms::pg_catalog.int8)::pg_catalog.text, true),
       pg_catalog.set_config('pglock.own_timeout', (@own_timeout::pg_catalog.bool)::pg_catalog.text, true),
       pg_catalog.set_config('pglock.allow_standby', (@allow_standby::pg_catalog.bool)::pg_catalog.text, true),
       pg_catalog.set_config('pglock.allow_stale', (@allow_stale::pg_catalog.bool)::pg_catalog.text, true);

-- name: BoundedWait :exec
DO $pglock$
DECLARE
    spaces pg_catalog.int2[] := pg_catalog.current_setting('pglock.spaces');
    numbers pg_catalog.int8[] := pg_catalog.current_setting('pglock.numbers');
    shared pg_catalog.bool := pg_catalog.current_setting('pglock.shared');
    deadline pg_catalog.timestamptz := pg_catalog.clock_timestamp() OPERATOR(pg_catalog.+) pg_catalog.make_interval(secs =>
        pg_catalog.current_setting('pglock.max_wait')::pg_catalog.float8 OPERATOR(pg_catalog./) 1000::pg_catalog.float8);
    remaining pg_catalog.int8;
    lock_timeout_before pg_catalog.text := pg_catalog.current_setting('lock_timeout');
    own pg_catalog.int8 := 0;
    late pg_catalog.int4 := 2;
    outcome pg_catalog.int4 := 1;
    class pg_catalog.int4;
    object pg_catalog.int4;
BEGIN
    IF pg_catalog.current_setting('pglock.own_timeout')::pg_catalog.bool THEN
        own := pg_catalog.date_part('epoch', lock_timeout_before::pg_catalog.interval) OPERATOR(pg_catalog.*) 1000::pg_catalog.float8;
    END IF;
    IF NOT pg_catalog.current_setting('pglock.allow_standby')::pg_catalog.bool AND pg_catalog.pg_is_in_recovery() THEN
        outcome := 3;
    ELSIF NOT pg_catalog.current_setting('pglock.allow_stale')::pg_catalog.bool
        AND NOT pg_catalog.starts_with(pg_catalog.current_setting('transaction_isolation'), 'read ') THEN
        outcome := 4;
    ELSE
        BEGIN
            FOR i IN 1 .. pg_catalog.array_length(numbers, 1) LOOP
                remaining := pg_catalog.ceil(pg_catalog.date_part('epoch', deadline OPERATOR(pg_catalog.-)
                    pg_catalog.clock_timestamp()) OPERATOR(pg_catalog.*) 1000::pg_catalog.float8)::pg_catalog.int8;
                late := 2;
                IF own OPERATOR(pg_catalog.>) 0 AND own OPERATOR(pg_catalog.<) remaining THEN
                    late := 5;
                    remaining := own;
                END IF;
                PERFORM pg_catalog.set_config('lock_timeout', greatest(remaining, 1)::pg_catalog.text, true);
                class := numbers[i] OPERATOR(pg_catalog.>>) 32;
                object := numbers[i] OPERATOR(pg_catalog.<<) 32 OPERATOR(pg_catalog.>>) 32;
                IF spaces[i] OPERATOR(pg_catalog.=) 1 AND shared THEN
                    PERFORM pg_catalog.pg_advisory_xact_lock_shared(numbers[i]);
                ELSIF spaces[i] OPERATOR(pg_catalog.=) 1 THEN
                    PERFORM pg_catalog.pg_advisory_xact_lock(numbers[i]);
                ELSIF shared THEN
                    PERFORM pg_catalog.pg_advisory_xact_lock_shared(class, object);
                ELSE
                    PERFORM pg_catalog.pg_advisory_xact_lock(class, object);
                END IF;
            END LOOP;
            PERFORM pg_catalog.set_config('lock_timeout', lock_timeout_before, true);
        EXCEPTION WHEN lock_not_available THEN
            -- The subtransaction's end has put lock_timeout back and freed what this block had locked.
            outcome := late;
        END;
    END IF;
    PERFORM pg_catalog.set_config('pglock.outcome', outcome::pg_catalog.text, true);
END
$pglock$;

-- name: EndBoundedWait :exec
SELECT FROM pg_catalog.generate_series(1, pg_catalog.current_setting('pglock.outcome')::pg_catalog.int4);
