-- pglock.waits answers fast when hundreds of sessions wait for one lock, and pglock.blockers says who is at the root of all
-- waits.
--
-- A queue of n waiters has about n * n / 2 pairs of a waiter and one ahead of it. So nothing here compares each pair with each
-- lock: = ANY (SELECT ...) in place of a join lets the server look the pair up in a hash table, however few rows it expects,
-- and it expects few.

CREATE OR REPLACE VIEW pglock.waits AS
WITH lock AS MATERIALIZED (
    SELECT l.key, l.name, l.space, l.number, l.class, l.object, l.mode, l.granted, coalesce(l.pid, 0) AS pid, l.prepared,
           l.usename, l.application_name, l.waiting_since
    FROM pglock.locks AS l
)
SELECT pair.key,
       pair.name,
       pair.space,
       pair.number,
       pair.class,
       pair.object,
       pair.mode,
       pair.pid AS waiter_pid,
       pair.usename AS waiter_usename,
       pair.application_name AS waiter_application_name,
       pair.waiting_since,
       pair.blocker AS blocker_pid,
       holder.prepared AS blocker_prepared,
       session.usename AS blocker_usename,
       session.application_name AS blocker_application_name,
       session.client_addr AS blocker_client_addr,
       session.state AS blocker_state,
       CASE
           WHEN (pair.space, pair.number, pair.blocker, pair.mode) OPERATOR(pg_catalog.=) ANY (
               SELECT held.space, held.number, held.pid, wanted.mode
               FROM lock AS held CROSS JOIN (VALUES ('exclusive'), ('shared')) AS wanted (mode)
               WHERE held.granted
                 AND (held.mode OPERATOR(pg_catalog.=) 'exclusive' OR wanted.mode OPERATOR(pg_catalog.=) 'exclusive')
           ) THEN 'hard'
           WHEN (pair.space, pair.number, pair.blocker) OPERATOR(pg_catalog.=) ANY (
               SELECT queued.space, queued.number, queued.pid FROM lock AS queued WHERE NOT queued.granted
           ) THEN 'soft'
       END AS block
FROM (
    SELECT waiter.key, waiter.name, waiter.space, waiter.number, waiter.class, waiter.object, waiter.mode, waiter.pid,
           waiter.usename, waiter.application_name, waiter.waiting_since, blocking.pid AS blocker
    FROM lock AS waiter
    CROSS JOIN LATERAL (
        SELECT DISTINCT given.pid FROM pg_catalog.unnest(pg_catalog.pg_blocking_pids(waiter.pid)) AS given (pid)
    ) AS blocking
    WHERE NOT waiter.granted
) AS pair
LEFT JOIN LATERAL (
    SELECT DISTINCT held.prepared FROM lock AS held
    WHERE pair.blocker OPERATOR(pg_catalog.=) 0 AND held.pid OPERATOR(pg_catalog.=) 0 AND held.granted
      AND held.space OPERATOR(pg_catalog.=) pair.space AND held.number OPERATOR(pg_catalog.=) pair.number
      AND (held.mode OPERATOR(pg_catalog.=) 'exclusive' OR pair.mode OPERATOR(pg_catalog.=) 'exclusive')
) AS holder ON true
LEFT JOIN pg_catalog.pg_stat_activity AS session ON session.pid OPERATOR(pg_catalog.=) pair.blocker;

-- Roots wait for nothing. A waiter that stands ahead of another in the same mode, and holds nothing there, is left out: its
-- blockers are also those of the other. The worker of a parallel query counts as its leader, which is what pg_blocking_pids
-- names. A prepared transaction has no process, and a virtual transaction for ever.
-- It is a function so that the server does not compile it (jit), which would take ten times as long as running it.

CREATE FUNCTION pglock.find_blockers() RETURNS TABLE (
    pid integer, prepared pg_catalog.text, usename pg_catalog.name, application_name pg_catalog.text,
    client_addr pg_catalog.inet, state pg_catalog.text, state_since timestamp with time zone, lock_type pg_catalog.text,
    lock pg_catalog.text, mode pg_catalog.text, behind bigint, waiting_since timestamp with time zone, query pg_catalog.text
)
LANGUAGE sql VOLATILE
SET search_path = pg_catalog, pg_temp
SET jit = off
AS $$
    WITH RECURSIVE lock AS MATERIALIZED (
        SELECT l.locktype, l.database, l.relation, l.transactionid, l.classid, l.objid, l.objsubid, l.mode, l.granted, l.pid,
               coalesce(coalesce(activity.leader_pid, l.pid)::text, l.virtualtransaction) COLLATE "C" AS owner,
               concat_ws('/', l.locktype, l.database, l.relation, l.page, l.tuple, l.virtualxid, l.transactionid, l.classid,
                         l.objid, l.objsubid) COLLATE "C" AS target,
               CASE WHEN NOT l.granted THEN
                   (to_jsonb(l) ->> 'waitstart')::timestamp with time zone
               END AS waiting_since
        FROM pg_locks AS l
        LEFT JOIN pg_stat_activity AS activity ON activity.pid = l.pid
    ),
    pair AS MATERIALIZED (
        SELECT waiter.owner AS waiter, waiter.target, blocking.pid::text COLLATE "C" AS blocker
        FROM lock AS waiter
        CROSS JOIN LATERAL (
            SELECT DISTINCT given.pid FROM unnest(pg_blocking_pids(waiter.pid)) AS given (pid)
        ) AS blocking
        WHERE NOT waiter.granted
          AND CASE
                  WHEN (waiter.target, blocking.pid::text) = ANY (
                      SELECT held.target, held.owner FROM lock AS held WHERE held.granted
                  ) THEN true
                  ELSE NOT (waiter.target, waiter.mode, blocking.pid::text) = ANY (
                      SELECT queued.target, queued.mode, queued.owner FROM lock AS queued WHERE NOT queued.granted
                  )
              END
    ),
    edge AS MATERIALIZED (
        SELECT pair.waiter, pair.target, pair.blocker FROM pair
        WHERE pair.blocker <> '0' AND pair.blocker <> pair.waiter
        UNION
        SELECT pair.waiter, pair.target, held.owner
        FROM pair JOIN lock AS held ON held.target = pair.target AND held.granted AND held.pid IS NULL
        WHERE pair.blocker = '0'
    ),
    behind (root, waiter) AS (
        SELECT edge.blocker, edge.waiter FROM edge
        WHERE NOT edge.blocker = ANY (SELECT other.waiter FROM edge AS other)
        UNION
        SELECT behind.root, edge.waiter FROM behind JOIN edge ON edge.blocker = behind.waiter
    ),
    root AS MATERIALIZED (
        SELECT behind.root, count(DISTINCT behind.waiter) AS behind, min(waiting.waiting_since) AS waiting_since
        FROM behind
        LEFT JOIN lock AS waiting ON waiting.owner = behind.waiter AND NOT waiting.granted
        GROUP BY behind.root
    ),
    contended AS MATERIALIZED (
        SELECT DISTINCT ON (edge.blocker) edge.blocker, edge.target
        FROM edge JOIN root ON root.root = edge.blocker
        GROUP BY edge.blocker, edge.target
        ORDER BY edge.blocker, count(*) DESC, edge.target
    )
    SELECT session.pid,
           prepared.gid AS prepared,
           coalesce(session.usename, prepared.owner) AS usename,
           session.application_name,
           session.client_addr,
           session.state,
           coalesce(session.state_change, prepared.prepared) AS state_since,
           held.locktype AS lock_type,
           CASE
               WHEN held.locktype = 'advisory' AND known.name ~~ '@%' THEN concat('@', known.name)
               WHEN held.locktype = 'advisory' AND known.name <> '' THEN known.name
               WHEN held.locktype = 'advisory' AND held.objsubid = 1
                   THEN concat('@', (held.classid::bigint << 32) | held.objid::bigint)
               WHEN held.locktype = 'advisory' THEN concat('@', held.classid::integer, '/', held.objid::integer,
                   CASE WHEN held.objsubid <> 2 THEN concat('#', held.objsubid) END)
               WHEN held.locktype = 'transactionid' THEN held.transactionid::text
               WHEN class.relname IS NOT NULL THEN format('%I.%I', namespace.nspname, class.relname)
               ELSE contended.target
           END AS lock,
           held.mode,
           root.behind,
           root.waiting_since,
           session.query
    FROM root
    JOIN contended ON contended.blocker = root.root
    LEFT JOIN LATERAL (
        SELECT lock.locktype, lock.database, lock.relation, lock.transactionid, lock.classid, lock.objid, lock.objsubid,
               lock.mode
        FROM lock
        WHERE lock.owner = root.root AND lock.target = contended.target AND lock.granted
        ORDER BY array_position(
            ARRAY['AccessShareLock', 'RowShareLock', 'RowExclusiveLock', 'ShareUpdateExclusiveLock', 'ShareLock',
                  'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock'], lock.mode) DESC
        LIMIT 1
    ) AS held ON true
    LEFT JOIN pg_database AS connected ON connected.datname = current_database()
    LEFT JOIN LATERAL (
        SELECT n.name FROM pglock.names AS n
        WHERE held.locktype = 'advisory' AND held.objsubid = 1 AND held.database = connected.oid
          AND n.key = ((held.classid::bigint << 32) | held.objid::bigint)
        ORDER BY n.first_seen, n.name LIMIT 1
    ) AS known ON true
    LEFT JOIN pg_class AS class ON class.oid = held.relation AND held.database = ANY (ARRAY[connected.oid, 0::oid])
    LEFT JOIN pg_namespace AS namespace ON namespace.oid = class.relnamespace
    LEFT JOIN pg_stat_activity AS session ON session.pid::text = root.root
    LEFT JOIN LATERAL (
        SELECT x.gid, x.owner, x.prepared
        FROM lock AS own JOIN pg_prepared_xacts AS x ON x.transaction = own.transactionid
        WHERE own.owner = root.root AND own.pid IS NULL AND own.locktype = 'transactionid'
        LIMIT 1
    ) AS prepared ON true
$$;

REVOKE ALL ON FUNCTION pglock.find_blockers() FROM PUBLIC;

COMMENT ON FUNCTION pglock.find_blockers() IS 'The rows of pglock.blockers';

CREATE VIEW pglock.blockers AS
SELECT root.pid, root.prepared, root.usename, root.application_name, root.client_addr, root.state, root.state_since,
       root.lock_type, root.lock, root.mode, root.behind, root.waiting_since, root.query
FROM pglock.find_blockers() AS root (pid, prepared, usename, application_name, client_addr, state, state_since, lock_type, lock,
     mode, behind, waiting_since, query);

REVOKE ALL ON TABLE pglock.blockers FROM PUBLIC;

COMMENT ON VIEW pglock.blockers IS
    'Who is at the root of the waits of this server, for locks of all types: the sessions and prepared transactions that '
    'others wait for and that wait for nothing. A deadlock has no root. Reading it stops the lock manager for a moment per '
    'waiter: set a statement_timeout before reading it often';
COMMENT ON COLUMN pglock.blockers.pid IS 'The process ID of the session, NULL for a prepared transaction';
COMMENT ON COLUMN pglock.blockers.prepared IS 'The identifier of the prepared transaction, as COMMIT PREPARED takes it';
COMMENT ON COLUMN pglock.blockers.usename IS 'The role of the session, or of who prepared the transaction';
COMMENT ON COLUMN pglock.blockers.application_name IS 'What the session calls itself';
COMMENT ON COLUMN pglock.blockers.client_addr IS 'The address of the client, see pglock.locks';
COMMENT ON COLUMN pglock.blockers.state IS 'What the session does, see pglock.locks';
COMMENT ON COLUMN pglock.blockers.state_since IS 'Since when the session does that, or the transaction is prepared';
COMMENT ON COLUMN pglock.blockers.lock_type IS
    'The type of the lock that most sessions wait for directly, of those that it holds: locktype in pg_locks';
COMMENT ON COLUMN pglock.blockers.lock IS
    'That lock: a key as pglock.locks has it, a table of this database, the number of a transaction, or else what '
    'identifies it in pg_locks';
COMMENT ON COLUMN pglock.blockers.mode IS 'The strongest mode in which it holds that lock, as in pg_locks';
COMMENT ON COLUMN pglock.blockers.behind IS
    'How many sessions wait for it, directly or through others, for whichever lock';
COMMENT ON COLUMN pglock.blockers.waiting_since IS 'When the longest of these waits began, NULL before PostgreSQL 14';
COMMENT ON COLUMN pglock.blockers.query IS 'The statement that the session runs or ran last';

SELECT pglock.limit_rights();

UPDATE pglock.schema_migrations SET version = 14, dirty = false;
