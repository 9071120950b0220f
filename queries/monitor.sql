-- What the monitor reads. It writes nothing and needs no grant: what a role may not see comes back NULL.

-- name: Savepoint :exec
SAVEPOINT pglock_monitor;

-- name: RollbackToSavepoint :exec
ROLLBACK TO SAVEPOINT pglock_monitor;

-- name: ReleaseSavepoint :exec
RELEASE SAVEPOINT pglock_monitor;

-- Its rows lead to the connection behind a wrapper.
-- name: Probe :one
SELECT 1::int4 AS probe;

-- Keeps the statements behind it in the same transaction from being a burden: one that takes long is cancelled, and so
-- is one that waits for a lock. Limits that are tighter already stay. Dates come in a form that the client reads in
-- text too, and sessions as they are now, not as an earlier statement of the same transaction saw them
-- (https://www.postgresql.org/docs/current/monitoring-stats.html#MONITORING-STATS-VIEWS).
-- name: Limit :exec
SELECT pg_catalog.pg_stat_clear_snapshot(),
       pg_catalog.set_config('datestyle', 'ISO', true),
       (SELECT count(pg_catalog.set_config(s.name,
                   CASE WHEN pg_catalog.current_setting(s.name)::interval BETWEEN '1 ms' AND s.most::interval
                        THEN pg_catalog.current_setting(s.name)
                        ELSE s.most END, true))
        FROM (VALUES ('statement_timeout', @statement_timeout::text),
                     ('lock_timeout', @lock_timeout::text)) AS s (name, most)) AS limits;

-- The server, and whether the role can read the name registry. The catalogs are asked, since to_regclass raises an
-- error where the role has no rights on the schema.
-- name: Server :one
SELECT pg_catalog.clock_timestamp()::timestamptz AS taken_at,
       pg_catalog.current_setting('server_version')::text AS version,
       d.datname::text AS database,
       d.oid AS database_oid,
       current_user::text AS role,
       (r.oid IS NOT NULL)::bool AS registry_installed,
       COALESCE(pg_catalog.has_schema_privilege(r.relnamespace, 'USAGE')
                AND pg_catalog.has_table_privilege(r.oid, 'SELECT'), false)::bool AS registry_readable
FROM pg_catalog.pg_database AS d
LEFT JOIN pg_catalog.pg_namespace AS n ON n.nspname = 'pglock'
LEFT JOIN pg_catalog.pg_class AS r ON r.relnamespace = n.oid AND r.relname = 'names'
WHERE d.datname = pg_catalog.current_database();

-- Every advisory lock that is held or waited for, in every database of the server. What pg_stat_activity knows of a
-- session comes with the first of its locks only, since one session can hold thousands.
--
-- The locks of a prepared transaction have no pid. It always holds its own transaction ID too, so that row of the same
-- virtual transaction leads to its identifier.
-- name: Locks :many
WITH locks AS MATERIALIZED (
    SELECT l.locktype, l.database, l.classid, l.objid, l.objsubid, l.mode, l.granted, l.pid,
           l.virtualtransaction, l.transactionid,
           -- PostgreSQL 13 has no waitstart.
           CASE WHEN NOT l.granted THEN (pg_catalog.to_jsonb(l) ->> 'waitstart')::timestamptz END AS waiting_since,
           pg_catalog.row_number() OVER (PARTITION BY l.pid) AS nth
    FROM pg_catalog.pg_locks AS l
    WHERE l.locktype = 'advisory' OR (l.locktype = 'transactionid' AND l.pid IS NULL)
)
SELECT l.database, l.classid, l.objid, l.objsubid, l.mode, l.granted, l.pid,
       l.waiting_since::timestamptz AS waiting_since,
       d.datname AS database_name,
       x.gid, x.owner, x.prepared,
       a.pid AS session_pid, a.usename, a.application_name, a.client_addr, a.client_port,
       a.state, a.state_change, a.query, a.backend_start, a.xact_start, a.wait_event_type, a.wait_event
FROM locks AS l
LEFT JOIN pg_catalog.pg_database AS d ON d.oid = l.database
LEFT JOIN pg_catalog.pg_stat_activity AS a ON a.pid = l.pid AND l.nth = 1
LEFT JOIN (
    SELECT t.virtualtransaction, p.gid, p.owner, p.prepared
    FROM locks AS t
    JOIN pg_catalog.pg_prepared_xacts AS p ON p.transaction = t.transactionid
    WHERE t.locktype = 'transactionid'
) AS x ON l.pid IS NULL AND x.virtualtransaction = l.virtualtransaction
WHERE l.locktype = 'advisory';

-- Whom the waiters wait for. pg_blocking_pids keeps the lock manager busy for a moment, so it is called for waiters
-- only (https://www.postgresql.org/docs/current/functions-info.html#FUNCTIONS-INFO-SESSION).
-- name: Blockers :many
SELECT l.database, l.classid, l.objid, l.objsubid, l.pid,
       pg_catalog.pg_blocking_pids(l.pid)::int4[] AS blockers
FROM pg_catalog.pg_locks AS l
WHERE l.locktype = 'advisory' AND NOT l.granted;

-- The names of keys, as a JSON array of {key, name}; a key that has several is a collision. The table is named in a
-- string: a statement that names it would be an error where it does not exist, and while it is parsed, before any limit
-- applies, would wait for whoever alters it. XML cannot hold every character, so it holds the array in hexadecimal.
-- name: Names :one
SELECT COALESCE(pg_catalog.convert_from(pg_catalog.decode(pg_catalog.substring(
    pg_catalog.query_to_xml(pg_catalog.format(
        'SELECT pg_catalog.encode(pg_catalog.convert_to(pg_catalog.json_agg(n)::text, ''UTF8''), ''hex'') AS names '
        'FROM (SELECT key, name FROM pglock.names WHERE key = ANY (%L::int8[]) ORDER BY key, name) AS n',
        @keys::int8[]), false, false, '')::text,
    '<names>(.*)</names>'), 'hex'), 'UTF8'), '[]')::json AS names;
