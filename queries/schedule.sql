-- Runs of scheduled jobs. Never sent on a session that holds locks: a commit that hangs there would lose them all.

-- name: Tick :one
SELECT t.at::timestamp with time zone AS at, t.done::boolean AS done, t.dues::timestamp with time zone[] AS dues
FROM pglock.tick(@job::pg_catalog.text, @due::timestamp with time zone, @step::pg_catalog.text, sqlc.narg('keep')::interval, @newest::integer) AS t;
