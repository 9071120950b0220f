-- The sessions of a Locker: separate connections, in autocommit, that hold locks across transactions.
--
-- Every statement that locks carries the guards that queries/locks.sql explains, and one more: pid is the process ID
-- that the server gave when the connection was made (BackendKeyData). Behind a proxy that hands server sessions around
-- the statement runs in another process, and is refused before it has changed anything.

-- Makes a new session independent of what role, database and pool are configured to do: nothing may end a session that
-- is idle and holds locks, or a statement that waits, but this library. (The connection has set what every session of this
-- library needs.) Settings that a server does not have are not
-- found in pg_settings; client_connection_check_interval cannot be set where the operating system lacks what it needs.
-- idle_session_timeout is the lease: the server ends a session that it has heard nothing from for so long.
-- server tells the server and the database apart from others: a standby that was promoted has its own start time. Fence
-- asks for it in this statement and not later, when a locked catalog would cost the session.
-- name: SetUpSession :one
SELECT (CASE
        WHEN guard.refusal IS NOT NULL THEN guard.refusal
        WHEN (SELECT pg_catalog.count(pg_catalog.set_config(s.name, own.value, false))
              FROM (VALUES ('lock_timeout', '0'), ('idle_in_transaction_session_timeout', '0'), ('transaction_timeout', '0'),
                           ('synchronous_commit', 'local'), ('plan_cache_mode', 'force_generic_plan'),
                           ('idle_session_timeout', @lease_ms::pg_catalog.text), ('tcp_user_timeout', @lease_ms::pg_catalog.text),
                           ('client_connection_check_interval', @check_ms::pg_catalog.text),
                           ('tcp_keepalives_idle', @keepalive_idle::pg_catalog.text),
                           ('tcp_keepalives_interval', @keepalive_interval::pg_catalog.text),
                           ('tcp_keepalives_count', @keepalive_count::pg_catalog.text)) AS own (name, value)
              JOIN pg_catalog.pg_settings AS s ON s.name OPERATOR(pg_catalog.=) own.name
              WHERE own.name OPERATOR(pg_catalog.<>) 'client_connection_check_interval'
                 OR pg_catalog.strpos(pg_catalog.version(), 'linux') OPERATOR(pg_catalog.>) 0) OPERATOR(pg_catalog.>) 0
            THEN 'granted'
        ELSE 'pglock_settings' END)::pg_catalog.text AS outcome,
       pg_catalog.current_setting('server_version_num')::pg_catalog.int4 AS version,
       (pg_catalog.current_setting('max_locks_per_transaction')::pg_catalog.int8
           OPERATOR(pg_catalog.*) (pg_catalog.current_setting('max_connections')::pg_catalog.int8
              OPERATOR(pg_catalog.+) pg_catalog.current_setting('max_prepared_transactions')::pg_catalog.int8))::pg_catalog.int8 AS lock_table,
       pg_catalog.concat((pg_catalog.date_part('epoch', pg_catalog.pg_postmaster_start_time())
           OPERATOR(pg_catalog.*) 1000000)::pg_catalog.int8, '/', pg_catalog.current_database())::pg_catalog.text AS server,
       (SELECT d.oid FROM pg_catalog.pg_database AS d
        WHERE d.datname OPERATOR(pg_catalog.=) pg_catalog.current_database())::pg_catalog.int8 AS database
FROM (SELECT CASE
                 WHEN @pid::pg_catalog.int4 OPERATOR(pg_catalog.<>) 0
                     AND pg_catalog.pg_backend_pid() OPERATOR(pg_catalog.<>) @pid::pg_catalog.int4 THEN 'pglock_pooler'
                 WHEN NOT @allow_standby::pg_catalog.bool AND pg_catalog.pg_is_in_recovery() THEN 'pglock_standby'
             END AS refusal) AS guard;

-- Proves that the server keeps locks, and that no other connection shares the session: a shared lock on the identity of
-- another session (queries/guard.sql), the witness, must be refused. Then the session takes an identity of its own, if another
-- one does not have it; where there is no witness, it looks itself up. 0 is no witness. The parts of a CASE are evaluated in
-- their order, and the EXISTS when it is reached.
-- name: ProveSession :one
SELECT (CASE
    WHEN @pid::pg_catalog.int4 OPERATOR(pg_catalog.<>) 0
        AND pg_catalog.pg_backend_pid() OPERATOR(pg_catalog.<>) @pid::pg_catalog.int4 THEN 'pglock_pooler'
    WHEN CASE WHEN @witness::pg_catalog.int4 OPERATOR(pg_catalog.<>) 0
        THEN pg_catalog.pg_try_advisory_lock_shared(@class::pg_catalog.int4, @witness::pg_catalog.int4) END THEN 'free'
    WHEN NOT pg_catalog.pg_try_advisory_lock(@class::pg_catalog.int4, @object::pg_catalog.int4) THEN 'held'
    WHEN @witness::pg_catalog.int4 OPERATOR(pg_catalog.<>) 0 THEN 'own'
    WHEN EXISTS (
        SELECT FROM pg_catalog.pg_locks AS l
        WHERE l.locktype OPERATOR(pg_catalog.=) 'advisory' AND l.pid OPERATOR(pg_catalog.=) pg_catalog.pg_backend_pid() AND l.granted
            AND l.classid OPERATOR(pg_catalog.=) (@class::pg_catalog.int4)::pg_catalog.oid
            AND l.objid OPERATOR(pg_catalog.=) (@object::pg_catalog.int4)::pg_catalog.oid AND l.objsubid OPERATOR(pg_catalog.=) 2)
        THEN 'own'
    ELSE 'nothing' END)::pg_catalog.text AS proof;

-- Gives back a witness's identity that was free.
-- name: FreeWitness :one
SELECT pg_catalog.pg_advisory_unlock_shared(@class::pg_catalog.int4, @witness::pg_catalog.int4)::pg_catalog.text AS freed;

-- Tells the servers of one cluster, between which there can be a failover, from others: a standby that is promoted has the
-- same system identifier, and begins a timeline.
-- name: ServerBranch :one
SELECT pg_catalog.concat(c.system_identifier, '/', pg_catalog.substr(pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_lsn()), 1, 8))::pg_catalog.text AS branch
FROM pg_catalog.pg_control_system() AS c;

-- Takes a lock, waiting for it. The operations are those of Batch.
-- name: LockSession :one
SELECT (CASE
    WHEN @pid::int4 <> 0 AND pg_catalog.pg_backend_pid() <> @pid::int4 THEN 'pglock_pooler'
    WHEN CASE @operation::int2
        WHEN 0 THEN pg_catalog.pg_advisory_lock(@number::int8)
        WHEN 1 THEN pg_catalog.pg_advisory_lock((@number::int8 >> 32)::int4, (@number::int8 << 32 >> 32)::int4)
        WHEN 2 THEN pg_catalog.pg_advisory_lock_shared(@number::int8)
        WHEN 3 THEN pg_catalog.pg_advisory_lock_shared((@number::int8 >> 32)::int4, (@number::int8 << 32 >> 32)::int4)
    END IS NOT NULL THEN 'granted' END)::text AS outcome;

-- Releases everything that the session holds but its identity, 0 if it has none, which it takes again at once. False says that
-- another session was faster.
-- name: UnlockAllSession :one
SELECT (CASE
    WHEN pg_catalog.pg_advisory_unlock_all() IS NULL THEN false
    WHEN @object::int4 = 0 THEN true
    ELSE pg_catalog.pg_try_advisory_lock(@class::int4, @object::int4) END)::bool AS kept;

-- Whether the session holds the key, as the lock manager has it.
-- name: CheckSession :one
SELECT EXISTS (
    SELECT FROM pg_catalog.pg_locks AS l
    WHERE l.locktype = 'advisory' AND l.pid = pg_catalog.pg_backend_pid() AND l.granted
      AND l.objsubid = @space::int2
      AND l.classid = ((@number::int8 >> 32) & 4294967295)::oid AND l.objid = (@number::int8 & 4294967295)::oid) AS held;

-- Any answer shows that the session lives.
-- name: Heartbeat :exec
SELECT 1;

-- Whether a session waits for an exclusive lock of a key.
-- name: WriterWaits :one
SELECT EXISTS (
    SELECT FROM pg_catalog.pg_locks AS l
    WHERE l.locktype = 'advisory' AND NOT l.granted AND l.mode = 'ExclusiveLock'
      AND l.objsubid = @space::int2
      AND l.classid = ((@number::int8 >> 32) & 4294967295)::oid AND l.objid = (@number::int8 & 4294967295)::oid
      AND l.database = (SELECT d.oid FROM pg_catalog.pg_database AS d WHERE d.datname = pg_catalog.current_database()))
    AS waits;

-- The holders of the keys in this database, as JSON, so that the result is one value on every kind of connection. A
-- prepared transaction has no pid; its name is found through the transaction ID lock of the same virtual transaction. Names of
-- roles are in the encodings of the databases in which they were made, so names come as hexadecimal digits. @own: also of the
-- session that asks.
-- name: Holders :one
SELECT coalesce(pg_catalog.json_agg(pg_catalog.json_build_object(
        'Shared', l.mode OPERATOR(pg_catalog.=) 'ShareLock',
        'PID', coalesce(l.pid, 0),
        'Prepared', coalesce(pg_catalog.encode(pg_catalog.decode(pg_catalog.replace(p.gid, pg_catalog.chr(92), pg_catalog.repeat(pg_catalog.chr(92), 2)), 'escape'), 'hex'), ''),
        'User', coalesce(pg_catalog.encode(pg_catalog.decode(pg_catalog.replace(a.usename::pg_catalog.text, pg_catalog.chr(92), pg_catalog.repeat(pg_catalog.chr(92), 2)), 'escape'), 'hex'), ''),
        'Application', coalesce(a.application_name, ''),
        'Client', coalesce(pg_catalog.host(a.client_addr), CASE WHEN a.client_port OPERATOR(pg_catalog.<) 0 THEN 'local' END, ''),
        'SessionSince', a.backend_start) ORDER BY a.backend_start, l.pid), '[]')::pg_catalog.text AS holders
FROM pg_catalog.generate_subscripts(@numbers::pg_catalog.int8[], 1) AS i
JOIN pg_catalog.pg_locks AS l
    ON l.locktype OPERATOR(pg_catalog.=) 'advisory' AND l.granted
   AND l.objsubid OPERATOR(pg_catalog.=) (@spaces::pg_catalog.int2[])[i]
   AND l.classid OPERATOR(pg_catalog.=) (((@numbers::pg_catalog.int8[])[i] OPERATOR(pg_catalog.>>) 32) OPERATOR(pg_catalog.&) 4294967295)::pg_catalog.oid
   AND l.objid OPERATOR(pg_catalog.=) ((@numbers::pg_catalog.int8[])[i] OPERATOR(pg_catalog.&) 4294967295)::pg_catalog.oid
   AND (@own::boolean OR l.pid IS NULL OR l.pid OPERATOR(pg_catalog.<>) pg_catalog.pg_backend_pid())
LEFT JOIN pg_catalog.pg_stat_activity AS a ON a.pid OPERATOR(pg_catalog.=) l.pid
LEFT JOIN pg_catalog.pg_locks AS x
    ON l.pid IS NULL AND x.pid IS NULL AND x.locktype OPERATOR(pg_catalog.=) 'transactionid' AND x.virtualtransaction OPERATOR(pg_catalog.=) l.virtualtransaction
LEFT JOIN pg_catalog.pg_prepared_xacts AS p ON p.transaction OPERATOR(pg_catalog.=) x.transactionid
WHERE l.database OPERATOR(pg_catalog.=) (SELECT d.oid FROM pg_catalog.pg_database AS d WHERE d.datname OPERATOR(pg_catalog.=) pg_catalog.current_database());

-- The main sessions hold many locks at once, and never wait for one. A session prepares these statements with its own
-- process ID as the last parameter, which saves the server work each time. No row says that a proxy is in between: the
-- WHERE is evaluated before the rest. The first two are for few callers.

-- name: TryOne :one
SELECT pg_catalog.pg_try_advisory_lock(@number::int8) AS done
WHERE @pid::int4 = 0 OR pg_catalog.pg_backend_pid() = @pid::int4;

-- name: UnlockOne :one
SELECT pg_catalog.pg_advisory_unlock(@number::int8) AS done
WHERE @pid::int4 = 0 OR pg_catalog.pg_backend_pid() = @pid::int4;

-- The operations that callers have queued while the session was busy, in one statement. An operation is the sum of 1
-- for a key of the space of pairs, 2 for shared, 4 for a release. NULL means no row.
-- name: Batch :one
SELECT array_agg(CASE (@operations::int2[])[i]
           WHEN 0 THEN pg_catalog.pg_try_advisory_lock((@numbers::int8[])[i])
           WHEN 1 THEN pg_catalog.pg_try_advisory_lock(
               ((@numbers::int8[])[i] >> 32)::int4, ((@numbers::int8[])[i] << 32 >> 32)::int4)
           WHEN 2 THEN pg_catalog.pg_try_advisory_lock_shared((@numbers::int8[])[i])
           WHEN 3 THEN pg_catalog.pg_try_advisory_lock_shared(
               ((@numbers::int8[])[i] >> 32)::int4, ((@numbers::int8[])[i] << 32 >> 32)::int4)
           WHEN 4 THEN pg_catalog.pg_advisory_unlock((@numbers::int8[])[i])
           WHEN 5 THEN pg_catalog.pg_advisory_unlock(
               ((@numbers::int8[])[i] >> 32)::int4, ((@numbers::int8[])[i] << 32 >> 32)::int4)
           WHEN 6 THEN pg_catalog.pg_advisory_unlock_shared((@numbers::int8[])[i])
           WHEN 7 THEN pg_catalog.pg_advisory_unlock_shared(
               ((@numbers::int8[])[i] >> 32)::int4, ((@numbers::int8[])[i] << 32 >> 32)::int4)
       END)::bool[] AS done
FROM pg_catalog.generate_subscripts(@numbers::int8[], 1) AS i
WHERE @pid::int4 = 0 OR pg_catalog.pg_backend_pid() = @pid::int4;

-- The same for exclusive locks of the bigint space, which is what most callers want and costs a quarter less: the
-- releases, then the tries.
-- name: PlainBatch :one
SELECT ARRAY(SELECT pg_catalog.pg_advisory_unlock(pg_catalog.unnest(@releases::int8[]))
             UNION ALL
             SELECT pg_catalog.pg_try_advisory_lock(pg_catalog.unnest(@tries::int8[])))::bool[] AS done
WHERE @pid::int4 = 0 OR pg_catalog.pg_backend_pid() = @pid::int4;

-- Which locks of a batch that failed half way the session holds now, in the same order. It is a join, since both lists
-- may be long.
-- name: Reconcile :one
SELECT array_agg(held.number IS NOT NULL ORDER BY wanted.i)::bool[] AS held
FROM (SELECT i,
             coalesce((@operations::int2[])[i], 0) & 1 AS pair,
             CASE WHEN coalesce((@operations::int2[])[i], 0) & 2 = 0 THEN 'ExclusiveLock' ELSE 'ShareLock' END AS mode,
             (@numbers::int8[])[i] AS number
      FROM pg_catalog.generate_subscripts(@numbers::int8[], 1) AS i) AS wanted
LEFT JOIN (SELECT l.objsubid - 1 AS pair, l.mode, (l.classid::int8 << 32) | l.objid::int8 AS number
           FROM pg_catalog.pg_locks AS l
           WHERE l.locktype = 'advisory' AND l.granted AND l.pid = pg_catalog.pg_backend_pid()) AS held
    ON held.number = wanted.number AND held.pair = wanted.pair AND held.mode = wanted.mode
WHERE @pid::int4 = 0 OR pg_catalog.pg_backend_pid() = @pid::int4;

-- A session that waits in the server's queue without a snapshot. A blocked SELECT pg_advisory_lock holds a snapshot,
-- which pins the vacuum horizon (backend_xmin). CREATE INDEX CONCURRENTLY waits for it, for ever if the session that
-- builds the index holds the lock. But PL/pgSQL takes no snapshot to evaluate the CHECK of a domain when GET
-- DIAGNOSTICS assigns to a variable of that domain (exec_stmt_getdiag, exec_assign_value and exec_cast_value in
-- pl_exec.c), so the lock is taken there. The transaction that read the parameters is committed before, which releases
-- its snapshot. A CHECK has no parameters, so settings carry them.
--
-- Before that the server may have to read its catalogs, especially while they change, and the snapshot that it takes to
-- read them stays until the transaction ends. An SQL function takes its own snapshot, which replaces that one, and
-- releases it when it returns (fmgr_sql in functions.c, GetTransactionSnapshot and PopActiveSnapshot in snapmgr.c). The
-- first call may itself read catalogs; the second one finds everything in the caches. So the CHECK calls such a
-- function twice, and then locks. The CHECK is also evaluated when the variable is declared; there is nothing to lock
-- yet then.

-- It has two statements so that the planner does not inline it.
-- name: CreateSettleFunction :exec
CREATE FUNCTION pg_temp.pglock_settle() RETURNS bool LANGUAGE sql VOLATILE AS 'SELECT 1; SELECT true';

-- name: CreateWaitDomain :exec
CREATE DOMAIN pg_temp.pglock_wait AS bigint CHECK (CASE
    WHEN pg_catalog.current_setting('pglock.operation') = '' THEN true
    WHEN pg_temp.pglock_settle() AND pg_temp.pglock_settle() THEN CASE pg_catalog.current_setting('pglock.operation')
        WHEN '0' THEN pg_catalog.pg_advisory_lock(pg_catalog.current_setting('pglock.number')::int8) IS NOT NULL
        WHEN '1' THEN pg_catalog.pg_advisory_lock(
            (pg_catalog.current_setting('pglock.number')::int8 >> 32)::int4,
            (pg_catalog.current_setting('pglock.number')::int8 << 32 >> 32)::int4) IS NOT NULL
        WHEN '2' THEN pg_catalog.pg_advisory_lock_shared(pg_catalog.current_setting('pglock.number')::int8) IS NOT NULL
        WHEN '3' THEN pg_catalog.pg_advisory_lock_shared(
            (pg_catalog.current_setting('pglock.number')::int8 >> 32)::int4,
            (pg_catalog.current_setting('pglock.number')::int8 << 32 >> 32)::int4) IS NOT NULL
        END
    END);

-- name: PrepareWait :one
SELECT (CASE WHEN @pid::int4 <> 0 AND pg_catalog.pg_backend_pid() <> @pid::int4 THEN 'pglock_pooler'
        WHEN (pg_catalog.set_config('pglock.operation', '', false)
              || pg_catalog.set_config('pglock.next', @operation::text, false)
              || pg_catalog.set_config('pglock.number', (@number::int8)::text, false)) <> '' THEN 'granted'
        ELSE 'pglock_settings' END)::text AS outcome;

-- A procedure instead of a DO block: the server compiles a DO block each time, and frees it before it reports the end
-- of the wait, which makes that report a tenth slower.
-- name: CreateWaitProcedure :exec
CREATE PROCEDURE pg_temp.pglock_wait() LANGUAGE plpgsql AS $pglock$
DECLARE
    value pg_temp.pglock_wait;
BEGIN
    PERFORM pg_catalog.set_config('pglock.operation', pg_catalog.current_setting('pglock.next'), false);
    COMMIT;
    GET DIAGNOSTICS value = ROW_COUNT;
END
$pglock$;

-- name: WaitWithoutSnapshot :exec
CALL pg_temp.pglock_wait();

-- If no session can wait without a snapshot, LockSession waits in slices, between which nothing is held back. A slice
-- must be longer than deadlock_timeout, after which PostgreSQL looks for deadlocks.
-- name: SliceWaits :exec
SELECT pg_catalog.set_config('lock_timeout', greatest(2000, 2 * s.setting::int8)::text, false)
FROM pg_catalog.pg_settings AS s
WHERE s.name = 'deadlock_timeout';

-- Whether another session of this Locker waits for an advisory lock; no row if it does not, or if there is none. The name
-- says that it is one of this process, as in CancelWait.
-- name: WaitStands :one
SELECT true AS stands
FROM pg_catalog.pg_stat_get_activity(@pid::int4) AS a
WHERE a.wait_event_type = 'Lock' AND a.wait_event = 'advisory'
    AND a.application_name = pg_catalog.current_setting('application_name');

-- Cancels the wait of another session of this Locker for an advisory lock; no row if it does not wait. The name says that
-- it is one of this process, and not one of another server after a failover. The view pg_stat_activity would need locks
-- that cannot be had while the lock table is full.
-- name: CancelWait :one
SELECT pg_catalog.pg_cancel_backend(a.pid) AS cancelled
FROM pg_catalog.pg_stat_get_activity(@pid::int4) AS a
WHERE a.wait_event_type = 'Lock' AND a.wait_event = 'advisory'
    AND a.application_name = pg_catalog.current_setting('application_name');
