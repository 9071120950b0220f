-- How the monitor ends a session, or its statement. Everything here works without any grant; the server decides
-- whether the signal may be sent.

-- Checks again that the session is the intended one, and signals it, in one statement: there is no round trip between
-- the check and the signal. One gap in the server remains: after it has looked up the session, and before kill(2), the
-- process can end, and the operating system can give its number to another one (pg_signal_backend in
-- src/backend/storage/ipc/signalfuncs.c).
--
-- A session is its process ID and the time when it began. Where the role may not see that time, its user and
-- application have to be the same, and it has to hold all the keys that were shown.
-- name: SignalSession :one
WITH session AS MATERIALIZED (
    SELECT a.pid, a.usename, a.application_name, a.backend_start, a.backend_type
    FROM pg_catalog.pg_stat_activity AS a
    WHERE a.pid = @pid::pg_catalog.int4
), held AS MATERIALIZED (
    SELECT l.database::int8 AS database, l.objsubid, (l.classid::int8 << 32) | l.objid::int8 AS number
    FROM pg_catalog.pg_locks AS l
    WHERE l.locktype = 'advisory' AND l.granted AND l.pid = @pid::pg_catalog.int4
)
SELECT (CASE
        WHEN pg_catalog.pg_backend_pid() = @pid::pg_catalog.int4 THEN 'own'
        WHEN NOT EXISTS (SELECT FROM session) THEN 'gone'
        WHEN sqlc.narg('since')::pg_catalog.timestamptz IS NOT NULL
            AND NOT EXISTS (SELECT FROM session AS s WHERE s.backend_start = sqlc.narg('since')::pg_catalog.timestamptz)
            THEN 'other'
        WHEN sqlc.narg('since')::pg_catalog.timestamptz IS NULL
            AND NOT EXISTS (SELECT FROM session AS s WHERE coalesce(s.usename::text, '') = @usename::pg_catalog.text
                                                       AND coalesce(s.application_name, '') = @application::pg_catalog.text)
            THEN 'other'
        WHEN sqlc.narg('since')::pg_catalog.timestamptz IS NULL
            AND EXISTS (SELECT (@numbers::pg_catalog.int8[])[i], (@spaces::pg_catalog.int2[])[i], (@databases::pg_catalog.int8[])[i]
                        FROM pg_catalog.generate_subscripts(@numbers::pg_catalog.int8[], 1) AS i
                        EXCEPT
                        SELECT h.number, h.objsubid, h.database FROM held AS h)
            THEN 'other'
        WHEN EXISTS (SELECT FROM session AS s WHERE s.backend_type = ANY (@auxiliary::pg_catalog.text[])) THEN 'auxiliary'
        WHEN @terminate::pg_catalog.bool AND (SELECT pg_catalog.pg_terminate_backend(s.pid) FROM session AS s) THEN 'sent'
        WHEN NOT @terminate::pg_catalog.bool AND (SELECT pg_catalog.pg_cancel_backend(s.pid) FROM session AS s) THEN 'sent'
        ELSE 'gone' END)::text AS verdict;

-- The state of a session that was signalled. A session whose start is hidden counts as the same while a process with
-- that ID exists. The state and its change are NULL if the role may not see them.
-- name: SessionRemains :one
SELECT (s.pid IS NOT NULL)::bool AS alive,
       s.state_change,
       EXISTS (SELECT FROM pg_catalog.pg_locks AS l
               WHERE NOT l.granted AND l.pid = s.pid) AS waits
FROM (SELECT 1) AS one
LEFT JOIN pg_catalog.pg_stat_activity AS s
    ON s.pid = @pid::pg_catalog.int4
   AND (sqlc.narg('since')::pg_catalog.timestamptz IS NULL OR s.backend_start = sqlc.narg('since')::pg_catalog.timestamptz);

-- Ends a process that holds locks in rows, whether or not it holds any now.
-- name: EndHolder :one
SELECT pglock.lease_terminate(@holder::pg_catalog.text)::bool AS ended;
