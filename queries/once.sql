-- What is done once, in a transaction of the caller's.

-- name: Once :one
SELECT o.outcome::pg_catalog.text AS outcome, o.done_at::timestamp with time zone AS done_at, o.result::pg_catalog.bytea AS result
FROM pglock.once(@scope::pg_catalog.text, @id::pg_catalog.text, sqlc.narg('fingerprint')::pg_catalog.bytea, false, @record::boolean) AS o;

-- name: OnceRecord :exec
SELECT pglock.once_record(@scope::pg_catalog.text, @id::pg_catalog.text, sqlc.narg('fingerprint')::pg_catalog.bytea, @result::pg_catalog.bytea);

-- name: OncePrune :one
SELECT pglock.once_prune(@keep::interval, @most::integer)::bigint AS deleted;
