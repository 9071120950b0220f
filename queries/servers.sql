-- What the command asks servers beside their locks.

-- When the server started, and where it listens: a running server, whatever its address.
-- name: ServerStart :one
SELECT pg_catalog.pg_postmaster_start_time()::pg_catalog.timestamptz AS started,
       pg_catalog.current_setting('port')::pg_catalog.text AS port;

-- A standby has its primary's. This is a separate statement, since the right to read it can be revoked.
-- name: SystemIdentifier :one
SELECT c.system_identifier::pg_catalog.text AS system FROM pg_catalog.pg_control_system() AS c;

-- When sessions began; the ones that have ended are missing.
-- name: SessionStarts :many
SELECT a.pid::pg_catalog.int4 AS pid, a.backend_start FROM pg_catalog.pg_stat_activity AS a
WHERE a.pid OPERATOR(pg_catalog.=) ANY (@pids::pg_catalog.int4[]);

-- Whether a standby receives what its primary writes.
-- name: IsStreaming :one
SELECT EXISTS (SELECT FROM pg_catalog.pg_stat_wal_receiver AS r WHERE r.status OPERATOR(pg_catalog.=) 'streaming');

-- Those of some names that no database has.
-- name: MissingDatabases :many
SELECT n.name::pg_catalog.text AS name FROM pg_catalog.unnest(@names::pg_catalog.text[]) AS n (name)
WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_database AS d WHERE d.datname::pg_catalog.text OPERATOR(pg_catalog.=) n.name);
