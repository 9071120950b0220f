CREATE OR REPLACE FUNCTION pglock.lease_drop(
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

CREATE OR REPLACE FUNCTION pglock.lease_call(
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

UPDATE pglock.schema_migrations SET version = 14, dirty = false;
