-- What package migrations asks before and while it runs the migrations. All of it is in one transaction, so that it
-- also works through a transaction pooler.

-- The schema is recognised by the name of a primary key, which a dump without comments keeps.
-- name: InspectSchema :one
SELECT current_user::text AS role,
       pg_catalog.current_database()::text AS database,
       pg_catalog.has_database_privilege(pg_catalog.current_database(), 'CREATE')::bool AS may_create,
       pg_catalog.pg_is_in_recovery()::bool AS standby,
       coalesce(pg_catalog.pg_get_userbyid(n.nspowner), '')::text AS owner,
       coalesce(pg_catalog.pg_has_role(n.nspowner, 'USAGE'), false)::bool AS may_change,
       EXISTS (
           SELECT FROM pg_catalog.pg_constraint AS c
           JOIN pg_catalog.pg_class AS t ON t.oid = c.conrelid
           WHERE t.relnamespace = n.oid AND t.relname = 'schema_migrations'
             AND c.conname = 'pglock_toolkit_schema_migrations'
       ) AS ours
FROM (SELECT 1) AS one
LEFT JOIN pg_catalog.pg_namespace AS n ON n.nspname = 'pglock';

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

-- name: SchemaVersion :one
SELECT COALESCE(pg_catalog.max(m.version), 0)::bigint AS version FROM pglock.schema_migrations AS m;

-- The version is the default of its column.
-- name: RecordVersion :exec
INSERT INTO pglock.schema_migrations DEFAULT VALUES;
