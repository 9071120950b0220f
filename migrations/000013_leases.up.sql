-- Locks that are rows, for clients that reach the server only through a pooler of transactions (package rowlock).
--
-- A process has one row in pglock.holders, which it renews. A lock is a row of pglock.leases that names its holder, and
-- ends with it. So a process renews all its locks with one row.
--
-- A holder is over when its row says ended, and only then. It is set by a process that wants a lock of a holder that has
-- expired, and never taken back: after that no late renewal, and no clock that jumps back, can revive the holder. A
-- holder without a row is not over. So its locks are set free before its row is deleted, in the same transaction.
--
-- The functions have the owner's rights, so that their callers need none on the tables. Who does not know the random id
-- of a holder can neither use nor end what it holds.

CREATE TABLE pglock.holders (
    id pg_catalog.uuid NOT NULL,
    expires timestamp with time zone NOT NULL,
    ended boolean NOT NULL DEFAULT false,
    floor bigint NOT NULL DEFAULT 0,
    role pg_catalog.text NOT NULL,
    application pg_catalog.text NOT NULL,
    host pg_catalog.text NOT NULL,
    pid integer NOT NULL,
    since timestamp with time zone NOT NULL DEFAULT pg_catalog.clock_timestamp(),
    CONSTRAINT holders_pkey PRIMARY KEY (id)
) WITH (fillfactor = 50);

REVOKE ALL ON TABLE pglock.holders FROM PUBLIC;

COMMENT ON TABLE pglock.holders IS 'The processes that hold locks in pglock.leases, or wait for them';
COMMENT ON COLUMN pglock.holders.id IS 'A random number that is never used again';
COMMENT ON COLUMN pglock.holders.expires IS 'Until when its locks are its own, unless it is renewed, by the clock of the server';
COMMENT ON COLUMN pglock.holders.ended IS 'Whether its locks are free. It never becomes false again';
COMMENT ON COLUMN pglock.holders.floor IS 'Calls up to this number are refused: their answers were lost';
COMMENT ON COLUMN pglock.holders.role IS 'The role of its sessions';
COMMENT ON COLUMN pglock.holders.application IS 'What the process calls itself';
COMMENT ON COLUMN pglock.holders.host IS 'The name of its machine, as the process says';
COMMENT ON COLUMN pglock.holders.pid IS 'Its process ID there';
COMMENT ON COLUMN pglock.holders.since IS 'When it began';
COMMENT ON CONSTRAINT holders_pkey ON pglock.holders IS 'Finds a holder';

CREATE TABLE pglock.leases (
    space smallint NOT NULL,
    number bigint NOT NULL,
    holder pg_catalog.uuid,
    generation bigint,
    attempt bigint,
    since timestamp with time zone NOT NULL DEFAULT pg_catalog.clock_timestamp(),
    CONSTRAINT leases_pkey PRIMARY KEY (space, number)
) WITH (fillfactor = 50);

REVOKE ALL ON TABLE pglock.leases FROM PUBLIC;

COMMENT ON TABLE pglock.leases IS 'The locks: a row for each key that is held, or was not long ago';
COMMENT ON COLUMN pglock.leases.space IS '1 for keys of one bigint, 2 for keys of two integers (objsubid in pg_locks)';
COMMENT ON COLUMN pglock.leases.number IS 'The bigint, or two integers packed as class << 32 | object';
COMMENT ON COLUMN pglock.leases.holder IS 'Who holds it exclusively. NULL if it is free, or held in pglock.lease_shares';
COMMENT ON COLUMN pglock.leases.generation IS 'The fencing token: larger than that of every earlier holder';
COMMENT ON COLUMN pglock.leases.attempt IS 'The number of the call of its holder that took it';
COMMENT ON COLUMN pglock.leases.since IS 'When it was taken, or became free';
COMMENT ON CONSTRAINT leases_pkey ON pglock.leases IS 'Finds the lock of a key';

CREATE TABLE pglock.lease_shares (
    space smallint NOT NULL,
    number bigint NOT NULL,
    generation bigint NOT NULL,
    holder pg_catalog.uuid NOT NULL,
    attempt bigint NOT NULL,
    since timestamp with time zone NOT NULL DEFAULT pg_catalog.clock_timestamp(),
    CONSTRAINT lease_shares_pkey PRIMARY KEY (space, number, generation)
);

REVOKE ALL ON TABLE pglock.lease_shares FROM PUBLIC;

COMMENT ON TABLE pglock.lease_shares IS 'The locks that are held shared';
COMMENT ON COLUMN pglock.lease_shares.space IS 'As in pglock.leases, like number, generation, holder and attempt';
COMMENT ON COLUMN pglock.lease_shares.number IS 'As in pglock.leases';
COMMENT ON COLUMN pglock.lease_shares.generation IS 'The fencing token. Among shared holders the order has no meaning';
COMMENT ON COLUMN pglock.lease_shares.holder IS 'Who holds it';
COMMENT ON COLUMN pglock.lease_shares.attempt IS 'The number of the call of its holder that took it';
COMMENT ON COLUMN pglock.lease_shares.since IS 'When it was taken';
COMMENT ON CONSTRAINT lease_shares_pkey ON pglock.lease_shares IS 'Finds who shares the lock of a key';

CREATE TABLE pglock.lease_waiters (
    space smallint NOT NULL,
    number bigint NOT NULL,
    arrival bigint NOT NULL,
    holder pg_catalog.uuid NOT NULL,
    attempt bigint NOT NULL,
    shared boolean NOT NULL,
    since timestamp with time zone NOT NULL DEFAULT pg_catalog.clock_timestamp(),
    CONSTRAINT lease_waiters_pkey PRIMARY KEY (space, number, arrival)
);

REVOKE ALL ON TABLE pglock.lease_waiters FROM PUBLIC;

COMMENT ON TABLE pglock.lease_waiters IS 'Who waits for locks: a row for each key and waiting call';
COMMENT ON COLUMN pglock.lease_waiters.space IS 'As in pglock.leases, like number';
COMMENT ON COLUMN pglock.lease_waiters.number IS 'As in pglock.leases';
COMMENT ON COLUMN pglock.lease_waiters.arrival IS 'The order of arrival, a number of the sequence pglock.fence';
COMMENT ON COLUMN pglock.lease_waiters.holder IS 'The process that waits, which counts while its row in pglock.holders lives';
COMMENT ON COLUMN pglock.lease_waiters.attempt IS 'The number of the call that began to wait';
COMMENT ON COLUMN pglock.lease_waiters.shared IS 'Whether it waits for a shared lock';
COMMENT ON COLUMN pglock.lease_waiters.since IS 'When the wait began';
COMMENT ON CONSTRAINT lease_waiters_pkey ON pglock.lease_waiters IS 'Finds who waits for the lock of a key, in order';

-- Adds a holder. Whether a commit waits is decided at its end, so the setting is for the rest of the transaction: a
-- holder, a renewal or a lock that a failover forgets is as bad as one that was never written. Of texts that are too long
-- the beginning is kept, so that what people and the monitor read stays short. A lease is bounded, so that the locks of a
-- process that ended do not stay for ever.

CREATE FUNCTION pglock.lease_open(
    holder pg_catalog.uuid, lease_ms bigint, application pg_catalog.text, host pg_catalog.text, pid integer
) RETURNS void
LANGUAGE plpgsql VOLATILE STRICT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM pglock.lease_durable();
    INSERT INTO pglock.holders (id, expires, role, application, host, pid)
    VALUES (lease_open.holder, pglock.lease_until(lease_open.lease_ms), session_user,
            left(lease_open.application, 63), left(lease_open.host, 255), lease_open.pid);
END
$$;

REVOKE ALL ON FUNCTION pglock.lease_open(pg_catalog.uuid, bigint, pg_catalog.text, pg_catalog.text, integer) FROM PUBLIC;

COMMENT ON FUNCTION pglock.lease_open(pg_catalog.uuid, bigint, pg_catalog.text, pg_catalog.text, integer) IS
    'Adds a holder, which lives for so many milliseconds unless it is renewed';

CREATE FUNCTION pglock.lease_durable() RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE feature_not_supported USING MESSAGE = 'leases are taken and renewed in READ COMMITTED transactions only';
    END IF;
    IF current_setting('synchronous_commit') NOT IN ('on', 'remote_apply') THEN
        PERFORM set_config('synchronous_commit', 'on', true);
    END IF;
END
$$;

REVOKE ALL ON FUNCTION pglock.lease_durable() FROM PUBLIC;

COMMENT ON FUNCTION pglock.lease_durable() IS
    'Makes the commit of this transaction wait until it is durable, as the other functions need it';

CREATE FUNCTION pglock.lease_until(lease_ms bigint) RETURNS timestamp with time zone
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF lease_until.lease_ms NOT BETWEEN 1 AND 86400000 THEN
        RAISE invalid_parameter_value USING MESSAGE = 'a lease is between a millisecond and a day long';
    END IF;
    RETURN clock_timestamp() + lease_until.lease_ms * interval '1 ms';
END
$$;

REVOKE ALL ON FUNCTION pglock.lease_until(bigint) FROM PUBLIC;

COMMENT ON FUNCTION pglock.lease_until(bigint) IS 'When a lease that begins now is over';

-- Renews a holder. It was one that is over if it returns false: so are all its locks.
--
-- The race with a take that finds the holder expired: both write the row. If the take is first, the renewal waits for
-- it, sees ended, and changes nothing. If the renewal is first, the take skips the row, or sees the new time.

CREATE FUNCTION pglock.lease_renew(holder pg_catalog.uuid, lease_ms bigint) RETURNS boolean
LANGUAGE plpgsql VOLATILE STRICT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM pglock.lease_durable();
    UPDATE pglock.holders AS h SET expires = pglock.lease_until(lease_renew.lease_ms)
    WHERE h.id = lease_renew.holder AND NOT h.ended AND h.expires > clock_timestamp();
    RETURN FOUND;
END
$$;

REVOKE ALL ON FUNCTION pglock.lease_renew(pg_catalog.uuid, bigint) FROM PUBLIC;

COMMENT ON FUNCTION pglock.lease_renew(pg_catalog.uuid, bigint) IS
    'Renews a holder and so all its locks. False says that it is over, and all its locks are lost';

CREATE FUNCTION pglock.lease_end(holder pg_catalog.uuid) RETURNS void
LANGUAGE sql VOLATILE STRICT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    UPDATE pglock.holders AS h SET ended = true WHERE h.id = lease_end.holder AND NOT h.ended
$$;

REVOKE ALL ON FUNCTION pglock.lease_end(pg_catalog.uuid) FROM PUBLIC;

COMMENT ON FUNCTION pglock.lease_end(pg_catalog.uuid) IS 'Ends a holder, and so sets all its locks free';

-- Drops and takes locks of one holder, for many calls of its process at once. A drop is a lock (x), a share (s) or a wait
-- (w), with its generation or arrival. A want is a key of a ticket, and a ticket (1, 2, ...) gets all its keys or none. The
-- first wants are plain: exclusive, not in the queue, and want and ticket have the same number. A key of an exclusive ticket
-- is in no other.
--
-- The outcome is done, over (the holder is, and nothing was done) or settled (lease_settle was first). There is a letter
-- for each drop, and one for each ticket:
--
--   dropped: d (it is), g (it was not held any more), b (busy: another transaction has the row locked, nothing was done)
--   taken: g (granted, and the result is the generation), h (held by others) or b, where the result for what waits is the arrival
--
-- Lock first, look later: each statement here has a snapshot of its own, and what decides is read after the rows are
-- locked. In a single statement the look is as old as its beginning: it steals a lock whose holder was renewed meanwhile,
-- or whose holder is newer than the snapshot. Only a row that is locked is read as it is then, by the statement that
-- locks it. Locked rows are passed over, so that no transaction that has a row locked
-- stalls the others, and no two calls wait for each other. Only two things wait: the insertion of new keys, in the order
-- of the keys, for others that insert the same one, and the lock on the own holder, for pglock.lease_settle. That comes
-- first, so that lease_settle finds all of a call done or nothing, and while it waits no row is locked.
--
-- A row that is locked keeps its place (ctid) until the transaction ends, so it is found again without the index.
--
-- A key of a guarded transaction (pglock.lease_guard) is locked by it, and so passed over until that has ended.

CREATE FUNCTION pglock.lease_call(
    holder pg_catalog.uuid, attempt bigint,
    drop_kinds pg_catalog.text[], drop_spaces smallint[], drop_numbers bigint[], drop_values bigint[], plain integer,
    tickets integer[], spaces smallint[], numbers bigint[], shared boolean[], waits boolean[], arrivals bigint[],
    OUT outcome pg_catalog.text, OUT dropped pg_catalog.text, OUT taken pg_catalog.text, OUT results bigint[]
)
LANGUAGE plpgsql VOLATILE STRICT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
#variable_conflict use_column
DECLARE
    me uuid := holder;
    live boolean;
    lowest bigint;
    free bigint[];       -- wants whose rows are locked, and have no holder
    places tid[];        -- where these are
    granted bigint[];    -- those of them that are granted
    generations bigint[];
    letters text[];      -- of each ticket
    rest integer[];      -- tickets that are left, which lease_take numbers from 1 on
    one record;
    n bigint;
BEGIN
    PERFORM pglock.lease_durable();
    SELECT NOT h.ended AND h.expires > clock_timestamp(), h.floor INTO live, lowest
    FROM pglock.holders AS h WHERE h.id = me FOR KEY SHARE;
    IF live IS NOT TRUE THEN
        lease_call.outcome := 'over';
        RETURN;
    ELSIF lease_call.attempt <= lowest THEN
        lease_call.outcome := 'settled';
        RETURN;
    END IF;
    lease_call.outcome := 'done';
    lease_call.dropped := pglock.lease_drop(me, drop_kinds, drop_spaces, drop_numbers, drop_values);
    IF cardinality(tickets) = 0 THEN
        RETURN;
    END IF;

    INSERT INTO pglock.leases AS l (space, number)
    SELECT DISTINCT w.space, w.number FROM unnest(spaces, numbers) AS w (space, number)
    WHERE NOT EXISTS (SELECT FROM pglock.leases AS l WHERE l.space = w.space AND l.number = w.number)
    ORDER BY 1, 2
    ON CONFLICT ON CONSTRAINT leases_pkey DO NOTHING;

    -- The plain wants whose keys are free. Where nothing at all is shared or waited for, it is not looked for key by key.
    SELECT array_agg(x.i), array_agg(x.ctid) INTO free, places FROM (
        SELECT w.i, l.ctid
        FROM unnest(spaces[:plain], numbers[:plain]) WITH ORDINALITY AS w (space, number, i)
        JOIN pglock.leases AS l ON l.space = w.space AND l.number = w.number
        WHERE l.holder IS NULL
        FOR NO KEY UPDATE OF l SKIP LOCKED) AS x;
    IF free IS NOT NULL THEN
        WITH take AS (
            UPDATE pglock.leases AS l
            SET holder = me, generation = nextval('pglock.fence'), attempt = lease_call.attempt, since = clock_timestamp()
            FROM unnest(free, places) AS w (i, ctid)
            WHERE l.ctid = w.ctid
              AND (NOT EXISTS (SELECT FROM pglock.lease_shares) OR NOT EXISTS (
                  SELECT FROM pglock.lease_shares AS s WHERE s.space = l.space AND s.number = l.number))
              AND (NOT EXISTS (SELECT FROM pglock.lease_waiters) OR NOT EXISTS (
                  SELECT FROM pglock.lease_waiters AS q WHERE q.space = l.space AND q.number = l.number))
            RETURNING w.i, l.generation
        )
        SELECT array_agg(t.i ORDER BY t.i), array_agg(t.generation ORDER BY t.i) INTO granted, generations FROM take AS t;
    END IF;
    n := coalesce(cardinality(granted), 0);
    IF n = cardinality(tickets) THEN
        lease_call.taken := repeat('g', n::integer);
        lease_call.results := coalesce(generations, '{}');
        RETURN;
    END IF;

    -- All others.
    letters := array_fill(NULL::text, ARRAY[(SELECT max(t.ticket) FROM unnest(tickets) AS t (ticket))]);
    lease_call.results := array_fill(0::bigint, ARRAY[cardinality(letters)]);
    FOR one IN SELECT g.i, g.generation FROM unnest(granted, generations) AS g (i, generation) LOOP
        letters[one.i] := 'g';
        lease_call.results[one.i] := one.generation;
    END LOOP;
    SELECT array_agg(DISTINCT t.ticket ORDER BY t.ticket) INTO rest
    FROM unnest(tickets) AS t (ticket) WHERE letters[t.ticket] IS NULL;
    FOR one IN
        SELECT rest[t.ticket] AS ticket, t.letter, t.value FROM (
            SELECT array_agg(w.number_here) AS tickets, array_agg(w.space) AS spaces, array_agg(w.number) AS numbers,
                   array_agg(w.shared) AS shared, array_agg(w.waits) AS waits, array_agg(w.arrival) AS arrivals
            FROM (SELECT a.*, dense_rank() OVER (ORDER BY a.ticket)::integer AS number_here
                  FROM unnest(tickets, spaces, numbers, shared, waits, arrivals)
                      AS a (ticket, space, number, shared, waits, arrival)
                  WHERE letters[a.ticket] IS NULL) AS w
        ) AS w
        CROSS JOIN LATERAL pglock.lease_take(me, attempt, w.tickets, w.spaces, w.numbers, w.shared, w.waits, w.arrivals)
            AS t (ticket, letter, value)
    LOOP
        letters[one.ticket] := one.letter;
        lease_call.results[one.ticket] := one.value;
    END LOOP;
    lease_call.taken := array_to_string(letters, '');
END
$$;

REVOKE ALL ON FUNCTION pglock.lease_call(pg_catalog.uuid, bigint, pg_catalog.text[], smallint[], bigint[], bigint[],
    integer, integer[], smallint[], bigint[], boolean[], boolean[], bigint[]) FROM PUBLIC;

COMMENT ON FUNCTION pglock.lease_call(pg_catalog.uuid, bigint, pg_catalog.text[], smallint[], bigint[], bigint[],
    integer, integer[], smallint[], bigint[], boolean[], boolean[], bigint[]) IS
    'Drops and takes locks of a holder, each ticket all or nothing. In a transaction of its own';

-- Drops locks, shares and waits, see lease_call.

CREATE FUNCTION pglock.lease_drop(
    me pg_catalog.uuid, kinds pg_catalog.text[], spaces smallint[], numbers bigint[], drop_values bigint[]
) RETURNS pg_catalog.text
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    dropped bigint[];
    others bigint[];
    done boolean[];
    place bigint;
BEGIN
    IF cardinality(kinds) = 0 THEN
        RETURN '';
    END IF;
    WITH own AS MATERIALIZED (
        SELECT d.i, l.ctid
        FROM unnest(kinds, spaces, numbers, drop_values) WITH ORDINALITY AS d (kind, space, number, value, i)
        JOIN pglock.leases AS l ON l.space = d.space AND l.number = d.number
        WHERE d.kind = 'x' AND l.holder = me AND l.generation = d.value
        FOR NO KEY UPDATE OF l SKIP LOCKED
    ), freed AS (
        UPDATE pglock.leases AS l SET holder = NULL, attempt = NULL, since = clock_timestamp()
        FROM own WHERE l.ctid = own.ctid AND l.holder = me
        RETURNING own.i
    )
    SELECT array_agg(f.i) INTO dropped FROM freed AS f;
    IF cardinality(dropped) = cardinality(kinds) THEN
        RETURN repeat('d', cardinality(kinds));
    END IF;

    IF 's' = ANY (kinds) THEN
        WITH own AS MATERIALIZED (
            SELECT d.i, s.space, s.number, s.generation
            FROM unnest(kinds, spaces, numbers, drop_values) WITH ORDINALITY AS d (kind, space, number, value, i)
            JOIN pglock.lease_shares AS s ON s.space = d.space AND s.number = d.number AND s.generation = d.value
            WHERE d.kind = 's' AND s.holder = me
            FOR UPDATE OF s SKIP LOCKED
        ), freed AS (
            DELETE FROM pglock.lease_shares AS s USING own
            WHERE s.space = own.space AND s.number = own.number AND s.generation = own.generation
            RETURNING own.i
        )
        SELECT array_agg(f.i) INTO others FROM freed AS f;
    END IF;
    IF 'w' = ANY (kinds) THEN
        DELETE FROM pglock.lease_waiters AS w
        USING unnest(kinds, spaces, numbers, drop_values) AS d (kind, space, number, value)
        WHERE d.kind = 'w' AND w.space = d.space AND w.number = d.number AND w.arrival = d.value AND w.holder = me;
    END IF;
    done := array_fill(false, ARRAY[cardinality(kinds)]); -- a search for each drop would take the square of their number
    FOREACH place IN ARRAY coalesce(dropped || others, others, '{}') LOOP
        done[place] := true;
    END LOOP;
    RETURN (
        SELECT string_agg(CASE
                WHEN d.kind = 'w' OR done[d.i] THEN 'd'
                WHEN EXISTS (SELECT FROM pglock.leases AS l WHERE d.kind = 'x' AND l.space = d.space
                        AND l.number = d.number AND l.holder = me AND l.generation = d.value)
                    OR EXISTS (SELECT FROM pglock.lease_shares AS s WHERE d.kind = 's' AND s.space = d.space
                        AND s.number = d.number AND s.holder = me AND s.generation = d.value) THEN 'b'
                ELSE 'g'
            END, '' ORDER BY d.i)
        FROM unnest(kinds, spaces, numbers, drop_values) WITH ORDINALITY AS d (kind, space, number, value, i));
END
$$;

REVOKE ALL ON FUNCTION pglock.lease_drop(pg_catalog.uuid, pg_catalog.text[], smallint[], bigint[], bigint[]) FROM PUBLIC;

COMMENT ON FUNCTION pglock.lease_drop(pg_catalog.uuid, pg_catalog.text[], smallint[], bigint[], bigint[]) IS
    'A part of pglock.lease_call';

-- Takes tickets of any kind, whose keys have rows: shared ones, those of several keys, and those that have to wait, or
-- whose keys may be those of a holder that is over. See lease_call.

CREATE FUNCTION pglock.lease_take(
    me pg_catalog.uuid, attempt bigint, tickets integer[], spaces smallint[], numbers bigint[], shared boolean[],
    waits boolean[], arrivals bigint[]
) RETURNS TABLE (ticket integer, letter pg_catalog.text, value bigint)
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    -- Arrays with an element for each want or ticket, in their order, are read by subscripts: a search in them for each
    -- element would take the square of their length.
    locked bigint[];      -- wants whose rows this transaction has locked
    place bigint;
    mine boolean[];       -- the same, for each want
    suspects uuid[];
    generations bigint[]; -- of each ticket, NULL if it is not granted
    places bigint[];      -- of each ticket in the queue
BEGIN
    SELECT array_agg(x.i) INTO locked FROM (
        SELECT w.i FROM unnest(spaces, numbers) WITH ORDINALITY AS w (space, number, i)
        JOIN pglock.leases AS l ON l.space = w.space AND l.number = w.number
        FOR NO KEY UPDATE OF l SKIP LOCKED) AS x;
    mine := array_fill(false, ARRAY[cardinality(tickets)]);
    FOREACH place IN ARRAY coalesce(locked, '{}') LOOP
        mine[place] := true;
    END LOOP;

    -- The holders that have expired are over from here on.
    SELECT array_agg(DISTINCT h.id) INTO suspects
    FROM unnest(spaces, numbers) WITH ORDINALITY AS w (space, number, i)
    CROSS JOIN LATERAL (
        SELECT l.holder FROM pglock.leases AS l WHERE l.space = w.space AND l.number = w.number AND l.holder IS NOT NULL
        UNION ALL
        SELECT s.holder FROM pglock.lease_shares AS s WHERE s.space = w.space AND s.number = w.number
    ) AS held
    JOIN pglock.holders AS h ON h.id = held.holder
    WHERE mine[w.i] AND NOT h.ended AND h.expires <= clock_timestamp() AND h.id <> me;
    IF suspects IS NOT NULL THEN
        SELECT array_agg(x.id) INTO suspects FROM (
            SELECT h.id FROM pglock.holders AS h
            WHERE h.id = ANY (suspects) AND NOT h.ended AND h.expires <= clock_timestamp()
            ORDER BY h.id FOR NO KEY UPDATE SKIP LOCKED) AS x;
        UPDATE pglock.holders AS h SET ended = true
        WHERE h.id = ANY (suspects) AND NOT h.ended AND h.expires <= clock_timestamp();
    END IF;

    -- Shares of holders that are over are in the way of exclusive locks only. A share that a guarded transaction has locked
    -- stays.
    IF false = ANY (shared) AND EXISTS (
        SELECT FROM unnest(spaces, numbers) AS w (space, number)
        JOIN pglock.lease_shares AS s ON s.space = w.space AND s.number = w.number
    ) THEN
        WITH freed AS MATERIALIZED (
            SELECT s.space, s.number, s.generation
            FROM unnest(spaces, numbers, shared) WITH ORDINALITY AS w (space, number, shared, i)
            JOIN pglock.lease_shares AS s ON s.space = w.space AND s.number = w.number
            JOIN pglock.holders AS h ON h.id = s.holder AND h.ended
            WHERE mine[w.i] AND NOT w.shared
            FOR UPDATE OF s SKIP LOCKED
        )
        DELETE FROM pglock.lease_shares AS s USING freed
        WHERE s.space = freed.space AND s.number = freed.number AND s.generation = freed.generation;
    END IF;

    -- A ticket is granted if all its keys are free, and no live waiter for any of them arrived earlier, except readers
    -- before a reader. Only waiters have an arrival; all others come after them.
    SELECT array_agg(CASE WHEN x.free THEN nextval('pglock.fence') END ORDER BY x.ticket) INTO generations
    FROM (
        SELECT w.ticket, bool_and(mine[w.i]
            AND EXISTS (
                SELECT FROM pglock.leases AS l
                WHERE l.space = w.space AND l.number = w.number AND (l.holder IS NULL OR EXISTS (
                    SELECT FROM pglock.holders AS h WHERE h.id = l.holder AND h.ended)))
            AND (w.shared OR NOT EXISTS (
                SELECT FROM pglock.lease_shares AS s WHERE s.space = w.space AND s.number = w.number))
            AND NOT EXISTS (
                SELECT FROM pglock.lease_waiters AS q
                WHERE q.space = w.space AND q.number = w.number AND (w.arrival = 0 OR q.arrival < w.arrival)
                  AND NOT (q.shared AND w.shared)
                  AND EXISTS (SELECT FROM pglock.holders AS h
                              WHERE h.id = q.holder AND NOT h.ended AND h.expires > clock_timestamp()))) AS free
        FROM unnest(tickets, spaces, numbers, shared, arrivals) WITH ORDINALITY AS w (ticket, space, number, shared, arrival, i)
        GROUP BY w.ticket
    ) AS x;
    IF EXISTS (SELECT FROM unnest(generations) AS g (generation) WHERE g.generation IS NOT NULL) THEN
        UPDATE pglock.leases AS l
        SET holder = me, generation = generations[w.ticket], attempt = lease_take.attempt, since = clock_timestamp()
        FROM unnest(tickets, spaces, numbers, shared) AS w (ticket, space, number, shared)
        WHERE l.space = w.space AND l.number = w.number AND NOT w.shared AND generations[w.ticket] IS NOT NULL;
        IF true = ANY (shared) THEN
            INSERT INTO pglock.lease_shares AS s (space, number, generation, holder, attempt)
            SELECT w.space, w.number, generations[w.ticket], me, lease_take.attempt
            FROM unnest(tickets, spaces, numbers, shared) AS w (ticket, space, number, shared)
            WHERE w.shared AND generations[w.ticket] IS NOT NULL;
        END IF;
        IF true = ANY (waits) THEN
            DELETE FROM pglock.lease_waiters AS q
            USING unnest(tickets, spaces, numbers, arrivals) AS w (ticket, space, number, arrival)
            WHERE generations[w.ticket] IS NOT NULL AND w.arrival <> 0
              AND q.space = w.space AND q.number = w.number AND q.arrival = w.arrival AND q.holder = me;
        END IF;
    END IF;

    -- Who waits from now on.
    IF true = ANY (waits) THEN
        SELECT array_agg(CASE
                WHEN x.waits AND x.arrival = 0 AND generations[x.ticket] IS NULL THEN nextval('pglock.fence')
                ELSE x.arrival
            END ORDER BY x.ticket) INTO places
        FROM (SELECT w.ticket, bool_or(w.waits) AS waits, max(w.arrival) AS arrival
              FROM unnest(tickets, waits, arrivals) AS w (ticket, waits, arrival) GROUP BY w.ticket) AS x;
        INSERT INTO pglock.lease_waiters AS q (space, number, arrival, holder, attempt, shared)
        SELECT w.space, w.number, places[w.ticket], me, lease_take.attempt, w.shared
        FROM unnest(tickets, spaces, numbers, shared, waits, arrivals) AS w (ticket, space, number, shared, waits, arrival)
        WHERE w.waits AND w.arrival = 0 AND generations[w.ticket] IS NULL;
    END IF;
    RETURN QUERY
        SELECT w.ticket,
            CASE WHEN generations[w.ticket] IS NOT NULL THEN 'g' WHEN bool_and(mine[w.i]) THEN 'h' ELSE 'b' END,
            coalesce(generations[w.ticket], places[w.ticket], 0)
        FROM unnest(tickets) WITH ORDINALITY AS w (ticket, i)
        GROUP BY w.ticket;
END
$$;

REVOKE ALL ON FUNCTION
    pglock.lease_take(pg_catalog.uuid, bigint, integer[], smallint[], bigint[], boolean[], boolean[], bigint[]) FROM PUBLIC;

COMMENT ON FUNCTION
    pglock.lease_take(pg_catalog.uuid, bigint, integer[], smallint[], bigint[], boolean[], boolean[], bigint[]) IS 'A part of pglock.lease_call';

-- Makes sure that a call whose answer was lost has left nothing: what it took is free again, and if it arrives later it is
-- refused. A call locks its holder's row first and until its end, so this waits for one that is running.

CREATE FUNCTION pglock.lease_settle(holder pg_catalog.uuid, attempt bigint, spaces smallint[], numbers bigint[])
RETURNS void
LANGUAGE plpgsql VOLATILE STRICT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
BEGIN
    PERFORM pglock.lease_durable();
    PERFORM FROM pglock.holders AS h WHERE h.id = lease_settle.holder FOR UPDATE;
    UPDATE pglock.holders AS h SET floor = lease_settle.attempt
    WHERE h.id = lease_settle.holder AND h.floor < lease_settle.attempt;
    UPDATE pglock.leases AS l SET holder = NULL, attempt = NULL, since = clock_timestamp()
    FROM unnest(spaces, numbers) AS w (space, number)
    WHERE l.space = w.space AND l.number = w.number
      AND l.holder = lease_settle.holder AND l.attempt = lease_settle.attempt;
    DELETE FROM pglock.lease_shares AS s USING unnest(spaces, numbers) AS w (space, number)
    WHERE s.space = w.space AND s.number = w.number
      AND s.holder = lease_settle.holder AND s.attempt = lease_settle.attempt;
    DELETE FROM pglock.lease_waiters AS q USING unnest(spaces, numbers) AS w (space, number)
    WHERE q.space = w.space AND q.number = w.number
      AND q.holder = lease_settle.holder AND q.attempt = lease_settle.attempt;
END
$$;

REVOKE ALL ON FUNCTION pglock.lease_settle(pg_catalog.uuid, bigint, smallint[], bigint[]) FROM PUBLIC;

COMMENT ON FUNCTION pglock.lease_settle(pg_catalog.uuid, bigint, smallint[], bigint[]) IS
    'Undoes a call whose answer was lost, and has it refused if it arrives later';

-- Says which of a process's waiting tickets may be granted now, so that it asks for them. It only reads.

CREATE FUNCTION pglock.lease_poll(
    holder pg_catalog.uuid, tickets integer[], spaces smallint[], numbers bigint[], shared boolean[], arrivals bigint[]
) RETURNS TABLE (ticket integer, ready boolean, queued boolean, ahead bigint, latest bigint)
LANGUAGE sql STABLE STRICT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
    SELECT w.ticket,
        bool_and(w.ahead = 0 AND NOT EXISTS (
            SELECT FROM pglock.leases AS l
            WHERE l.space = w.space AND l.number = w.number AND l.holder IS NOT NULL
              AND NOT EXISTS (SELECT FROM pglock.holders AS h
                              WHERE h.id = l.holder AND (h.ended OR h.expires <= clock_timestamp()))
        ) AND (w.shared OR NOT EXISTS (
            SELECT FROM pglock.lease_shares AS s
            WHERE s.space = w.space AND s.number = w.number
              AND NOT EXISTS (SELECT FROM pglock.holders AS h
                              WHERE h.id = s.holder AND (h.ended OR h.expires <= clock_timestamp()))))),
        bool_and(EXISTS (
            SELECT FROM pglock.lease_waiters AS q
            WHERE q.space = w.space AND q.number = w.number AND q.arrival = w.arrival AND q.holder = lease_poll.holder)),
        max(w.ahead),
        max((SELECT coalesce(max(l.generation), 0) FROM pglock.leases AS l WHERE l.space = w.space AND l.number = w.number))
    FROM (
        SELECT w.*, (
            SELECT count(*) FROM pglock.lease_waiters AS q
            WHERE q.space = w.space AND q.number = w.number AND q.arrival < w.arrival AND NOT (q.shared AND w.shared)
              AND EXISTS (SELECT FROM pglock.holders AS h
                          WHERE h.id = q.holder AND NOT h.ended AND h.expires > clock_timestamp())) AS ahead
        FROM unnest(tickets, spaces, numbers, shared, arrivals) AS w (ticket, space, number, shared, arrival)
    ) AS w
    GROUP BY w.ticket
$$;

REVOKE ALL ON FUNCTION
    pglock.lease_poll(pg_catalog.uuid, integer[], smallint[], bigint[], boolean[], bigint[]) FROM PUBLIC;

COMMENT ON FUNCTION pglock.lease_poll(pg_catalog.uuid, integer[], smallint[], bigint[], boolean[], bigint[]) IS
    'Which waiting tickets may be granted now, whether they are in the queue, and how many are ahead. It only reads';

-- Whether a holder holds keys, all with one generation. It only reads.

CREATE FUNCTION pglock.lease_holds(
    holder pg_catalog.uuid, generation bigint, shared boolean, spaces smallint[], numbers bigint[]
) RETURNS boolean
LANGUAGE sql STABLE STRICT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT EXISTS (
        SELECT FROM pglock.holders AS h
        WHERE h.id = lease_holds.holder AND NOT h.ended AND h.expires > clock_timestamp()
    ) AND NOT EXISTS (
        SELECT FROM unnest(spaces, numbers) AS w (space, number)
        WHERE NOT EXISTS (
            SELECT FROM pglock.leases AS l
            WHERE NOT lease_holds.shared AND l.space = w.space AND l.number = w.number
              AND l.holder = lease_holds.holder AND l.generation = lease_holds.generation
        ) AND NOT EXISTS (
            SELECT FROM pglock.lease_shares AS s
            WHERE lease_holds.shared AND s.space = w.space AND s.number = w.number
              AND s.holder = lease_holds.holder AND s.generation = lease_holds.generation))
$$;

REVOKE ALL ON FUNCTION pglock.lease_holds(pg_catalog.uuid, bigint, boolean, smallint[], bigint[]) FROM PUBLIC;

COMMENT ON FUNCTION pglock.lease_holds(pg_catalog.uuid, bigint, boolean, smallint[], bigint[]) IS
    'Whether a holder holds keys, all with one generation';

-- Draws one more fencing token for a lock. The holder's row stays locked until the commit, so that it cannot be found to
-- have expired before: the next holder draws a larger number. The lock on the row makes the commit write
-- to the log, and wait (see migration 11).

CREATE FUNCTION pglock.lease_fence(
    holder pg_catalog.uuid, generation bigint, shared boolean, spaces smallint[], numbers bigint[]
) RETURNS bigint
LANGUAGE plpgsql VOLATILE STRICT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM pglock.lease_durable();
    PERFORM FROM pglock.holders AS h WHERE h.id = lease_fence.holder FOR SHARE;
    IF NOT pglock.lease_holds(holder, generation, shared, spaces, numbers) THEN
        RETURN 0;
    END IF;
    RETURN nextval('pglock.fence');
END
$$;

REVOKE ALL ON FUNCTION pglock.lease_fence(pg_catalog.uuid, bigint, boolean, smallint[], bigint[]) FROM PUBLIC;

COMMENT ON FUNCTION pglock.lease_fence(pg_catalog.uuid, bigint, boolean, smallint[], bigint[]) IS
    'Draws one more fencing token for a lock that is held. 0 says that it is not';

-- Ties the caller's transaction to a lock: its row stays locked until the transaction ends, and a row that is locked is not
-- taken by any other holder. If there is no row of the holder and generation, a READ COMMITTED transaction fails. A
-- transaction with an older snapshot is told so, since the row may be newer than that.

CREATE FUNCTION pglock.lease_guard(
    holder pg_catalog.uuid, generation bigint, shared boolean, spaces smallint[], numbers bigint[]
) RETURNS pg_catalog.text
LANGUAGE plpgsql VOLATILE STRICT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
DECLARE
    locked bigint;
BEGIN
    IF current_setting('transaction_read_only')::boolean THEN
        RETURN 'read only';
    END IF;
    IF lease_guard.shared THEN
        SELECT count(*) INTO locked FROM (
            SELECT FROM unnest(spaces, numbers) AS w (space, number)
            JOIN pglock.lease_shares AS s ON s.space = w.space AND s.number = w.number
            WHERE s.holder = lease_guard.holder AND s.generation = lease_guard.generation
            ORDER BY s.space, s.number FOR SHARE OF s) AS x;
    ELSE
        SELECT count(*) INTO locked FROM (
            SELECT FROM unnest(spaces, numbers) AS w (space, number)
            JOIN pglock.leases AS l ON l.space = w.space AND l.number = w.number
            WHERE l.holder = lease_guard.holder AND l.generation = lease_guard.generation
            ORDER BY l.space, l.number FOR SHARE OF l) AS x;
    END IF;
    IF locked = cardinality(spaces) AND NOT EXISTS (
        SELECT FROM pglock.holders AS h WHERE h.id = lease_guard.holder AND h.ended
    ) THEN
        RETURN 'guarded';
    ELSIF current_setting('transaction_isolation') IN ('read committed', 'read uncommitted') THEN
        RAISE object_not_in_prerequisite_state USING MESSAGE = 'pglock_lost: the lock is not held by this holder any more';
    END IF;
    RETURN 'stale';
END
$$;

REVOKE ALL ON FUNCTION pglock.lease_guard(pg_catalog.uuid, bigint, boolean, smallint[], bigint[]) FROM PUBLIC;

COMMENT ON FUNCTION pglock.lease_guard(pg_catalog.uuid, bigint, boolean, smallint[], bigint[]) IS
    'Ties the transaction to a lock: no other holder can have it before the transaction ends. It fails if the lock is lost';

-- Who holds a key now. A holder's id is not shown.

CREATE FUNCTION pglock.lease_holders(holder pg_catalog.uuid, space smallint, number bigint)
RETURNS TABLE (
    self boolean, shared boolean, role pg_catalog.text, application pg_catalog.text, host pg_catalog.text, pid integer,
    process_us bigint, since_us bigint
)
LANGUAGE sql STABLE STRICT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT held.holder = lease_holders.holder, held.shared, coalesce(h.role, ''), coalesce(h.application, ''),
        coalesce(h.host, ''), coalesce(h.pid, 0), coalesce((extract(epoch FROM h.since) * 1000000)::bigint, 0),
        (extract(epoch FROM held.since) * 1000000)::bigint
    FROM (
        SELECT l.holder, false AS shared, l.since, l.generation FROM pglock.leases AS l
        WHERE l.space = lease_holders.space AND l.number = lease_holders.number AND l.holder IS NOT NULL
        UNION ALL
        SELECT s.holder, true, s.since, s.generation FROM pglock.lease_shares AS s
        WHERE s.space = lease_holders.space AND s.number = lease_holders.number
    ) AS held
    LEFT JOIN pglock.holders AS h ON h.id = held.holder
    WHERE h.id IS NULL OR NOT h.ended AND h.expires > clock_timestamp()
    ORDER BY held.generation
$$;

REVOKE ALL ON FUNCTION pglock.lease_holders(pg_catalog.uuid, smallint, bigint) FROM PUBLIC;

COMMENT ON FUNCTION pglock.lease_holders(pg_catalog.uuid, smallint, bigint) IS 'Who holds a key now';

-- Lists what a holder has, so that its process can drop what it does not know: after a failover the server may have
-- forgotten a drop. It reads all leases: an index on their holders would cost every take and drop more than this does
-- now and then.

CREATE FUNCTION pglock.lease_rows(holder pg_catalog.uuid)
RETURNS TABLE (kind pg_catalog.text, space smallint, number bigint, value bigint, attempt bigint)
LANGUAGE sql STABLE STRICT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT 'x', l.space, l.number, l.generation, l.attempt FROM pglock.leases AS l WHERE l.holder = lease_rows.holder
    UNION ALL
    SELECT 's', s.space, s.number, s.generation, s.attempt FROM pglock.lease_shares AS s WHERE s.holder = lease_rows.holder
    UNION ALL
    SELECT 'w', q.space, q.number, q.arrival, q.attempt FROM pglock.lease_waiters AS q WHERE q.holder = lease_rows.holder
$$;

REVOKE ALL ON FUNCTION pglock.lease_rows(pg_catalog.uuid) FROM PUBLIC;

COMMENT ON FUNCTION pglock.lease_rows(pg_catalog.uuid) IS 'What a holder has, and what it waits for';

-- Forgets holders that ended long ago, and keys that no process uses. The locks of a holder are free before its row goes. A
-- key that is locked, or whose row was locked since the look, stays.

CREATE FUNCTION pglock.lease_prune(keep_ms bigint, most integer) RETURNS bigint
LANGUAGE plpgsql VOLATILE STRICT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    before timestamp with time zone := clock_timestamp() - greatest(lease_prune.keep_ms, 0) * interval '1 ms';
    gone uuid[];
    pruned bigint := 0;
    n bigint;
BEGIN
    PERFORM pglock.lease_durable();
    SELECT array_agg(x.id) INTO gone FROM (
        SELECT h.id FROM pglock.holders AS h WHERE h.expires < before
        ORDER BY h.id LIMIT lease_prune.most FOR UPDATE SKIP LOCKED) AS x;
    IF gone IS NOT NULL THEN
        UPDATE pglock.holders AS h SET ended = true WHERE h.id = ANY (gone) AND NOT h.ended;
        DELETE FROM pglock.lease_waiters AS q WHERE q.holder = ANY (gone);
        WITH locked AS MATERIALIZED (
            SELECT l.space, l.number FROM pglock.leases AS l WHERE l.holder = ANY (gone) FOR NO KEY UPDATE SKIP LOCKED
        )
        UPDATE pglock.leases AS l SET holder = NULL, attempt = NULL, since = clock_timestamp()
        FROM locked WHERE l.space = locked.space AND l.number = locked.number AND l.holder = ANY (gone);
        WITH locked AS MATERIALIZED (
            SELECT s.space, s.number, s.generation FROM pglock.lease_shares AS s
            WHERE s.holder = ANY (gone) FOR UPDATE SKIP LOCKED
        )
        DELETE FROM pglock.lease_shares AS s USING locked
        WHERE s.space = locked.space AND s.number = locked.number AND s.generation = locked.generation;
        DELETE FROM pglock.holders AS h
        WHERE h.id = ANY (gone)
          AND NOT EXISTS (SELECT FROM pglock.leases AS l WHERE l.holder = h.id)
          AND NOT EXISTS (SELECT FROM pglock.lease_shares AS s WHERE s.holder = h.id);
        GET DIAGNOSTICS pruned = ROW_COUNT;
    END IF;
    WITH idle AS MATERIALIZED (
        SELECT l.space, l.number FROM pglock.leases AS l
        WHERE l.holder IS NULL AND l.since < before LIMIT lease_prune.most FOR UPDATE SKIP LOCKED
    )
    DELETE FROM pglock.leases AS l USING idle
    WHERE l.space = idle.space AND l.number = idle.number AND l.holder IS NULL;
    GET DIAGNOSTICS n = ROW_COUNT;
    RETURN pruned + n;
END
$$;

REVOKE ALL ON FUNCTION pglock.lease_prune(bigint, integer) FROM PUBLIC;

COMMENT ON FUNCTION pglock.lease_prune(bigint, integer) IS
    'Forgets at most so many holders that ended, and keys that were not in use, for so many milliseconds';

-- What people and the monitor read: who holds these locks, and who waits for them. The id of a holder is a secret, so there
-- is a digest of it instead, by which pglock.lease_terminate ends the holder. What a holder that is over has is free,
-- and not shown. What a holder has whose lease has run out is shown until another holder wants it, with a negative
-- lease_left: such a lease is not renewed any more. Where a process runs is shown to those to whom PostgreSQL shows the
-- address of its sessions.

CREATE VIEW pglock.row_locks AS
SELECT CASE
           WHEN lock.name OPERATOR(pg_catalog.~~) '@%' THEN pg_catalog.concat('@', lock.name)
           WHEN lock.name OPERATOR(pg_catalog.<>) '' THEN lock.name
           WHEN lock.space OPERATOR(pg_catalog.=) 1 THEN pg_catalog.concat('@', lock.number)
           ELSE pg_catalog.concat('@', pair.class, '/', pair.object)
       END AS key,
       lock.name,
       lock.space,
       lock.number,
       pair.class,
       pair.object,
       CASE WHEN lock.shared THEN 'shared' ELSE 'exclusive' END AS mode,
       lock.granted,
       lock.place AS generation,
       lock.since,
       pg_catalog.left(pg_catalog.encode(pg_catalog.sha256(pg_catalog.uuid_send(lock.holder)), 'hex'), 16) AS holder,
       process.role,
       process.application,
       CASE WHEN visible.host THEN process.host END AS host,
       CASE WHEN visible.host THEN process.pid END AS pid,
       process.since AS process_since,
       process.expires,
       process.expires OPERATOR(pg_catalog.-) pg_catalog.clock_timestamp() AS lease_left
FROM (
    SELECT l.space, l.number, l.holder, l.shared, l.granted, l.place, l.since, (
        SELECT n.name FROM pglock.names AS n
        WHERE n.key OPERATOR(pg_catalog.=) l.number AND l.space OPERATOR(pg_catalog.=) 1
        ORDER BY n.first_seen, n.name LIMIT 1) AS name
    FROM (
        SELECT l.space, l.number, l.holder, false AS shared, true AS granted, l.generation AS place, l.since
        FROM pglock.leases AS l WHERE l.holder IS NOT NULL
        UNION ALL
        SELECT s.space, s.number, s.holder, true, true, s.generation, s.since FROM pglock.lease_shares AS s
        UNION ALL
        SELECT q.space, q.number, q.holder, q.shared, false, q.arrival, q.since FROM pglock.lease_waiters AS q
    ) AS l
) AS lock
LEFT JOIN LATERAL (
    SELECT (lock.number OPERATOR(pg_catalog.>>) 32)::integer AS class,
           (((lock.number OPERATOR(pg_catalog.&) 4294967295) OPERATOR(pg_catalog.#) 2147483648)
               OPERATOR(pg_catalog.-) 2147483648)::integer AS object
) AS pair ON lock.space OPERATOR(pg_catalog.=) 2
LEFT JOIN pglock.holders AS process ON process.id OPERATOR(pg_catalog.=) lock.holder
LEFT JOIN LATERAL (
    SELECT pg_catalog.pg_has_role('pg_read_all_stats', 'USAGE') OR EXISTS (
        SELECT FROM pg_catalog.pg_roles AS r
        WHERE r.rolname::pg_catalog.text OPERATOR(pg_catalog.=) process.role AND pg_catalog.pg_has_role(r.oid, 'USAGE')
    ) AS host
) AS visible ON true
WHERE process.ended IS NOT TRUE;

REVOKE ALL ON TABLE pglock.row_locks FROM PUBLIC;

COMMENT ON VIEW pglock.row_locks IS
    'The locks in rows: who holds them, and who waits. A lease is of a process, and so of all that it holds';
COMMENT ON COLUMN pglock.row_locks.key IS 'The key as people write it, see pglock.locks';
COMMENT ON COLUMN pglock.row_locks.name IS 'The registered name of the key, see pglock.locks';
COMMENT ON COLUMN pglock.row_locks.space IS '1 for keys of one bigint, 2 for keys of two integers';
COMMENT ON COLUMN pglock.row_locks.number IS 'The bigint, or two integers packed as class << 32 | object';
COMMENT ON COLUMN pglock.row_locks.class IS 'The first of two integers';
COMMENT ON COLUMN pglock.row_locks.object IS 'The second of two integers';
COMMENT ON COLUMN pglock.row_locks.mode IS 'exclusive or shared';
COMMENT ON COLUMN pglock.row_locks.granted IS 'Whether the lock is held, otherwise waited for';
COMMENT ON COLUMN pglock.row_locks.generation IS
    'Of a lock that is held, the fencing token. Of a wait, its place: who has a smaller one arrived earlier';
COMMENT ON COLUMN pglock.row_locks.since IS 'When the lock was taken, or the wait began';
COMMENT ON COLUMN pglock.row_locks.holder IS
    'The process, as pglock.lease_terminate takes it: the beginning of a digest of its id, in hexadecimal';
COMMENT ON COLUMN pglock.row_locks.role IS 'The role of its sessions. This and what follows is NULL if the server has forgotten the process';
COMMENT ON COLUMN pglock.row_locks.application IS 'What the process calls itself';
COMMENT ON COLUMN pglock.row_locks.host IS
    'The name of its machine, as the process says. NULL, like pid, to all but members of its role and of pg_read_all_stats';
COMMENT ON COLUMN pglock.row_locks.pid IS 'Its process ID there';
COMMENT ON COLUMN pglock.row_locks.process_since IS 'When it began';
COMMENT ON COLUMN pglock.row_locks.expires IS 'When its lease runs out unless it is renewed, by the clock of the server';
COMMENT ON COLUMN pglock.row_locks.lease_left IS 'How long that is from now. Negative: others can have its locks';

-- Who waits for whom on these locks. Who arrived earlier is in the way too, unless both are readers.

CREATE VIEW pglock.row_waits AS
WITH lock AS MATERIALIZED (
    SELECT l.key, l.name, l.space, l.number, l.mode, l.granted, l.holder, l.role, l.application, l.host, l.pid, l.expires,
           l.generation, l.since
    FROM pglock.row_locks AS l
)
SELECT waiter.key,
       waiter.name,
       waiter.space,
       waiter.number,
       waiter.mode,
       waiter.holder AS waiter,
       waiter.role AS waiter_role,
       waiter.application AS waiter_application,
       waiter.since AS waiting_since,
       blocker.holder AS blocker,
       blocker.role AS blocker_role,
       blocker.application AS blocker_application,
       blocker.host AS blocker_host,
       blocker.pid AS blocker_pid,
       blocker.expires AS blocker_expires,
       CASE WHEN blocker.granted THEN 'hard' ELSE 'soft' END AS block
FROM lock AS waiter
JOIN lock AS blocker
    ON blocker.space OPERATOR(pg_catalog.=) waiter.space AND blocker.number OPERATOR(pg_catalog.=) waiter.number
   AND (blocker.mode OPERATOR(pg_catalog.=) 'exclusive' OR waiter.mode OPERATOR(pg_catalog.=) 'exclusive')
   AND (blocker.granted OR blocker.generation OPERATOR(pg_catalog.<) waiter.generation)
   AND (blocker.expires IS NULL OR blocker.expires OPERATOR(pg_catalog.>) pg_catalog.clock_timestamp())
WHERE NOT waiter.granted;

REVOKE ALL ON TABLE pglock.row_waits FROM PUBLIC;

COMMENT ON VIEW pglock.row_waits IS
    'Who waits for whom on the locks in rows of this database, a row for every live blocker of a waiter';
COMMENT ON COLUMN pglock.row_waits.key IS 'The key as people write it, see pglock.row_locks';
COMMENT ON COLUMN pglock.row_waits.name IS 'The registered name of the key';
COMMENT ON COLUMN pglock.row_waits.space IS 'Which keys number is one of, see pglock.row_locks';
COMMENT ON COLUMN pglock.row_waits.number IS 'The bigint, or two integers packed as class << 32 | object';
COMMENT ON COLUMN pglock.row_waits.mode IS 'What the waiter waits for: exclusive or shared';
COMMENT ON COLUMN pglock.row_waits.waiter IS 'The process that waits, see pglock.row_locks.holder';
COMMENT ON COLUMN pglock.row_waits.waiter_role IS 'Its role';
COMMENT ON COLUMN pglock.row_waits.waiter_application IS 'What it calls itself';
COMMENT ON COLUMN pglock.row_waits.waiting_since IS 'When the wait began';
COMMENT ON COLUMN pglock.row_waits.blocker IS 'The process in the way, see pglock.row_locks.holder';
COMMENT ON COLUMN pglock.row_waits.blocker_role IS 'Its role';
COMMENT ON COLUMN pglock.row_waits.blocker_application IS 'What it calls itself';
COMMENT ON COLUMN pglock.row_waits.blocker_host IS 'The name of its machine, see pglock.row_locks';
COMMENT ON COLUMN pglock.row_waits.blocker_pid IS 'Its process ID there';
COMMENT ON COLUMN pglock.row_waits.blocker_expires IS 'When its lease is over unless it is renewed';
COMMENT ON COLUMN pglock.row_waits.block IS 'hard: the blocker holds the lock. soft: it only waits ahead';

-- Ends a process that pglock.row_locks shows. It is told at its next renewal, and its locks are free at once, except those of
-- guarded transactions that are open. The caller needs no right on the tables, and no role has EXECUTE at first.

CREATE FUNCTION pglock.lease_terminate(holder pg_catalog.text) RETURNS boolean
LANGUAGE plpgsql VOLATILE STRICT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    UPDATE pglock.holders AS h SET ended = true
    WHERE left(encode(sha256(uuid_send(h.id)), 'hex'), 16) = lease_terminate.holder AND NOT h.ended;
    RETURN FOUND;
END
$$;

REVOKE ALL ON FUNCTION pglock.lease_terminate(pg_catalog.text) FROM PUBLIC;

COMMENT ON FUNCTION pglock.lease_terminate(pg_catalog.text) IS
    'Ends a process that pglock.row_locks shows, and so all its locks. False: there is none that lives';

SELECT pglock.limit_rights();

UPDATE pglock.schema_migrations SET version = 13, dirty = false;
