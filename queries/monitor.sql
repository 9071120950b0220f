-- What the monitor reads. It writes nothing and needs no grant: what a role may not see comes back NULL.

-- For the transaction, keeps out operators, functions and types that the database's owner may have put on the
-- search_path. It is sent before everything else. But pgx may prepare the others before it is executed. The server then
-- analyses them again, but keeps the types of their parameters, so these are written with their schema. Compiling the
-- statements behind it (jit), or starting workers for them, would take longer than they do if the planner's settings make
-- them look costly.
-- name: PinSearchPath :exec
SELECT pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true),
       pg_catalog.set_config('jit', 'off', true),
       pg_catalog.set_config('max_parallel_workers_per_gather', '0', true),
       pg_catalog.set_config('bytea_output', 'hex', true);

-- For the transaction, sends texts as the server has them: those of other databases, in statements and in names of roles and
-- databases, are in the encodings of these, and one that cannot be converted to the client's would be an error for all.
-- name: SendRawTexts :exec
SELECT pg_catalog.set_config('client_encoding', 'SQL_ASCII', true);

-- Says which server this is, and keeps the statements behind it in the same transaction from being a burden: one that
-- takes long is cancelled, and so is one that waits for a lock. Limits that are tighter already stay. It reads no table
-- itself, since it has no limits yet. Dates come in a form that the client reads in text too.
-- name: Limit :one
SELECT pg_catalog.set_config('datestyle', 'ISO', true)::text AS datestyle,
       (SELECT count(pg_catalog.set_config(s.name,
                   CASE WHEN pg_catalog.current_setting(s.name)::interval BETWEEN '1 ms' AND s.most::interval
                        THEN pg_catalog.current_setting(s.name)
                        ELSE s.most END, true))
        FROM (VALUES ('statement_timeout', @statement_timeout::pg_catalog.text),
                     ('lock_timeout', @lock_timeout::pg_catalog.text)) AS s (name, most)) AS limits,
       pg_catalog.clock_timestamp()::timestamptz AS taken_at,
       pg_catalog.current_setting('server_version')::text AS version,
       pg_catalog.current_database()::text AS database,
       current_user::text AS role,
       pg_catalog.current_setting('is_superuser')::bool AS superuser,
       pg_catalog.current_setting('max_locks_per_transaction')::int8 AS max_locks_per_transaction,
       pg_catalog.current_setting('max_connections')::int8 AS max_connections,
       pg_catalog.current_setting('max_prepared_transactions')::int8 AS max_prepared_transactions,
       COALESCE(pg_catalog.host(pg_catalog.inet_server_addr()), '')::text AS host,
       pg_catalog.current_setting('port')::int4 AS port,
       pg_catalog.pg_is_in_recovery()::bool AS in_recovery;

-- Everything about advisory locks except who waits for whom, in every database of the server, from one reading of
-- pg_locks. A row is a session or prepared transaction with the locks of one database and space that it holds, or
-- waits for, in one mode: their numbers are eight bytes each. Its first row also has what pg_stat_activity knows of it, and the first row of all what
-- there is only once. Sessions without advisory locks are there when they have more locks than most, when they are wanted, and,
-- unless the snapshot is of advisory locks only, when they wait for another lock or hold one that is waited for.
--
-- name: Locks :many
WITH locks AS MATERIALIZED (
    SELECT l.locktype, l.database, l.relation, l.page, l.tuple, l.virtualxid, l.transactionid, l.classid, l.objid,
           l.objsubid, l.mode, l.granted, l.pid,
           -- A prepared transaction has no pid, but a virtual transaction for ever, unlike sessions.
           COALESCE(l.pid::text, l.virtualtransaction)::text COLLATE "C" AS owner,
           (l.classid::int8 << 32) | l.objid::int8 AS number,
           -- Other locks take no place in the lock table.
           NOT l.fastpath AND l.mode <> 'SIReadLock' AS shared,
           CASE WHEN NOT l.granted THEN l.waitstart END AS waiting_since
    FROM pg_catalog.pg_locks AS l
    -- This statement locks what it reads.
    WHERE l.locktype = 'advisory' OR l.pid IS DISTINCT FROM pg_catalog.pg_backend_pid()
    UNION ALL
    -- On a standby, replay waits without a lock for the snapshots that see what it removes. The oldest one is such.
    SELECT 'oldest snapshot', NULL::oid, NULL::oid, NULL::int4, NULL::int2, NULL::text, NULL::xid, NULL::oid, NULL::oid, NULL::int2,
           CASE WHEN a.backend_type = 'startup' THEN 'AccessExclusiveLock' ELSE 'AccessShareLock' END, a.backend_type <> 'startup',
           a.pid, a.pid::text COLLATE "C", NULL::int8, false, NULL::timestamptz
    FROM pg_catalog.pg_stat_activity AS a
    WHERE EXISTS (SELECT FROM pg_catalog.pg_stat_activity AS s
                  WHERE s.backend_type = 'startup' AND s.wait_event = 'RecoveryConflictSnapshot')
      AND (a.backend_type = 'startup'
           OR pg_catalog.age(a.backend_xmin) = (SELECT max(pg_catalog.age(o.backend_xmin)) FROM pg_catalog.pg_stat_activity AS o
                                                WHERE o.pid <> pg_catalog.pg_backend_pid()) AND a.pid <> pg_catalog.pg_backend_pid())
),
-- What is not an advisory lock, if such a lock is waited for at all, and of the kinds that are.
others AS MATERIALIZED (
    SELECT l.*, pg_catalog.concat_ws('/', l.locktype, l.database, l.relation, l.page, l.tuple, l.virtualxid,
                                     l.transactionid, l.classid, l.objid, l.objsubid)::text COLLATE "C" AS target
    FROM locks AS l
    WHERE l.locktype IN (SELECT w.locktype FROM locks AS w WHERE NOT w.granted AND w.locktype <> 'advisory')
),
contended AS MATERIALIZED (
    SELECT o.* FROM others AS o
    WHERE o.target IN (SELECT w.target FROM others AS w WHERE NOT w.granted)
),
-- A parallel worker belongs to its leader.
workers AS MATERIALIZED (
    SELECT a.pid::text COLLATE "C" AS owner, a.leader_pid::text COLLATE "C" AS leader
    FROM pg_catalog.pg_stat_activity AS a
    WHERE a.leader_pid IS NOT NULL AND a.leader_pid <> a.pid AND EXISTS (SELECT FROM contended)
),
wanted AS MATERIALIZED (
    SELECT pg_catalog.unnest(ARRAY[a.pid, a.leader_pid]) AS pid FROM pg_catalog.pg_stat_activity AS a
    WHERE pg_catalog.cardinality(@wanted::pg_catalog.int4[]) > 0 AND a.pid = ANY (@wanted::pg_catalog.int4[])
),
present AS (
    SELECT l.owner, min(l.pid)::int4 AS pid, bool_or(l.locktype = 'advisory') AS advisory,
           count(*) FILTER (WHERE l.shared) AS entries
    FROM locks AS l
    GROUP BY l.owner
),
owners AS (
    SELECT p.owner, p.pid, p.advisory, p.entries,
           pg_catalog.row_number() OVER (ORDER BY p.entries DESC) <= @top::pg_catalog.int8 AND p.entries > 0 AS top
    FROM present AS p
    UNION ALL
    SELECT w.pid::text COLLATE "C", w.pid, false, 0, false
    FROM wanted AS w
    WHERE NOT EXISTS (SELECT FROM present AS p WHERE p.pid = w.pid)
),
held AS (
    SELECT l.owner, l.database, l.objsubid, l.mode, l.granted, min(l.waiting_since) AS waiting_since,
           pg_catalog.string_agg(pg_catalog.int8send(l.number), ''::bytea) AS numbers,
           pg_catalog.row_number() OVER (PARTITION BY l.owner) AS nth
    FROM locks AS l
    WHERE l.locktype = 'advisory'
    GROUP BY l.owner, l.database, l.objsubid, l.mode, l.granted
),
-- A prepared transaction always holds the lock of its own transaction ID too, which leads to its identifier.
prepared AS (
    SELECT l.owner, p.gid, p.owner AS role, p.prepared, p.database, pg_catalog.age(p.transaction)::int8 AS xid_age
    FROM locks AS l
    JOIN pg_catalog.pg_prepared_xacts AS p ON p.transaction = l.transactionid
    WHERE l.locktype = 'transactionid' AND l.pid IS NULL
),
sessions AS (
    SELECT o.owner, o.pid, o.entries, h.database, h.objsubid, h.mode, h.granted, h.waiting_since, h.numbers,
           COALESCE(d.datname, a.datname, x.database) AS datname,
           x.gid, x.role, x.prepared, COALESCE(x.xid_age, pg_catalog.age(a.backend_xid)::int8) AS xid_age,
           pg_catalog.age(a.backend_xmin)::int8 AS xmin_age,
           a.pid AS session_pid, a.usename, a.application_name, a.client_addr, a.client_port, a.state, a.state_change,
           a.query, a.backend_start, a.xact_start, a.wait_event_type, a.wait_event, a.backend_type, a.leader_pid,
           -- Why the role may not signal the session: it is 1 not its member nor one of pg_signal_backend, or 2 it belongs to a superuser.
           CASE WHEN a.usesysid IS NULL OR pg_catalog.current_setting('is_superuser')::bool THEN 0
                WHEN r.rolsuper THEN 2
                WHEN pg_catalog.pg_has_role(a.usesysid, 'USAGE') OR pg_catalog.pg_has_role('pg_signal_backend', 'USAGE') THEN 0
                ELSE 1 END AS refusal,
           o.pid IN (SELECT w.pid FROM wanted AS w) AS wanted,
           pg_catalog.row_number() OVER () AS nth
    FROM owners AS o
    LEFT JOIN held AS h ON h.owner = o.owner
    LEFT JOIN prepared AS x ON x.owner = o.owner
    LEFT JOIN pg_catalog.pg_database AS d ON d.oid = h.database
    LEFT JOIN pg_catalog.pg_stat_activity AS a ON a.pid = o.pid AND COALESCE(h.nth, 1) = 1
    LEFT JOIN pg_catalog.pg_roles AS r ON r.oid = a.usesysid
    WHERE o.advisory OR o.top OR o.pid IN (SELECT w.pid FROM wanted AS w)
       OR NOT @advisory::pg_catalog.bool AND o.owner IN (SELECT c.owner FROM contended AS c UNION ALL SELECT w.leader FROM workers AS w)
),
-- The catalogs are asked, since to_regclass raises an error where the role has no rights on the schema.
registry AS MATERIALIZED (
    SELECT n.oid IS NOT NULL AS schema_exists,
           EXISTS (SELECT FROM pg_catalog.pg_proc AS f WHERE f.pronamespace = n.oid AND f.proname = 'toolkit_version') AS ours,
           COALESCE(pg_catalog.has_schema_privilege(n.oid, 'USAGE')
                    AND pg_catalog.has_table_privilege(r.oid, 'SELECT'), false) AS readable,
           v.oid IS NOT NULL AS row_locks,
           COALESCE(pg_catalog.has_schema_privilege(n.oid, 'USAGE') AND pg_catalog.has_table_privilege(v.oid, 'SELECT')
                    AND (SELECT pg_catalog.has_sequence_privilege(m.oid, 'SELECT, USAGE') FROM pg_catalog.pg_class AS m
                         WHERE m.relnamespace = n.oid AND m.relname = 'fence' AND m.relkind = 'S'), false) AS row_locks_readable,
           EXISTS (SELECT FROM pg_catalog.pg_proc AS f WHERE f.pronamespace = n.oid AND f.proname = 'lease_terminate'
                   AND pg_catalog.has_function_privilege(f.oid, 'EXECUTE')) AS may_end_holders
    FROM (VALUES (1)) AS one (row)
    LEFT JOIN pg_catalog.pg_namespace AS n ON n.nspname = 'pglock'
    LEFT JOIN pg_catalog.pg_class AS r ON r.relnamespace = n.oid AND r.relname = 'names'
    LEFT JOIN pg_catalog.pg_class AS v ON v.relnamespace = n.oid AND v.relname = 'row_locks'
),
-- A session that waits for a row waits for the transaction that changed it. Meanwhile it holds the lock of the row, which
-- says that it is next (https://github.com/postgres/postgres/blob/master/src/backend/access/heap/README.tuplock), and no other.
rows AS MATERIALIZED (
    SELECT l.pid, min(l.database) AS database, min(l.relation) AS relation, min(l.page) AS page, min(l.tuple) AS tuple
    FROM locks AS l
    WHERE l.locktype = 'tuple' AND l.granted
    GROUP BY l.pid HAVING count(*) = 1
),
-- The other locks. Only relations of the connected database have names that can be found, and catalogs, which have the same
-- numbers in all.
chained AS (
    SELECT c.owner, c.target, c.locktype, COALESCE(c.database, t.database)::int8 AS database_oid, d.datname AS database,
           COALESCE(c.relation, t.relation)::int8 AS relation, COALESCE(c.page, t.page) AS page, COALESCE(c.tuple, t.tuple) AS tuple, c.virtualxid, c.transactionid::text AS transactionid,
           c.classid::int8 AS classid, c.objid::int8 AS objid, c.objsubid, c.mode, c.granted, c.waiting_since,
           n.nspname AS schema, r.relname AS name
    FROM contended AS c
    LEFT JOIN rows AS t ON t.pid = c.pid AND c.locktype = 'transactionid' AND NOT c.granted
    LEFT JOIN pg_catalog.pg_database AS d ON d.oid = COALESCE(c.database, t.database)
    LEFT JOIN pg_catalog.pg_class AS r ON r.oid = COALESCE(c.relation, t.relation, c.classid)
        AND (COALESCE(c.database, t.database) = 0 OR d.datname = pg_catalog.current_database() OR r.oid < 10000)
    LEFT JOIN pg_catalog.pg_namespace AS n ON n.oid = r.relnamespace
    WHERE NOT @advisory::pg_catalog.bool
),
facts AS MATERIALIZED (
    SELECT g.schema_exists, g.ours, g.readable, g.row_locks, g.row_locks_readable, g.may_end_holders,
           (SELECT d.oid FROM pg_catalog.pg_database AS d WHERE d.datname = pg_catalog.current_database()) AS connected_oid,
           (SELECT count(*) FROM (
                SELECT DISTINCT l.locktype, l.database, l.relation, l.page, l.tuple, l.virtualxid, l.transactionid,
                                l.classid, l.objid, l.objsubid
                FROM locks AS l WHERE l.shared AND l.locktype <> 'advisory') AS entry) AS other_entries,
           (SELECT pg_catalog.json_agg(pg_catalog.row_to_json(c)) FROM chained AS c) AS chained,
           (SELECT count(DISTINCT COALESCE(w.leader, c.owner)) FROM contended AS c LEFT JOIN workers AS w ON w.owner = c.owner
            WHERE NOT c.granted) AS other_waiters
    FROM registry AS g
)
SELECT f.schema_exists::bool AS schema_exists, f.ours::bool AS ours, f.readable::bool AS readable,
       f.row_locks::bool AS row_locks, f.row_locks_readable::bool AS row_locks_readable,
       f.may_end_holders::bool AS may_end_holders,
       f.connected_oid::oid AS connected_oid,
       f.other_entries::int8 AS other_entries,
       f.other_waiters::int8 AS other_waiters,
       CASE WHEN COALESCE(s.nth, 1) = 1 THEN f.chained END::json AS chained,
       COALESCE(s.owner, '')::text AS owner, s.pid, s.entries, s.database, s.objsubid, s.mode, s.granted,
       s.waiting_since::timestamptz AS waiting_since,
       s.numbers::bytea AS numbers, s.datname, s.gid, s.role, s.prepared,
       s.xid_age, s.xmin_age,
       s.session_pid, s.usename, s.application_name, s.client_addr, s.client_port, s.state, s.state_change, s.query,
       s.backend_start, s.xact_start, s.wait_event_type, s.wait_event, s.backend_type, s.leader_pid,
       COALESCE(s.refusal, 0)::int4 AS refusal, COALESCE(s.wanted, false)::bool AS wanted
FROM facts AS f
LEFT JOIN sessions AS s ON true;

-- The sessions that waiters wait for: waiters for advisory locks and, unless the snapshot is of these only, all others.
-- pg_blocking_pids keeps the lock manager busy for a moment, so it is called for no other sessions
-- (https://www.postgresql.org/docs/current/functions-info.html#FUNCTIONS-INFO-SESSION).
-- name: Blockers :many
SELECT (CASE WHEN l.locktype = 'advisory' THEN ''
        ELSE pg_catalog.concat_ws('/', l.locktype, l.database, l.relation, l.page, l.tuple, l.virtualxid, l.transactionid, l.classid,
                                  l.objid, l.objsubid) END)::text AS target,
       l.database, l.classid, l.objid, l.objsubid, l.pid::int4 AS pid, pg_catalog.pg_blocking_pids(l.pid)::int4[] AS blockers
FROM pg_catalog.pg_locks AS l
WHERE NOT l.granted AND (l.locktype = 'advisory' OR NOT @advisory::pg_catalog.bool);

-- The registered names of keys, of which none is there twice, and those of the semaphores that are in the second list by the part
-- of their keys that pglock.semaphore_of returns: for each name the key (8 bytes) and the name, with a zero byte between
-- them and the next. A key that has several names is a collision, and several limits of a semaphore are several names, of which the
-- oldest count, so that later ones cannot crowd them out. The table is named in a string: a statement that names it would be an
-- error where it does not exist, and would wait for a session that alters it while it is parsed, which no limit bounds. XML has
-- no bytes, so they are in base64. It comes behind the check of package trust in the same transaction.
-- name: RegisteredNames :one
SELECT pg_catalog.decode(pg_catalog.split_part(pg_catalog.split_part(x.found, '<names>', 2), '<', 1), 'base64')::bytea AS names
FROM (SELECT pg_catalog.query_to_xml(pg_catalog.format(
          'SELECT pg_catalog.encode(pg_catalog.string_agg(pg_catalog.int8send(a.key) '
          '|| pg_catalog.textsend(a.name), pg_catalog.decode(''00'', ''hex'')), ''base64'') AS names '
          'FROM (SELECT n.key, n.name FROM pg_catalog.unnest(%1$L::int8[]) AS k (key) JOIN ONLY pglock.names AS n ON n.key = k.key '
          'UNION SELECT t.key, t.name FROM pg_catalog.unnest(%2$L::int8[]) AS s (id), '
          'LATERAL (SELECT n.key, n.name FROM ONLY pglock.names AS n '
          'WHERE pg_catalog.starts_with(n.name, ''pglock:semaphore:'') AND pglock.semaphore_of(n.name) = s.id '
          'ORDER BY n.first_seen LIMIT 16) AS t) AS a',
          @numbers::pg_catalog.int8[], @semaphores::pg_catalog.int8[]), false, false, '')::text AS found OFFSET 0) AS x;

-- The waits for locks in rows, with those that they wait for and what these processes say of their locks (lockkeys.Mark), or the
-- holders, as a list in JSON: at most so many, before all others those of one process, if one is named; total counts all. Each
-- process, and each role, has a share, so that the rows of one hide no others: first come those of processes that have at most
-- 100, and of a role at most 250 in all, and then those that have waited, or held, for longest. The waits are a statement of
-- their own, since a role can hold so many locks that it takes too long to choose among these. What a process says of itself
-- is cut. Times are microseconds since 1970, since a lease can end in a year that no other form has. The view is named in a
-- string for the same reasons as above.
-- name: RowLocks :one
SELECT pg_catalog.decode(pg_catalog.split_part(pg_catalog.split_part(x.found, '<locks>', 2), '<', 1), 'base64')::bytea AS locks,
       pg_catalog.split_part(pg_catalog.split_part(x.found, '<total>', 2), '<', 1)::int8 AS total
FROM (SELECT pg_catalog.query_to_xml(pg_catalog.format(
          'WITH weight AS MATERIALIZED ('
          'SELECT r.role, r.process_since, count(*) AS n, sum(count(*)) OVER (PARTITION BY r.role ORDER BY count(*), r.process_since) AS before '
          'FROM pglock.row_locks AS r WHERE r.granted = %1$L GROUP BY 1, 2'
          '), seen AS MATERIALIZED ('
          'SELECT %4$s FROM pglock.row_locks AS r WHERE r.granted = %1$L ORDER BY %3$L <> '''' AND r.holder = %3$L DESC, '
          '(r.role, r.process_since) IN (SELECT w.role, w.process_since FROM weight AS w WHERE w.n <= 100 AND w.before <= 250) DESC NULLS LAST, '
          'r.since LIMIT %2$s'
          '), chosen AS ('
          'SELECT * FROM seen UNION ALL SELECT h.* FROM (SELECT DISTINCT s.space, s.number FROM seen AS s WHERE NOT s.granted) AS k '
          'CROSS JOIN LATERAL (SELECT %4$s FROM pglock.row_locks AS r '
          'WHERE r.granted AND r.space = k.space AND r.number = k.number LIMIT 100) AS h '
          'UNION ALL (SELECT %4$s FROM pglock.row_locks AS r WHERE r.granted AND NOT %1$L '
          'AND r.space = 2 AND r.number BETWEEN 8100849829732679680 AND 8103383104523075583 AND r.number >> 48 IN (28780, 28788) '
          'AND (r.role, r.process_since) IN (SELECT s.role, s.process_since FROM seen AS s) LIMIT %2$s)), '
          'locks AS ('
          'SELECT r.space, r.number, r.granted, r.mode, r.holder, r.role, r.pid, r.name, r.generation, '
          'pg_catalog.substring(r.application, 1, 64) AS application, pg_catalog.substring(r.host, 1, 255) AS host, '
          '(extract(epoch FROM r.since) * 1000000)::bigint AS since, '
          '(extract(epoch FROM r.process_since) * 1000000)::bigint AS process_since, '
          '(extract(epoch FROM least(r.expires, pg_catalog.now() + interval ''100 years'')) * 1000000)::bigint AS expires '
          'FROM chosen AS r) '
          'SELECT pg_catalog.encode(pg_catalog.textsend((SELECT pg_catalog.json_agg(l) FROM locks AS l)::text), ''base64'') AS locks, '
          'COALESCE(sum(w.n), 0) AS total FROM weight AS w',
          @granted::pg_catalog.bool, @most::pg_catalog.int8, @wanted::pg_catalog.text,
          'r.space, r.number, r.granted, r.since, r.generation, r.mode, r.holder, r.role, r.application, r.host, r.pid, '
          'r.process_since, r.expires, r.name'), false, false, '')::text AS found OFFSET 0) AS x;
