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
SELECT pg_catalog.pg_try_advisory_xact_lock(@number::bigint);

-- name: MigrationsLockHolders :many
SELECT l.pid, coalesce(a.usename, '')::text AS role, coalesce(a.application_name, '')::text AS application
FROM pg_catalog.pg_locks AS l
LEFT JOIN pg_catalog.pg_stat_activity AS a ON a.pid = l.pid
WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1
  AND ((l.classid::bigint << 32) | l.objid::bigint) = @number::bigint
  AND l.database = (SELECT d.oid FROM pg_catalog.pg_database AS d WHERE d.datname = pg_catalog.current_database());

-- Every call that takes locks in rows locks its row of this table first, so none is under way afterwards.
-- name: LockHolders :exec
LOCK TABLE pglock.holders IN ACCESS EXCLUSIVE MODE;

-- The processes that hold locks in rows and whose leases are not over: the first, and how many there are.
-- name: LiveHolder :many
SELECT pg_catalog.left(pg_catalog.encode(pg_catalog.sha256(pg_catalog.uuid_send(h.id)), 'hex'), 16)::text AS holder,
       pg_catalog.left(h.application, 64)::text AS application, pg_catalog.left(h.host, 255)::text AS host, h.pid::int4 AS pid,
       held.locks::int8 AS locks, (count(*) OVER ())::int8 AS processes
FROM (SELECT l.holder, count(*) AS locks
      FROM (SELECT x.holder FROM pglock.leases AS x WHERE x.holder IS NOT NULL
            UNION ALL
            SELECT s.holder FROM pglock.lease_shares AS s) AS l
      GROUP BY l.holder) AS held
JOIN pglock.holders AS h ON h.id = held.holder
WHERE NOT h.ended AND h.expires > pg_catalog.clock_timestamp()
ORDER BY h.since, h.id
LIMIT 1;

-- name: SchemaVersion :one
SELECT COALESCE(pg_catalog.max(m.version), 0)::bigint AS version FROM pglock.schema_migrations AS m;

-- The version is the default of its column.
-- name: RecordVersion :exec
INSERT INTO pglock.schema_migrations DEFAULT VALUES;
