-- The registry of key names. Never sent on a session that holds locks: a commit that hangs there would lose them all.

-- name: RegisterNames :one
SELECT pglock.register(VARIADIC @names::pg_catalog.text[])::bigint AS added;
