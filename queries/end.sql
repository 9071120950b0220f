-- How the monitor ends a session, or its statement. Everything here works without any grant; the server decides
-- whether the signal may be sent.

-- Checks again that the session is the intended one, and signals it, in one statement: there is no round trip between
-- the check and the signal. One gap in the server remains: after it has looked up the session, and before kill(2), the
-- process can end, and the operating system can give its number to another one (pg_signal_backend in
-- src/backend/storage/ipc/signalfuncs.c).
-- name: SignalSession :one
WITH session AS MATERIALIZED (
    SELECT a.pid, a.backend_start, a.backend_type
    FROM pg_catalog.pg_stat_activity AS a
    WHERE a.pid = @pid::pg_catalog.int4
)
SELECT (CASE
        WHEN pg_catalog.pg_backend_pid() = @pid::pg_catalog.int4 THEN 'own'
        WHEN NOT EXISTS (SELECT FROM session) THEN 'gone'
        WHEN NOT EXISTS (SELECT FROM session AS s WHERE s.backend_start = @since::pg_catalog.timestamptz) THEN 'other'
        WHEN EXISTS (SELECT FROM session AS s WHERE s.backend_type = ANY (@auxiliary::pg_catalog.text[])) THEN 'auxiliary'
        WHEN @terminate::pg_catalog.bool AND (SELECT pg_catalog.pg_terminate_backend(s.pid) FROM session AS s) THEN 'sent'
        WHEN NOT @terminate::pg_catalog.bool AND (SELECT pg_catalog.pg_cancel_backend(s.pid) FROM session AS s) THEN 'sent'
        ELSE 'gone' END)::text AS verdict;

-- The state of a session that was signalled.
-- name: SessionRemains :one
SELECT (s.pid IS NOT NULL)::bool AS alive,
       s.state_change,
       EXISTS (SELECT FROM pg_catalog.pg_locks AS l
               WHERE NOT l.granted AND l.pid = s.pid) AS waits
FROM (SELECT 1) AS one
LEFT JOIN pg_catalog.pg_stat_activity AS s
    ON s.pid = @pid::pg_catalog.int4 AND s.backend_start = @since::pg_catalog.timestamptz;

-- Ends a process that holds locks in rows, whether or not it holds any now.
-- name: EndHolder :one
SELECT pglock.lease_terminate(@holder::pg_catalog.text)::bool AS ended;
