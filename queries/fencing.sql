-- name: NextFence :one
SELECT pg_catalog.nextval('pglock.fence')::bigint AS fence;
