-- Who waits for whom: a row for every session in the way of a waiter. A self-join of pg_locks does not tell, since a
-- waiter also stands behind earlier waiters, so this asks pg_blocking_pids, and for waiters alone, since it stops the
-- lock manager for a moment. It answers 0 for a prepared transaction
-- (https://www.postgresql.org/docs/current/functions-info.html).

CREATE VIEW pglock.waits AS
WITH lock AS MATERIALIZED (
    SELECT l.key, l.name, l.space, l.number, l.class, l.object, l.mode, l.granted, l.pid, l.prepared, l.usename,
           l.application_name, l.waiting_since
    FROM pglock.locks AS l
)
SELECT waiter.key,
       waiter.name,
       waiter.space,
       waiter.number,
       waiter.class,
       waiter.object,
       waiter.mode,
       waiter.pid AS waiter_pid,
       waiter.usename AS waiter_usename,
       waiter.application_name AS waiter_application_name,
       waiter.waiting_since,
       blocker.pid AS blocker_pid,
       holder.prepared AS blocker_prepared,
       session.usename AS blocker_usename,
       session.application_name AS blocker_application_name,
       session.client_addr AS blocker_client_addr,
       session.state AS blocker_state,
       CASE
           WHEN holder.holds THEN 'hard'
           WHEN EXISTS (
               SELECT FROM lock AS queued
               WHERE queued.space = waiter.space AND queued.number = waiter.number
                 AND queued.pid = blocker.pid AND NOT queued.granted
           ) THEN 'soft'
       END AS block
FROM lock AS waiter
CROSS JOIN LATERAL (
    SELECT DISTINCT blocking.pid FROM pg_catalog.unnest(pg_catalog.pg_blocking_pids(waiter.pid)) AS blocking (pid)
) AS blocker
LEFT JOIN LATERAL (
    SELECT DISTINCT true AS holds, held.prepared FROM lock AS held
    WHERE held.space = waiter.space AND held.number = waiter.number AND held.granted
      AND coalesce(held.pid, 0) = blocker.pid
      AND 'exclusive' IN (held.mode, waiter.mode)
) AS holder ON true
LEFT JOIN pg_catalog.pg_stat_activity AS session ON session.pid = blocker.pid
WHERE NOT waiter.granted;

REVOKE ALL ON TABLE pglock.waits FROM PUBLIC;

COMMENT ON VIEW pglock.waits IS
    'Who waits for whom on the advisory locks of this database, a row for every blocker of a waiter. '
    'Reading it stops the lock manager for a moment per waiter: set a statement_timeout before reading it often';
COMMENT ON COLUMN pglock.waits.key IS 'The key as people write it, see pglock.locks';
COMMENT ON COLUMN pglock.waits.name IS 'The name by which the lock was taken, see pglock.locks';
COMMENT ON COLUMN pglock.waits.space IS 'Which keys number is one of, see pglock.locks';
COMMENT ON COLUMN pglock.waits.number IS 'The bigint, or two integers packed as class << 32 | object';
COMMENT ON COLUMN pglock.waits.class IS 'The first of two integers';
COMMENT ON COLUMN pglock.waits.object IS 'The second of two integers';
COMMENT ON COLUMN pglock.waits.mode IS 'What the waiter waits for: exclusive or shared';
COMMENT ON COLUMN pglock.waits.waiter_pid IS 'The process ID of the session that waits';
COMMENT ON COLUMN pglock.waits.waiter_usename IS 'The role of the session that waits';
COMMENT ON COLUMN pglock.waits.waiter_application_name IS 'What the session that waits calls itself';
COMMENT ON COLUMN pglock.waits.waiting_since IS 'When the wait began, NULL before PostgreSQL 14';
COMMENT ON COLUMN pglock.waits.blocker_pid IS 'The process ID of the session in the way, 0 for a prepared transaction';
COMMENT ON COLUMN pglock.waits.blocker_prepared IS 'The identifier of the prepared transaction in the way';
COMMENT ON COLUMN pglock.waits.blocker_usename IS 'The role of the session in the way';
COMMENT ON COLUMN pglock.waits.blocker_application_name IS 'What the session in the way calls itself';
COMMENT ON COLUMN pglock.waits.blocker_client_addr IS 'The address of the client in the way, see pglock.locks';
COMMENT ON COLUMN pglock.waits.blocker_state IS 'What the session in the way does, see pglock.locks';
COMMENT ON COLUMN pglock.waits.block IS
    'hard: the blocker holds the lock in a mode that conflicts. soft: it only waits ahead. '
    'NULL: it came or went while this was read';

UPDATE pglock.schema_migrations SET version = 6, dirty = false;
