-- What pglock doctor asks a server. It changes nothing, and needs no grant.

-- The connection, and what the role may do.
-- name: Connection :one
SELECT pg_catalog.pg_backend_pid()::int4 AS pid,
       pg_catalog.current_setting('server_version_num')::int4 AS version,
       pg_catalog.pg_is_in_recovery()::bool AS standby,
       current_user::text AS role,
       session_user::text AS login,
       pg_catalog.current_database()::text AS database,
       (pg_catalog.inet_client_addr() IS NOT NULL)::bool AS over_tcp,
       pg_catalog.has_database_privilege(pg_catalog.current_database(), 'TEMP')::bool AS may_use_temp,
       pg_catalog.pg_has_role('pg_read_all_stats', 'USAGE')::bool AS sees_details,
       pg_catalog.pg_has_role('pg_signal_backend', 'USAGE')::bool AS may_signal;

-- Settings as a new session of the role has them, and where they come from
-- (https://www.postgresql.org/docs/current/view-pg-settings.html). There is no row for a setting that the server does
-- not know.
-- name: Settings :many
SELECT s.name::text AS name,
       s.setting::text AS setting,
       pg_catalog.current_setting(s.name)::text AS shown,
       s.source::text AS source
FROM pg_catalog.pg_settings AS s
WHERE s.name = ANY (@names::text[]);

-- Whether an advisory lock that is granted, until the transaction ends, is in the lock table. The EXISTS is evaluated when it is
-- reached.
-- name: LockWorks :one
SELECT (CASE WHEN pg_catalog.pg_try_advisory_xact_lock(@number::int8) THEN EXISTS (
    SELECT FROM pg_catalog.pg_locks AS l
    WHERE l.locktype = 'advisory' AND l.granted AND l.pid = pg_catalog.pg_backend_pid() AND l.objsubid = 1
      AND ((l.classid::int8 << 32) | l.objid::int8) = @number::int8) ELSE false END)::bool AS works;

-- What the role may do in schema pglock. The catalogs are asked, since looking up a name raises an error where the role
-- has no right on the schema, and where the schema belongs to others.
-- name: SchemaRights :one
SELECT (usable.it AND COALESCE((
            SELECT pg_catalog.bool_and(pg_catalog.has_function_privilege(p.oid, 'EXECUTE'))
            FROM pg_catalog.pg_proc AS p
            WHERE p.pronamespace = usable.oid AND p.proname IN ('key', 'register', 'fence_draw')), false)
        AND COALESCE((
            SELECT pg_catalog.bool_and(pg_catalog.has_sequence_privilege(c.oid, 'USAGE'))
            FROM pg_catalog.pg_class AS c
            WHERE c.relnamespace = usable.oid AND c.relname = 'fence' AND c.relkind = 'S'), false))::bool AS may_lock,
       (usable.it AND COALESCE((
            SELECT pg_catalog.bool_and(pg_catalog.has_table_privilege(c.oid, 'SELECT'))
            FROM pg_catalog.pg_class AS c
            WHERE c.relnamespace = usable.oid AND c.relname IN ('names', 'locks', 'waits')), false))::bool AS may_watch
FROM (SELECT n.oid, COALESCE(pg_catalog.has_schema_privilege(n.oid, 'USAGE'), false) AS it
      FROM (SELECT 1) AS one
      LEFT JOIN pg_catalog.pg_namespace AS n ON n.nspname = 'pglock') AS usable;

-- How many connections are in use, and how many there may be; a limit of -1 is none. Sessions are counted as far as the
-- role sees them, which it does whatever its rights (https://www.postgresql.org/docs/current/monitoring-stats.html).
-- name: Connections :one
SELECT COALESCE((SELECT sum(s.numbackends) FROM pg_catalog.pg_stat_database AS s), 0)::int8 AS server_used,
       (pg_catalog.current_setting('max_connections')::int8
           - pg_catalog.current_setting('superuser_reserved_connections')::int8
           - COALESCE(pg_catalog.current_setting('reserved_connections', true), '0')::int8)::int8 AS server_limit,
       COALESCE((SELECT s.numbackends FROM pg_catalog.pg_stat_database AS s WHERE s.datid = d.oid), 0)::int8
           AS database_used,
       d.datconnlimit::int8 AS database_limit,
       (SELECT count(*) FROM pg_catalog.pg_stat_activity AS a WHERE a.usesysid = r.oid)::int8 AS role_used,
       r.rolconnlimit::int8 AS role_limit
FROM pg_catalog.pg_database AS d
CROSS JOIN pg_catalog.pg_roles AS r
WHERE d.datname = pg_catalog.current_database() AND r.rolname = current_user;

-- The owner of the database can keep a catalog locked, by VACUUM FULL that waits for a transaction of its own.
-- name: BoundLockWaits :exec
SET LOCAL lock_timeout = '5s';

-- Sessions whose snapshots keep the server from removing old versions of rows in this database, as far as the role sees
-- them, the oldest first; and whether locks in rows were ever taken here.
-- name: Snapshots :many
SELECT a.pid::int4 AS pid, COALESCE(a.usename, '')::text AS role, COALESCE(a.application_name, '')::text AS application,
       COALESCE(a.state, '')::text AS state, a.backend_start,
       (EXTRACT(epoch FROM pg_catalog.clock_timestamp() - a.xact_start) * 1000)::int8 AS age_ms
FROM pg_catalog.pg_stat_activity AS a
WHERE a.datname = pg_catalog.current_database() AND a.backend_xmin IS NOT NULL AND a.backend_type = 'client backend'
  AND a.pid <> pg_catalog.pg_backend_pid() AND a.xact_start IS NOT NULL
  AND EXISTS (SELECT FROM pg_catalog.pg_stat_all_tables AS t
              WHERE t.schemaname = 'pglock' AND t.relname = 'leases' AND t.n_tup_upd > 0)
ORDER BY a.xact_start;
