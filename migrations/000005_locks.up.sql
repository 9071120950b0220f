-- The advisory locks of this database, one row per holder or waiter, as pg_locks has them
-- (https://www.postgresql.org/docs/current/view-pg-locks.html).
--
-- objsubid tells the key's space: 1 is a bigint, whose upper half is classid and lower half objid, 2 is two integers.
-- Both halves are shown unsigned there. Other values are locks that extensions take through PostgreSQL's C interface.
--
-- A lock without a pid belongs to a prepared transaction. Its name is found through the lock on its own transaction ID,
-- which has the same virtual transaction. waitstart exists since PostgreSQL 14, hence the detour through jsonb, and is
-- NULL for an instant after a wait has begun. pg_locks is read once, since two readings are of two moments.

CREATE VIEW pglock.locks AS
WITH lock AS MATERIALIZED (
    SELECT l.locktype, l.virtualtransaction, l.transactionid, l.pid, l.mode, l.granted,
           l.objsubid AS space,
           (l.classid::bigint OPERATOR(pg_catalog.<<) 32) OPERATOR(pg_catalog.|) l.objid::bigint AS number,
           CASE WHEN l.objsubid OPERATOR(pg_catalog.<>) 1 THEN l.classid::integer END AS class,
           CASE WHEN l.objsubid OPERATOR(pg_catalog.<>) 1 THEN l.objid::integer END AS object,
           CASE WHEN NOT l.granted THEN
               (pg_catalog.to_jsonb(l) OPERATOR(pg_catalog.->>) 'waitstart')::timestamp with time zone
           END AS waiting_since
    FROM pg_catalog.pg_locks AS l
    WHERE (l.locktype OPERATOR(pg_catalog.=) 'advisory'
           AND l.database OPERATOR(pg_catalog.=) (
               SELECT d.oid FROM pg_catalog.pg_database AS d
               WHERE d.datname OPERATOR(pg_catalog.=) pg_catalog.current_database()))
       OR (l.locktype OPERATOR(pg_catalog.=) 'transactionid' AND l.pid IS NULL)
)
SELECT CASE
           WHEN name.name OPERATOR(pg_catalog.~~) '@%' THEN pg_catalog.concat('@', name.name)
           WHEN name.name OPERATOR(pg_catalog.<>) '' THEN name.name
           WHEN lock.space OPERATOR(pg_catalog.=) 1 THEN pg_catalog.concat('@', lock.number)
           WHEN lock.space OPERATOR(pg_catalog.=) 2 THEN pg_catalog.concat('@', lock.class, '/', lock.object)
           ELSE pg_catalog.concat('@', lock.class, '/', lock.object, '#', lock.space)
       END AS key,
       name.name,
       lock.space,
       lock.number,
       lock.class,
       lock.object,
       CASE WHEN lock.mode OPERATOR(pg_catalog.=) 'ShareLock' THEN 'shared' ELSE 'exclusive' END AS mode,
       lock.granted,
       lock.pid,
       prepared.gid AS prepared,
       coalesce(session.usename, prepared.owner) AS usename,
       session.application_name,
       session.client_addr,
       session.state,
       session.backend_start AS session_since,
       lock.waiting_since
FROM lock
LEFT JOIN LATERAL (
    SELECT n.name FROM pglock.names AS n
    WHERE n.key OPERATOR(pg_catalog.=) lock.number AND lock.space OPERATOR(pg_catalog.=) 1
    ORDER BY n.first_seen, n.name LIMIT 1
) AS name ON true
LEFT JOIN pg_catalog.pg_stat_activity AS session ON session.pid OPERATOR(pg_catalog.=) lock.pid
LEFT JOIN (
    lock AS own JOIN pg_catalog.pg_prepared_xacts AS prepared
        ON own.locktype OPERATOR(pg_catalog.=) 'transactionid'
       AND prepared.transaction OPERATOR(pg_catalog.=) own.transactionid
) ON lock.pid IS NULL AND own.virtualtransaction OPERATOR(pg_catalog.=) lock.virtualtransaction
WHERE lock.locktype OPERATOR(pg_catalog.=) 'advisory';

REVOKE ALL ON TABLE pglock.locks FROM PUBLIC;

COMMENT ON VIEW pglock.locks IS
    'The advisory locks of this database: who holds them and who waits. What PostgreSQL hides from the current role '
    '(client_addr, state, session_since) is NULL, and shown to members of pg_read_all_stats';
COMMENT ON COLUMN pglock.locks.key IS
    'The key as people write it: the name where it is registered (@@x for the name @x), else @BIGINT or @CLASS/OBJECT. '
    '@CLASS/OBJECT#SPACE is a lock of an extension';
COMMENT ON COLUMN pglock.locks.name IS 'The registered name of the key, the first one if names collide';
COMMENT ON COLUMN pglock.locks.space IS '1 for keys of one bigint, 2 for keys of two integers (objsubid in pg_locks)';
COMMENT ON COLUMN pglock.locks.number IS 'The bigint, or two integers packed as class << 32 | object';
COMMENT ON COLUMN pglock.locks.class IS 'The first of two integers';
COMMENT ON COLUMN pglock.locks.object IS 'The second of two integers';
COMMENT ON COLUMN pglock.locks.mode IS 'exclusive or shared';
COMMENT ON COLUMN pglock.locks.granted IS 'Whether the lock is held, otherwise waited for';
COMMENT ON COLUMN pglock.locks.pid IS 'The process ID of the session, NULL if a prepared transaction holds the lock';
COMMENT ON COLUMN pglock.locks.prepared IS 'The identifier of the prepared transaction, as COMMIT PREPARED takes it';
COMMENT ON COLUMN pglock.locks.usename IS 'The role of the session, or of who prepared the transaction';
COMMENT ON COLUMN pglock.locks.application_name IS 'What the session calls itself';
COMMENT ON COLUMN pglock.locks.client_addr IS 'The address of the client, NULL for a Unix socket';
COMMENT ON COLUMN pglock.locks.state IS 'What the session does: active, idle, idle in transaction and so on';
COMMENT ON COLUMN pglock.locks.session_since IS
    'When the session began. PostgreSQL does not record when a lock was granted';
COMMENT ON COLUMN pglock.locks.waiting_since IS 'When the wait began, NULL for holders and before PostgreSQL 14';

UPDATE pglock.schema_migrations SET version = 5, dirty = false;
