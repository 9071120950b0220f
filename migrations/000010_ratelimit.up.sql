-- The state of rate limits: for each key the time until which what it has let through is accounted for, which is GCRA's
-- theoretical arrival time. Times are nanoseconds since 1970. A row whose time has passed says nothing, and may be
-- deleted.
--
-- What a key owes is busy_until less the clock. If the clock is set back, by an hour say, it would owe an hour more. So a
-- row also has the time of its last decision: where that is ahead of the clock, the clock was set back, and the key
-- owes what it owed at the decision.
--
-- Rows are changed in place where their page has room, so there is no index on what changes.

CREATE TABLE pglock.rates (
    key pg_catalog.text COLLATE pg_catalog."C" NOT NULL,
    busy_until bigint NOT NULL,
    decided_at bigint NOT NULL DEFAULT 0,
    CONSTRAINT rates_pkey PRIMARY KEY (key),
    CONSTRAINT rates_key_fits_index CHECK (pg_catalog.octet_length(key) OPERATOR(pg_catalog.<=) 1024)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05);

REVOKE ALL ON TABLE pglock.rates FROM PUBLIC;

COMMENT ON TABLE pglock.rates IS 'The state of rate limits';
COMMENT ON COLUMN pglock.rates.key IS 'What is limited';
COMMENT ON COLUMN pglock.rates.busy_until IS
    'Until when what was let through is accounted for, in nanoseconds since 1970 by the clock of the server';
COMMENT ON COLUMN pglock.rates.decided_at IS 'When busy_until was set, by the same clock';
COMMENT ON CONSTRAINT rates_pkey ON pglock.rates IS 'A limit is known by its key';
COMMENT ON CONSTRAINT rates_key_fits_index ON pglock.rates IS 'Keeps rows well below the size limit of an index row';

CREATE FUNCTION pglock.rate_clock() RETURNS bigint
LANGUAGE sql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint * 1000
$$;

REVOKE ALL ON FUNCTION pglock.rate_clock() FROM PUBLIC;

COMMENT ON FUNCTION pglock.rate_clock() IS 'The time in nanoseconds since 1970, in steps of microseconds';

-- Lets through what the limits of keys have room for. An element of the arrays is a run of requests, counts[i] of them
-- that want amounts[i] each, for a limit that lets one through every intervals[i] nanoseconds and has tolerances[i]
-- nanoseconds of burst. Each may be put off by patiences[i]. Where that is 0 it is let through now or refused, and then
-- so is what comes after it of that kind. Runs of a key are together and in the order of their arrival. Keys are in the
-- order of their bytes for every caller, so that callers wait for each other and do not deadlock.
--
-- For every run it returns how many were let through, always the first ones, the time from which the first of them
-- counts, and the time of the decision.
--
-- It looks before it locks: a row's time only grows (but for pglock.rate_return), so what has no room in an older row has
-- none in the row, and a refusal writes nothing. The time is taken after the row is locked, so that the times of
-- decisions are in the order of the decisions. Where the clock was set back, even a refusal writes the row: from then
-- on what the key owes becomes less again.
--
-- The look at all rows is one statement, and so is the change of those that are locked by then: each statement costs more
-- than what it does with a row. Both go by the index, whatever the planner thinks of a table that was small when it
-- looked. Rows are locked one at a time, since they may have to be made.

CREATE FUNCTION pglock.rate_take(
    keys pg_catalog.text[], intervals bigint[], tolerances bigint[], amounts bigint[], counts bigint[],
    patiences bigint[]
) RETURNS TABLE (granted bigint, start bigint, at bigint)
LANGUAGE plpgsql VOLATILE STRICT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
DECLARE
    seen bigint[];       -- busy_until of each key before its row is locked
    seen_at bigint[];    -- its decided_at
    this text;           -- the key that is being decided
    busy bigint;         -- its busy_until
    ahead bigint;        -- how far its decided_at is ahead of the clock; NULL if there is no row
    locked boolean;      -- whether its row is locked, so that busy and at are true
    changed boolean := false;
    changed_keys text[] := '{}';
    changed_busy bigint[] := '{}';
    changed_at bigint[] := '{}';
    refused boolean;     -- whether a run without patience was refused
    price bigint;
    room bigint;
BEGIN
    SELECT array_agg(r.busy_until ORDER BY k.i), array_agg(r.decided_at ORDER BY k.i) INTO seen, seen_at
    FROM unnest(keys) WITH ORDINALITY AS k (key, i) LEFT JOIN pglock.rates AS r ON r.key = k.key;
    FOR i IN 1 .. cardinality(keys) LOOP
        IF this IS DISTINCT FROM keys[i] THEN
            IF changed THEN
                changed_keys := array_append(changed_keys, this);
                changed_busy := array_append(changed_busy, busy);
                changed_at := array_append(changed_at, at);
            END IF;
            this := keys[i];
            locked := false;
            changed := false;
            refused := false;
            at := (extract(epoch FROM clock_timestamp()) * 1000000)::bigint * 1000;
            ahead := seen_at[i] - at;
            busy := seen[i] - greatest(ahead, 0);
        END IF;
        price := amounts[i] * intervals[i];
        LOOP
            start := greatest(busy, at);
            room := at - start + tolerances[i] + patiences[i];
            granted := CASE
                WHEN room < price OR (refused AND patiences[i] = 0) THEN 0
                ELSE least(counts[i], room / price)
            END;
            EXIT WHEN locked OR granted = 0 AND (ahead > 0) IS NOT TRUE;
            LOOP
                SELECT r.busy_until, r.decided_at INTO busy, ahead FROM pglock.rates AS r WHERE r.key = this FOR UPDATE;
                EXIT WHEN FOUND;
                INSERT INTO pglock.rates AS r (key, busy_until) VALUES (this, 0)
                ON CONFLICT ON CONSTRAINT rates_pkey DO NOTHING;
            END LOOP;
            at := (extract(epoch FROM clock_timestamp()) * 1000000)::bigint * 1000;
            ahead := ahead - at;
            busy := busy - greatest(ahead, 0);
            changed := ahead > 0;
            locked := true;
        END LOOP;
        IF granted > 0 THEN
            busy := start + granted * price;
            changed := true;
        END IF;
        IF granted < counts[i] AND patiences[i] = 0 THEN
            refused := true;
        END IF;
        RETURN NEXT;
    END LOOP;
    IF changed THEN
        changed_keys := array_append(changed_keys, this);
        changed_busy := array_append(changed_busy, busy);
        changed_at := array_append(changed_at, at);
    END IF;
    IF changed_keys <> '{}' THEN
        UPDATE pglock.rates AS r SET busy_until = c.busy, decided_at = c.at
        FROM unnest(changed_keys, changed_busy, changed_at) AS c (key, busy, at) WHERE r.key = c.key;
    END IF;
END
$$;

REVOKE ALL ON FUNCTION
    pglock.rate_take(pg_catalog.text[], bigint[], bigint[], bigint[], bigint[], bigint[]) FROM PUBLIC;

COMMENT ON FUNCTION pglock.rate_take(pg_catalog.text[], bigint[], bigint[], bigint[], bigint[], bigint[]) IS
    'Lets through what the rate limits of keys have room for. In a transaction of its own: others wait for its end';

-- Gives back what was taken last, if nothing was taken since. It is the only thing that moves a row's time back: a
-- rate_take that looked before may refuse what would have had room.

CREATE FUNCTION pglock.rate_return(key pg_catalog.text, taken_until bigint, price bigint) RETURNS boolean
LANGUAGE sql VOLATILE STRICT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    WITH returned AS (
        UPDATE pglock.rates AS r SET busy_until = r.busy_until - rate_return.price
        WHERE r.key = rate_return.key AND r.busy_until = rate_return.taken_until AND rate_return.price > 0
        RETURNING r.key
    )
    SELECT EXISTS (SELECT FROM returned)
$$;

REVOKE ALL ON FUNCTION pglock.rate_return(pg_catalog.text, bigint, bigint) FROM PUBLIC;

COMMENT ON FUNCTION pglock.rate_return(pg_catalog.text, bigint, bigint) IS
    'Gives back what was taken last, and says whether it did: not if something was taken since';

-- Rows that others have locked are in use and passed over.

CREATE FUNCTION pglock.rate_prune(most integer) RETURNS bigint
LANGUAGE sql VOLATILE STRICT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    WITH idle AS MATERIALIZED (
        SELECT r.key FROM pglock.rates AS r
        WHERE r.busy_until < pglock.rate_clock() LIMIT rate_prune.most FOR UPDATE SKIP LOCKED
    ), deleted AS (
        DELETE FROM pglock.rates AS r USING idle WHERE r.key = idle.key RETURNING r.key
    )
    SELECT count(*) FROM deleted
$$;

REVOKE ALL ON FUNCTION pglock.rate_prune(integer) FROM PUBLIC;

COMMENT ON FUNCTION pglock.rate_prune(integer) IS
    'Deletes at most so many rows that say nothing any more, and returns how many it deleted';

UPDATE pglock.schema_migrations SET version = 10, dirty = false;
