-- Rate limits. Each statement is a separate transaction.

-- name: RateTake :many
SELECT t.granted::bigint AS granted, t.start::bigint AS start, t.at::bigint AS at
FROM pglock.rate_take(@keys::pg_catalog.text[], @intervals::bigint[], @tolerances::bigint[], @amounts::bigint[], @counts::bigint[],
                      @patiences::bigint[]) AS t;

-- name: RateReturn :one
SELECT pglock.rate_return(@key::pg_catalog.text, @taken_until::bigint, @price::bigint)::boolean AS returned;

-- name: RatePrune :one
SELECT pglock.rate_prune(@most::integer)::bigint AS deleted;
