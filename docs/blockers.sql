-- Who is at the root of the waits, for locks of all types: \i blockers.sql in psql. It needs no schema and no rights, reads
-- only, and works on a managed server and on a standby. Members of pg_read_all_stats also see the states and statements of
-- other roles. Members of a deadlock have the kind cycle. Who waits for a permit of pglock's semaphores is left out; a root of
-- candidates of an election, or of jobs, is expected, as the waiters' own processes say.
BEGIN READ ONLY;
SET LOCAL search_path = pg_catalog;
SET LOCAL statement_timeout = '10s';
SET LOCAL jit = off; -- it would take longer than the query

\echo Sessions and prepared transactions at the root, and how many sessions wait for them, directly or through others
WITH RECURSIVE lock AS MATERIALIZED (
    SELECT l.*, COALESCE(COALESCE(a.leader_pid, l.pid)::text, l.virtualtransaction) COLLATE "C" AS owner,
           concat_ws('/', l.locktype, l.database, l.relation, l.page, l.tuple, l.virtualxid, l.transactionid, l.classid,
                     l.objid, l.objsubid) COLLATE "C" AS target,
           CASE WHEN NOT l.granted THEN (to_jsonb(l) ->> 'waitstart')::timestamptz END AS began,
           a.usesysid || substring(a.application_name, '\(pglock [0-9a-f]{8}\)$') || coalesce(a.client_addr::text, '') AS process,
           (((l.classid::bigint & 65535) << 32) | l.objid::bigint) # (l.classid::bigint >> 16)
               # CASE l.objsubid WHEN 2 THEN (1::bigint << 48) - 1 ELSE 0 END AS mark
    FROM pg_locks AS l LEFT JOIN pg_stat_activity AS a ON a.pid = l.pid
),
said AS MATERIALIZED (
    SELECT l.process, ((l.classid::bigint & 65535) << 32) | l.objid::bigint AS mark
    FROM lock AS l
    WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 2 AND l.classid::bigint >> 16 IN (x'706c'::int, x'7074'::int)
),
-- A queue of n has about n²/2 pairs. A waiter that stands ahead of another in the same mode, and holds nothing there, is left
-- out: its blockers are also those of the other. = ANY (SELECT …) looks a pair up in a hash table.
pair AS MATERIALIZED (
    SELECT w.owner, w.target, b.pid::text COLLATE "C" AS pid,
           w.locktype = 'advisory' AND EXISTS (SELECT FROM said AS s WHERE s.mark = w.mark AND s.process = w.process) AS expected
    FROM lock AS w, LATERAL (SELECT DISTINCT given.pid FROM unnest(pg_blocking_pids(w.pid)) AS given (pid)) AS b
    WHERE NOT w.granted
      AND NOT (w.locktype = 'advisory' AND w.objsubid = 2 AND w.classid::bigint >> 16 = x'7073'::int)
      AND CASE WHEN (w.target, b.pid::text) = ANY (SELECT h.target, h.owner FROM lock AS h WHERE h.granted) THEN true
               ELSE NOT (w.target, w.mode, b.pid::text) = ANY (SELECT q.target, q.mode, q.owner FROM lock AS q WHERE NOT q.granted)
          END
),
edge AS MATERIALIZED (
    SELECT p.owner AS waiter, p.target, p.pid AS blocker, p.expected FROM pair AS p WHERE p.pid <> '0' AND p.pid <> p.owner
    UNION
    SELECT p.owner, p.target, h.owner, p.expected
    FROM pair AS p JOIN lock AS h ON h.target = p.target AND h.granted AND h.pid IS NULL
    WHERE p.pid = '0'
),
behind (root, waiter) AS (
    SELECT e.blocker, e.waiter FROM edge AS e WHERE NOT e.blocker = ANY (SELECT w.waiter FROM edge AS w)
    UNION
    SELECT b.root, e.waiter FROM behind AS b JOIN edge AS e ON e.blocker = b.waiter
),
stuck AS MATERIALIZED (
    SELECT e.blocker, e.waiter FROM edge AS e WHERE NOT e.waiter = ANY (SELECT b.waiter FROM behind AS b)
),
reach (root, waiter) AS (
    SELECT s.blocker, s.waiter FROM stuck AS s
    UNION
    SELECT r.root, s.waiter FROM reach AS r JOIN stuck AS s ON s.blocker = r.waiter
),
root AS (
    SELECT t.root, min(t.kind) AS kind, count(DISTINCT t.waiter) AS behind, max(now() - w.began) AS longest_wait
    FROM (
        SELECT b.root, b.waiter, CASE WHEN EXISTS (
            SELECT FROM edge AS e WHERE e.blocker = b.root AND NOT e.expected) THEN 'root' ELSE 'expected' END AS kind
        FROM behind AS b
        UNION ALL
        SELECT r.root, r.waiter, 'cycle' FROM reach AS r
        WHERE r.waiter <> r.root AND (r.root, r.root) = ANY (SELECT c.root, c.waiter FROM reach AS c)
    ) AS t LEFT JOIN lock AS w ON w.owner = t.waiter AND NOT w.granted
    GROUP BY t.root
),
held AS (
    SELECT DISTINCT ON (e.blocker) e.blocker, e.target, count(*) AS waiters
    FROM edge AS e JOIN root AS r ON r.root = e.blocker
    GROUP BY e.blocker, e.target ORDER BY e.blocker, count(*) DESC
)
SELECT r.kind, COALESCE(a.pid::text, quote_literal(x.gid)) AS pid, COALESCE(a.usename, x.owner) AS usename, a.application_name,
       CASE WHEN x.gid IS NULL THEN a.state ELSE 'prepared' END AS state,
       date_trunc('second', now() - COALESCE(a.state_change, x.prepared)) AS since,
       concat(CASE l.locktype
           WHEN 'relation' THEN CASE WHEN d.oid IS NULL THEN l.relation::regclass::text ELSE concat('relation ', l.relation) END
           WHEN 'transactionid' THEN 'its transaction'
           WHEN 'advisory' THEN CASE l.objsubid WHEN 1 THEN concat('@', (l.classid::bigint << 32) | l.objid::bigint)
                                     ELSE concat('@', l.classid::integer, '/', l.objid::integer) END
           ELSE l.locktype END, ' in database ' || d.datname) AS holds,
       l.mode, r.behind, date_trunc('second', r.longest_wait) AS longest_wait,
       left(regexp_replace(a.query, '\s+', ' ', 'g'), 60) AS query
FROM root AS r
JOIN held AS h ON h.blocker = r.root
LEFT JOIN LATERAL (
    SELECT k.* FROM lock AS k WHERE k.owner = r.root AND k.target = h.target AND k.granted
    ORDER BY array_position(ARRAY['AccessShareLock', 'RowShareLock', 'RowExclusiveLock', 'ShareUpdateExclusiveLock', 'ShareLock',
                                  'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock'], k.mode) DESC LIMIT 1
) AS l ON true
LEFT JOIN pg_database AS d ON d.oid = l.database AND d.datname <> current_database()
LEFT JOIN pg_stat_activity AS a ON a.pid::text = r.root
LEFT JOIN LATERAL (
    SELECT p.gid, p.owner, p.prepared FROM lock AS k JOIN pg_prepared_xacts AS p ON p.transaction = k.transactionid
    WHERE k.owner = r.root AND k.pid IS NULL LIMIT 1
) AS x ON true
ORDER BY r.behind DESC, r.root;

\echo What is waited for, with the number of waiters
SELECT concat(CASE l.locktype
           WHEN 'relation' THEN CASE WHEN d.oid IS NULL THEN l.relation::regclass::text ELSE concat('relation ', l.relation) END
           WHEN 'tuple' THEN concat('row (', l.page, ',', l.tuple, ') of ',
                                    CASE WHEN d.oid IS NULL THEN l.relation::regclass::text ELSE concat('relation ', l.relation) END)
           WHEN 'advisory' THEN CASE l.objsubid WHEN 1 THEN concat('@', (l.classid::bigint << 32) | l.objid::bigint)
                                     ELSE concat('@', l.classid::integer, '/', l.objid::integer) END
           ELSE concat_ws(' ', l.locktype, l.transactionid::text, l.virtualxid) END, ' in database ' || d.datname) AS lock,
       l.mode, count(*) AS waiters,
       date_trunc('second', max(now() - (to_jsonb(l) ->> 'waitstart')::timestamptz)) AS longest_wait
FROM pg_locks AS l
LEFT JOIN pg_database AS d ON d.oid = l.database AND d.datname <> current_database()
WHERE NOT l.granted
GROUP BY 1, 2 ORDER BY 3 DESC, 1, 2;
COMMIT;
