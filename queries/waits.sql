-- Deadlocks between processes (pglock/internal/between). A session publishes the waits of its process in the text of this
-- statement, before it, and sees those of others.

-- more is what processes with locks in rows have published. A text is read from its letters alone, and numbers have a form that
-- cannot be too large, whatever a stranger publishes. The companions of a wanted key (queries/guard.sql) show the transactions
-- that its holders have guarded. pg_blocking_pids, which holds up the whole lock table, is asked only for sessions that wait and
-- keep a published wait waiting.
-- name: LookAtWaits :one
WITH RECURSIVE texts AS MATERIALIZED (
    SELECT a.pid::pg_catalog.text AS process, a.usesysid::pg_catalog.text AS role, a.application_name AS application,
        pg_catalog.substring(a.query, '^/[*] pglock waits([-+=0-9a-z@:/~*; ]*)') AS text
    FROM pg_catalog.pg_stat_activity AS a
    WHERE a.datid OPERATOR(pg_catalog.=) (SELECT d.oid FROM pg_catalog.pg_database AS d
            WHERE d.datname OPERATOR(pg_catalog.=) pg_catalog.current_database())
        AND pg_catalog.starts_with(a.query, '/* pglock waits')
), words AS MATERIALIZED (
    SELECT DISTINCT m.word[1] AS sign, m.word[2]::pg_catalog.int2 AS space, m.word[3] AS number
    FROM (SELECT t.text FROM texts AS t UNION ALL SELECT @more::pg_catalog.text) AS t
    CROSS JOIN LATERAL pg_catalog.regexp_matches(t.text, '([-+=])([0-9]{1,2}):([0-9a-f]{16})', 'g') AS m (word)
), keys AS (
    SELECT w.space, w.number, w.space AS sub, w.number AS hex
    FROM words AS w
    UNION
    SELECT w.space, w.number, 1, pg_catalog.substr(pg_catalog.encode(pg_catalog.sha256(
        '\x70676c6f636b20677561726400'::pg_catalog.bytea -- "pglock guard" and a zero
            OPERATOR(pg_catalog.||) pg_catalog.convert_to(w.space::pg_catalog.text, 'UTF8')
            OPERATOR(pg_catalog.||) '\x00'::pg_catalog.bytea
            OPERATOR(pg_catalog.||) pg_catalog.convert_to(
                ('x' OPERATOR(pg_catalog.||) w.number)::pg_catalog.bit(64)::pg_catalog.int8::pg_catalog.text, 'UTF8')
            OPERATOR(pg_catalog.||) kind.shared), 'hex'), 1, 16)
    FROM words AS w
    CROSS JOIN (VALUES (''::pg_catalog.bytea), ('\x00736861726564'::pg_catalog.bytea)) AS kind (shared)
    WHERE w.sign OPERATOR(pg_catalog.<>) '+'
), holders AS MATERIALIZED (
    SELECT DISTINCT k.space, ('x' OPERATOR(pg_catalog.||) k.number)::pg_catalog.bit(64)::pg_catalog.int8 AS number,
        a.pid::pg_catalog.text AS owner, a.usesysid::pg_catalog.text AS role,
        l.mode OPERATOR(pg_catalog.=) 'ShareLock' AND k.hex OPERATOR(pg_catalog.=) k.number AND NOT EXISTS (
            SELECT FROM pg_catalog.pg_locks AS w
            WHERE NOT w.granted AND w.mode OPERATOR(pg_catalog.=) 'ExclusiveLock' AND w.locktype OPERATOR(pg_catalog.=) 'advisory'
                AND w.database OPERATOR(pg_catalog.=) l.database AND w.classid OPERATOR(pg_catalog.=) l.classid
                AND w.objid OPERATOR(pg_catalog.=) l.objid AND w.objsubid OPERATOR(pg_catalog.=) l.objsubid) AS shared
    FROM keys AS k
    JOIN pg_catalog.pg_locks AS l
        ON l.locktype OPERATOR(pg_catalog.=) 'advisory' AND l.granted AND l.objsubid OPERATOR(pg_catalog.=) k.sub
        AND l.classid OPERATOR(pg_catalog.=) ('x' OPERATOR(pg_catalog.||) pg_catalog.substr(k.hex, 1, 8))::pg_catalog.bit(32)::pg_catalog.int4::pg_catalog.oid
        AND l.objid OPERATOR(pg_catalog.=) ('x' OPERATOR(pg_catalog.||) pg_catalog.substr(k.hex, 9, 8))::pg_catalog.bit(32)::pg_catalog.int4::pg_catalog.oid
    JOIN pg_catalog.pg_stat_activity AS a ON a.pid OPERATOR(pg_catalog.=) l.pid
    WHERE l.database OPERATOR(pg_catalog.=) (SELECT d.oid FROM pg_catalog.pg_database AS d
            WHERE d.datname OPERATOR(pg_catalog.=) pg_catalog.current_database())
), transactions AS MATERIALIZED (
    SELECT DISTINCT a.pid::pg_catalog.text AS pid, a.usesysid::pg_catalog.text AS role,
        (pg_catalog.date_part('epoch', a.xact_start) OPERATOR(pg_catalog.*) 1000000)::pg_catalog.int8 AS began
    FROM (SELECT t.text FROM texts AS t UNION ALL SELECT @more::pg_catalog.text) AS t
    CROSS JOIN LATERAL pg_catalog.regexp_matches(t.text, '~([0-9]{1,9})/', 'g') AS m (word)
    JOIN pg_catalog.pg_stat_activity AS a ON a.pid OPERATOR(pg_catalog.=) m.word[1]::pg_catalog.int4
    WHERE a.xact_start IS NOT NULL
), waiting AS MATERIALIZED (
    SELECT l.pid::pg_catalog.text AS pid, CASE WHEN l.locktype OPERATOR(pg_catalog.=) 'advisory' THEN l.objsubid ELSE 0 END AS space,
        CASE WHEN l.locktype OPERATOR(pg_catalog.=) 'advisory'
            THEN (l.classid::pg_catalog.int8 OPERATOR(pg_catalog.<<) 32) OPERATOR(pg_catalog.|) l.objid::pg_catalog.int8
            ELSE 0 END AS number
    FROM pg_catalog.pg_locks AS l
    WHERE NOT l.granted
), reached (pid) AS (
    (SELECT h.owner FROM holders AS h UNION SELECT x.pid FROM transactions AS x)
    UNION
    SELECT b.pid::pg_catalog.text
    FROM reached AS r
    JOIN waiting AS w ON w.pid OPERATOR(pg_catalog.=) r.pid
    CROSS JOIN LATERAL pg_catalog.unnest(pg_catalog.pg_blocking_pids(w.pid::pg_catalog.int4)) AS b (pid)
)
SELECT pg_catalog.json_build_object(
    'now', (pg_catalog.date_part('epoch', pg_catalog.clock_timestamp()) OPERATOR(pg_catalog.*) 1000000)::pg_catalog.int8,
    'self', pg_catalog.pg_backend_pid()::pg_catalog.text,
    'room', (SELECT s.setting::pg_catalog.int8 OPERATOR(pg_catalog.-) 1 FROM pg_catalog.pg_settings AS s
        WHERE s.name OPERATOR(pg_catalog.=) 'track_activity_query_size'),
    'texts', (SELECT pg_catalog.json_agg(t) FROM texts AS t),
    'holders', (SELECT pg_catalog.json_agg(h) FROM holders AS h),
    'txs', (SELECT pg_catalog.json_agg(x) FROM transactions AS x),
    'blocked', (SELECT pg_catalog.json_agg(b) FROM (
        SELECT w.pid, w.space, w.number, pg_catalog.pg_blocking_pids(w.pid::pg_catalog.int4)::pg_catalog.text[] AS by
        FROM reached AS r
        JOIN waiting AS w ON w.pid OPERATOR(pg_catalog.=) r.pid) AS b))::pg_catalog.text AS sight;

-- What other sessions can know a transaction by, and where it is, as SetUpSession says it (queries/sessions.sql).
-- Other processes see by the companions of Locks that it is their work.
-- name: IdentifyTx :one
SELECT pg_catalog.pg_backend_pid()::pg_catalog.text AS pid,
    (pg_catalog.date_part('epoch', pg_catalog.transaction_timestamp()) OPERATOR(pg_catalog.*) 1000000)::pg_catalog.int8 AS began,
    pg_catalog.concat((pg_catalog.date_part('epoch', pg_catalog.pg_postmaster_start_time())
        OPERATOR(pg_catalog.*) 1000000)::pg_catalog.int8, '/', pg_catalog.current_database())::pg_catalog.text AS server,
    (SELECT pg_catalog.count(pg_catalog.pg_try_advisory_xact_lock_shared(c)) FROM pg_catalog.unnest(@companions::pg_catalog.int8[]) AS c) AS tied;
