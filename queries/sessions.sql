-- The sessions of a Locker: connections of its own, in autocommit, that hold locks across transactions.
--
-- Every statement that locks carries the guards that queries/locks.sql explains, and one more: pid is the process ID
-- that the server gave when the connection was made (BackendKeyData). Behind a proxy that hands server sessions around
-- the statement runs in another process, and is refused before it has changed anything.

-- Makes a new session independent of what role, database and pool are configured to do: nothing may end a session that
-- is idle and holds locks, or a statement that waits, but this library. Settings that a server does not have are not
-- found in pg_settings; client_connection_check_interval cannot be set where the operating system lacks what it needs.
-- idle_session_timeout is the lease: the server ends a session that it has heard nothing from for so long.
-- name: SetUpSession :one
SELECT (CASE
        WHEN guard.refusal IS NOT NULL THEN guard.refusal
        WHEN (SELECT count(pg_catalog.set_config(s.name, CASE s.name
                      WHEN 'statement_timeout' THEN '0'
                      WHEN 'lock_timeout' THEN '0'
                      WHEN 'idle_in_transaction_session_timeout' THEN '0'
                      WHEN 'transaction_timeout' THEN '0'
                      WHEN 'default_transaction_isolation' THEN 'read committed'
                      WHEN 'synchronous_commit' THEN 'local'
                      WHEN 'idle_session_timeout' THEN @lease_ms::text
                      WHEN 'tcp_user_timeout' THEN @lease_ms::text
                      WHEN 'client_connection_check_interval' THEN @check_ms::text
                      WHEN 'tcp_keepalives_idle' THEN @keepalive_idle::text
                      WHEN 'tcp_keepalives_interval' THEN @keepalive_interval::text
                      WHEN 'tcp_keepalives_count' THEN @keepalive_count::text
                  END, false))
              FROM pg_catalog.pg_settings AS s
              WHERE s.name IN ('statement_timeout', 'lock_timeout', 'idle_in_transaction_session_timeout',
                               'transaction_timeout', 'default_transaction_isolation', 'synchronous_commit',
                               'idle_session_timeout', 'tcp_user_timeout', 'tcp_keepalives_idle',
                               'tcp_keepalives_interval', 'tcp_keepalives_count')
                 OR (s.name = 'client_connection_check_interval' AND pg_catalog.version() LIKE '%linux%')) > 0
            THEN 'granted'
        ELSE 'pglock_settings' END)::text AS outcome,
       pg_catalog.current_setting('server_version_num')::int4 AS version,
       (pg_catalog.current_setting('max_connections')::int4
           - pg_catalog.current_setting('superuser_reserved_connections')::int4)::int4 AS connections
FROM (SELECT CASE
                 WHEN @pid::int4 <> 0 AND pg_catalog.pg_backend_pid() <> @pid::int4 THEN 'pglock_pooler'
                 WHEN NOT @allow_standby::bool AND pg_catalog.pg_is_in_recovery() THEN 'pglock_standby'
             END AS refusal) AS guard;

-- Takes the locks in the order of the arrays, waiting for each.
-- name: LockSession :one
SELECT coalesce(max(guard.refusal), 'granted')::text AS outcome,
       count(CASE
           WHEN guard.refusal IS NOT NULL THEN NULL
           WHEN @shared::bool THEN
               CASE (@spaces::int2[])[i]
                   WHEN 1 THEN pg_catalog.pg_advisory_lock_shared((@numbers::int8[])[i])
                   ELSE pg_catalog.pg_advisory_lock_shared(
                       ((@numbers::int8[])[i] >> 32)::int4, ((@numbers::int8[])[i] << 32 >> 32)::int4) END
           ELSE
               CASE (@spaces::int2[])[i]
                   WHEN 1 THEN pg_catalog.pg_advisory_lock((@numbers::int8[])[i])
                   ELSE pg_catalog.pg_advisory_lock(
                       ((@numbers::int8[])[i] >> 32)::int4, ((@numbers::int8[])[i] << 32 >> 32)::int4) END
       END) AS granted
FROM pg_catalog.generate_subscripts(@numbers::int8[], 1) AS i,
     (SELECT CASE
                 WHEN @pid::int4 <> 0 AND pg_catalog.pg_backend_pid() <> @pid::int4 THEN 'pglock_pooler'
                 WHEN NOT @allow_standby::bool AND pg_catalog.pg_is_in_recovery() THEN 'pglock_standby'
             END AS refusal) AS guard;

-- Tries to take the locks in the order of the arrays, all of them whatever the answers; granted counts the taken.
-- name: TryLockSession :one
SELECT coalesce(max(guard.refusal), 'granted')::text AS outcome,
       (count(*) FILTER (WHERE CASE
           WHEN guard.refusal IS NOT NULL THEN false
           WHEN @shared::bool THEN
               CASE (@spaces::int2[])[i]
                   WHEN 1 THEN pg_catalog.pg_try_advisory_lock_shared((@numbers::int8[])[i])
                   ELSE pg_catalog.pg_try_advisory_lock_shared(
                       ((@numbers::int8[])[i] >> 32)::int4, ((@numbers::int8[])[i] << 32 >> 32)::int4) END
           ELSE
               CASE (@spaces::int2[])[i]
                   WHEN 1 THEN pg_catalog.pg_try_advisory_lock((@numbers::int8[])[i])
                   ELSE pg_catalog.pg_try_advisory_lock(
                       ((@numbers::int8[])[i] >> 32)::int4, ((@numbers::int8[])[i] << 32 >> 32)::int4) END
       END)) AS granted
FROM pg_catalog.generate_subscripts(@numbers::int8[], 1) AS i,
     (SELECT CASE
                 WHEN @pid::int4 <> 0 AND pg_catalog.pg_backend_pid() <> @pid::int4 THEN 'pglock_pooler'
                 WHEN NOT @allow_standby::bool AND pg_catalog.pg_is_in_recovery() THEN 'pglock_standby'
             END AS refusal) AS guard;

-- Gives the locks back; released counts those that were held. An unlock of a lock that is not held is only a warning to
-- PostgreSQL, so the count is what tells.
-- name: UnlockSession :one
SELECT (count(*) FILTER (WHERE
           CASE WHEN @shared::bool THEN
               CASE (@spaces::int2[])[i]
                   WHEN 1 THEN pg_catalog.pg_advisory_unlock_shared((@numbers::int8[])[i])
                   ELSE pg_catalog.pg_advisory_unlock_shared(
                       ((@numbers::int8[])[i] >> 32)::int4, ((@numbers::int8[])[i] << 32 >> 32)::int4) END
           ELSE
               CASE (@spaces::int2[])[i]
                   WHEN 1 THEN pg_catalog.pg_advisory_unlock((@numbers::int8[])[i])
                   ELSE pg_catalog.pg_advisory_unlock(
                       ((@numbers::int8[])[i] >> 32)::int4, ((@numbers::int8[])[i] << 32 >> 32)::int4) END
           END)) AS released
FROM pg_catalog.generate_subscripts(@numbers::int8[], 1) AS i;

-- Gives back whatever the session holds.
-- name: UnlockAllSession :exec
SELECT pg_catalog.pg_advisory_unlock_all();

-- What the session holds of the keys, as the lock manager has it.
-- name: CheckSession :one
SELECT count(*) AS held
FROM pg_catalog.generate_subscripts(@numbers::int8[], 1) AS i
WHERE EXISTS (
    SELECT FROM pg_catalog.pg_locks AS l
    WHERE l.locktype = 'advisory' AND l.pid = pg_catalog.pg_backend_pid() AND l.granted
      AND l.objsubid = (@spaces::int2[])[i]
      AND l.classid = (((@numbers::int8[])[i] >> 32) & 4294967295)::oid
      AND l.objid = ((@numbers::int8[])[i] & 4294967295)::oid);

-- name: Heartbeat :exec
SELECT 1;

-- Who holds the keys in this database. A prepared transaction has no pid; its name is found through the transaction ID
-- lock of the same virtual transaction.
-- name: Holders :many
SELECT l.mode = 'ShareLock' AS shared,
       coalesce(l.pid, 0)::int4 AS pid,
       coalesce(p.gid, '')::text AS prepared,
       coalesce(a.usename, '')::text AS username,
       coalesce(a.application_name, '')::text AS application,
       coalesce(a.client_addr::text, CASE WHEN a.client_port = -1 THEN 'local' END, '')::text AS client,
       a.backend_start AS session_since
FROM pg_catalog.generate_subscripts(@numbers::int8[], 1) AS i
JOIN pg_catalog.pg_locks AS l
    ON l.locktype = 'advisory' AND l.granted
   AND l.objsubid = (@spaces::int2[])[i]
   AND l.classid = (((@numbers::int8[])[i] >> 32) & 4294967295)::oid
   AND l.objid = ((@numbers::int8[])[i] & 4294967295)::oid
LEFT JOIN pg_catalog.pg_stat_activity AS a ON a.pid = l.pid
LEFT JOIN pg_catalog.pg_locks AS x
    ON l.pid IS NULL AND x.pid IS NULL AND x.locktype = 'transactionid' AND x.virtualtransaction = l.virtualtransaction
LEFT JOIN pg_catalog.pg_prepared_xacts AS p ON p.transaction = x.transactionid
WHERE l.database = (SELECT d.oid FROM pg_catalog.pg_database AS d WHERE d.datname = pg_catalog.current_database())
ORDER BY a.backend_start, l.pid;
