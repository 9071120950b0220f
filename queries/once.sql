-- What is done once, in a transaction of the caller's.

-- name: Once :one
SELECT o.outcome::text AS outcome, o.done_at::timestamptz AS done_at, o.result::bytea AS result
FROM pglock.once(@scope::text, @id::text, sqlc.narg('fingerprint')::bytea, false, @record::bool) AS o;

-- name: OnceOrRaise :exec
SELECT pglock.once_or_raise(@scope::text, @id::text, sqlc.narg('fingerprint')::bytea, @wait::bool);

-- name: OnceRecord :exec
SELECT pglock.once_record(@scope::text, @id::text, sqlc.narg('fingerprint')::bytea, @result::bytea);

-- name: OncePrune :one
SELECT pglock.once_prune(@keep::interval)::text AS said;
