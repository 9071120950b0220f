-- Runs of scheduled jobs. Never sent on a session that holds locks: a commit that hangs there would lose them all.

-- name: Tick :one
SELECT t.at::timestamptz AS at, t.done::bool AS done, t.pruned::timestamptz AS pruned, t.dues::timestamptz[] AS dues
FROM pglock.tick(@job::text, @due::timestamptz, @step::text, sqlc.narg('keep')::interval, @newest::int4) AS t;
