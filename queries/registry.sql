-- The registry of key names. Never sent on a session that holds locks: a commit that hangs there would lose them all.

-- name: RegisterNames :one
SELECT pglock.register(VARIADIC @names::text[])::bigint AS added;

-- The names of bigint keys, in the order in which they were first seen; several if names collide.
-- name: NamesOfKeys :many
SELECT n.key, n.name
FROM pglock.names AS n
WHERE n.key = ANY (@keys::bigint[])
ORDER BY n.key, n.first_seen, n.name;
