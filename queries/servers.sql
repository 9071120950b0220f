-- What the command asks servers beside their locks.

-- When sessions began; the ones that have ended are missing.
-- name: SessionStarts :many
SELECT a.pid::pg_catalog.int4 AS pid, a.backend_start FROM pg_catalog.pg_stat_activity AS a
WHERE a.pid OPERATOR(pg_catalog.=) ANY (@pids::pg_catalog.int4[]);

-- Whether a standby receives what its primary writes.
-- name: IsStreaming :one
SELECT EXISTS (SELECT FROM pg_catalog.pg_stat_wal_receiver AS r WHERE r.status OPERATOR(pg_catalog.=) 'streaming');
