-- Makes again what the files before this one may have made with operators of others. Until version 7 they left the
-- schema of most operators to search_path, where a role that may create objects in a schema of it (in "public" that was
-- any role before PostgreSQL 15) could offer better fitting ones. They then stood in the views and the constraints, and
-- ran with the rights of the roles that used these. A new database gets the same definitions a second time.
--
-- Replacing keeps grants and comments, and executes none of the old definitions.

CREATE OR REPLACE FUNCTION pglock.key(name pg_catalog.text) RETURNS bigint
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT ('x'::pg_catalog.text OPERATOR(pg_catalog.||) pg_catalog.encode(
        pg_catalog.substring(pg_catalog.sha256(pg_catalog.convert_to(name, 'UTF8')), 1, 8), 'hex'))::bit(64)::bigint
$$;

ALTER TABLE pglock.names
    DROP CONSTRAINT names_key_is_of_name,
    DROP CONSTRAINT names_name_fits_index,
    ADD CONSTRAINT names_key_is_of_name CHECK (key OPERATOR(pg_catalog.=) pglock.key(name)),
    ADD CONSTRAINT names_name_fits_index CHECK (pg_catalog.octet_length(name) OPERATOR(pg_catalog.<=) 1024);

COMMENT ON CONSTRAINT names_key_is_of_name ON pglock.names IS 'No name is recorded for a number that is not its own';
COMMENT ON CONSTRAINT names_name_fits_index ON pglock.names IS 'Keeps rows well below the size limit of an index row';

CREATE OR REPLACE FUNCTION pglock.register(VARIADIC names pg_catalog.text[]) RETURNS bigint
LANGUAGE sql VOLATILE STRICT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    WITH added AS (
        INSERT INTO pglock.names (key, name)
        SELECT DISTINCT pglock.key(given.name), given.name COLLATE pg_catalog."C"
        FROM pg_catalog.unnest(register.names) AS given (name)
        WHERE pg_catalog.octet_length(given.name) OPERATOR(pg_catalog.<=) 1024
        ORDER BY 1, 2
        ON CONFLICT DO NOTHING
        RETURNING key
    )
    SELECT pg_catalog.count(*) FROM added
$$;

CREATE OR REPLACE VIEW pglock.locks AS
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

CREATE OR REPLACE VIEW pglock.waits AS
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
               WHERE queued.space OPERATOR(pg_catalog.=) waiter.space
                 AND queued.number OPERATOR(pg_catalog.=) waiter.number
                 AND queued.pid OPERATOR(pg_catalog.=) blocker.pid AND NOT queued.granted
           ) THEN 'soft'
       END AS block
FROM lock AS waiter
CROSS JOIN LATERAL (
    SELECT DISTINCT blocking.pid FROM pg_catalog.unnest(pg_catalog.pg_blocking_pids(waiter.pid)) AS blocking (pid)
) AS blocker
LEFT JOIN LATERAL (
    SELECT DISTINCT true AS holds, held.prepared FROM lock AS held
    WHERE held.space OPERATOR(pg_catalog.=) waiter.space
      AND held.number OPERATOR(pg_catalog.=) waiter.number AND held.granted
      AND coalesce(held.pid, 0) OPERATOR(pg_catalog.=) blocker.pid
      AND (held.mode OPERATOR(pg_catalog.=) 'exclusive' OR waiter.mode OPERATOR(pg_catalog.=) 'exclusive')
) AS holder ON true
LEFT JOIN pg_catalog.pg_stat_activity AS session ON session.pid OPERATOR(pg_catalog.=) blocker.pid
WHERE NOT waiter.granted;

UPDATE pglock.schema_migrations SET version = 7, dirty = false;
