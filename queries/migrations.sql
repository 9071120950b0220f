-- What package migrations asks before and while it runs the migrations. All of it is in one transaction, so that it
-- also works through a transaction pooler.

-- A version of 0 is that of a schema that pglock did not make. The text of the function is read, and not executed.
-- name: InspectSchema :one
SELECT current_user::text AS role,
       pg_catalog.current_database()::text AS database,
       pg_catalog.has_database_privilege(pg_catalog.current_database(), 'CREATE')::bool AS may_create,
       coalesce(pg_catalog.pg_get_userbyid(n.nspowner), '')::text AS owner,
       coalesce(pg_catalog.substring(f.prosrc, '^SELECT ([0-9]{1,9})$'), '0')::bigint AS version
FROM (SELECT 1) AS one
LEFT JOIN pg_catalog.pg_namespace AS n ON n.nspname = 'pglock'
LEFT JOIN pg_catalog.pg_proc AS f ON f.pronamespace = n.oid AND f.proname = 'toolkit_version' AND f.pronargs = 0;

-- Tried and not waited for: a statement that waits keeps its snapshot, and CREATE INDEX CONCURRENTLY waits for that.
-- name: TryLockMigrations :one
SELECT t.locked, CASE WHEN t.locked THEN '' ELSE COALESCE((
    SELECT pg_catalog.string_agg(pg_catalog.format(' (pid %s, role "%s", application "%s")', l.pid, a.usename, a.application_name), '')
    FROM pg_catalog.pg_locks AS l
    LEFT JOIN pg_catalog.pg_stat_activity AS a ON a.pid = l.pid
    WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1
      AND ((l.classid::bigint << 32) | l.objid::bigint) = @number::bigint
      AND l.database = (SELECT d.oid FROM pg_catalog.pg_database AS d WHERE d.datname = pg_catalog.current_database())
), '') END::text AS holders
FROM (SELECT pg_catalog.pg_try_advisory_xact_lock(@number::bigint) AS locked) AS t;
