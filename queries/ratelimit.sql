-- Rate limits. Each statement is a transaction of its own.

-- name: RateTake :many
SELECT t.granted::int8 AS granted, t.start::int8 AS start, t.at::int8 AS at
FROM pglock.rate_take(@keys::text[], @intervals::int8[], @tolerances::int8[], @amounts::int8[], @counts::int8[],
                      @patiences::int8[]) AS t;

-- name: RateReturn :one
SELECT pglock.rate_return(@key::text, @taken_until::int8, @price::int8)::bool AS returned;

-- name: RatePrune :one
SELECT pglock.rate_prune(@most::int4)::int8 AS deleted;
