-- Draws fencing tokens, as a transaction of its own. They are tokens only when the commit has been confirmed without a
-- warning: the server sends them before it commits, and if its wait for a synchronous standby is cancelled, it commits
-- and warns. pglock.fence_rows says why the commit makes them durable; SetDurable sees to it that the commit waits.
-- name: DrawFences :one
SELECT pglock.fence_draw(@count::pg_catalog.int4)::pg_catalog.int8[] AS tokens,
       pg_catalog.concat((pg_catalog.date_part('epoch', pg_catalog.pg_postmaster_start_time())
           OPERATOR(pg_catalog.*) 1000000)::pg_catalog.int8, '/', pg_catalog.current_database())::pg_catalog.text AS server;
