-- +goose Up
-- +goose StatementBegin
-- migrate:up
-- Schema pglock: what pglock keeps in a database. Plain locks need nothing of it. (The lines with + and migrate: are for
-- goose and dbmate, which then take this file as it is.)
--
-- This file is for one transaction. It sets search_path there, and so does each function, so that every type, function
-- and operator is PostgreSQL's own, and not a better fitting one that another role offers. No role but the owner has a
-- right at first (see the end). migrations.LockerGrants and the like return what roles need: EXECUTE on functions,
-- which have the owner's rights, so that their callers need none on tables, and SELECT on what people read.

SELECT pg_catalog.set_config('pglock.search_path', pg_catalog.current_setting('search_path'), true);
SET LOCAL quote_all_identifiers = off; -- it would quote the names in the settings of functions
SET LOCAL search_path = pg_catalog, pg_temp;

DO LANGUAGE plpgsql $$
BEGIN
    IF pg_catalog.current_setting('search_path') OPERATOR(pg_catalog.<>) 'pg_catalog, pg_temp' THEN
        RAISE 'run this file in one transaction, for example with psql --single-transaction';
    END IF;
END
$$;

CREATE SCHEMA pglock;
COMMENT ON SCHEMA pglock IS 'Advisory locks by name (github.com/pglock-toolkit/pglock)';

-- The version of this schema. By this function it is told from another schema that is called pglock. The number is
-- read from the text in the catalog, which needs no right and executes nothing, and which every dump has.
CREATE FUNCTION pglock.toolkit_version() RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS 'SELECT 1';

-- The lock number of a name: the first 8 bytes, big-endian, of the SHA-256 of its UTF-8 bytes. It never changes, so it
-- is IMMUTABLE, although PostgreSQL allows to replace the conversion to UTF-8.
CREATE FUNCTION pglock.key(name text) RETURNS bigint
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
    SELECT ('x'::text || encode(substring(sha256(convert_to(name, 'UTF8')), 1, 8), 'hex'))::bit(64)::bigint
$$;

-- The registry of names, which turns the numbers in pg_locks back into what people called their locks. Two rows with
-- one key are two names that are the same lock. An index row has to fit a third of a page, so names have a bound far
-- below that. COLLATE "C" keeps indexes valid when the operating system's collations change.
CREATE TABLE pglock.names (
    key bigint NOT NULL,
    name text COLLATE "C" NOT NULL,
    first_seen timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT names_pkey PRIMARY KEY (key, name),
    CONSTRAINT names_key_is_of_name CHECK (key = pglock.key(name)),
    CONSTRAINT names_name_fits_index CHECK (octet_length(name) <= 1024)
);
COMMENT ON TABLE pglock.names IS 'The names that locks were taken by. Rows may be deleted at any time';

-- Records names for the views, and returns how many were new. Names over 1024 bytes and NULLs are passed over, and
-- known ones left alone: no row version, no transaction ID, no WAL. Best called in a transaction of its own: others
-- that register the same new name wait for its end. All calls insert in one order, so that they do not deadlock.
CREATE FUNCTION pglock.register(VARIADIC names text[]) RETURNS bigint
LANGUAGE sql STRICT SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    WITH added AS (
        INSERT INTO pglock.names (key, name)
        SELECT DISTINCT pglock.key(given.name), given.name COLLATE "C"
        FROM unnest(register.names) AS given (name)
        WHERE octet_length(given.name) <= 1024
        ORDER BY 1, 2
        ON CONFLICT DO NOTHING
        RETURNING key
    )
    SELECT count(*) FROM added
$$;

-- The 36 bits of a semaphore's key that are in its locks (internal/lockkeys), from the name that a Locker records for
-- it, which is under another number. Other names give NULL. Without the index the monitor would have to read all names
-- of semaphores that any role has ever recorded.
CREATE FUNCTION pglock.semaphore_of(name text) RETURNS bigint
LANGUAGE plpgsql IMMUTABLE STRICT SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    key text := substring(name, '^pglock:semaphore:[0-9]+:(.*)$');
    part text[] := regexp_match(key, '^@(-?[0-9]{1,10})/(-?[0-9]{1,10})$');
    number bigint;
BEGIN
    IF part IS NOT NULL THEN
        number := (part[1]::bigint << 32) | (part[2]::bigint & 4294967295);
    ELSIF key ~ '^@-?[0-9]{1,19}$' THEN
        number := substring(key, 2)::bigint;
    ELSIF key !~ '^@([^@]|$)' THEN
        number := pglock.key(regexp_replace(key, '^@', ''));
    END IF;
    number := (number # ((number >> 36) & 268435455)) & 68719476735;
    RETURN CASE WHEN part IS NULL THEN number ELSE ~number & 68719476735 END;
EXCEPTION WHEN numeric_value_out_of_range THEN
    RETURN NULL;
END
$$;
CREATE INDEX names_semaphores ON pglock.names (pglock.semaphore_of(name), first_seen)
    WHERE starts_with(name, 'pglock:semaphore:');

-- Fencing tokens, of all locks. CACHE 1 makes the order of the values the order of the calls: a larger cache hands
-- every session a block of numbers of its own (https://www.postgresql.org/docs/current/sql-createsequence.html). A
-- failover that loses transactions can repeat values, and logical replication does not copy them.

CREATE SEQUENCE pglock.fence AS bigint CACHE 1 NO CYCLE;

-- Only every 33rd nextval writes WAL, and only its session waits until that is flushed. So after a crash, or on a
-- standby, nextval alone can return numbers again. A transaction that makes or locks a row writes WAL of its own: its
-- commit flushes everything before it, and waits for the synchronous standbys. A row stays locked until then, so each
-- transaction takes one that is free, and makes one if it finds none, 64 at most.
CREATE TABLE pglock.fence_rows (
    id smallint NOT NULL,
    CONSTRAINT fence_rows_pkey PRIMARY KEY (id)
);
COMMENT ON TABLE pglock.fence_rows IS 'Rows that are locked by transactions that draw fencing tokens, and never change';

-- Draws so many tokens. They may be used when the commit has been confirmed, with synchronous_commit = on or
-- remote_apply and without a warning. Whether the commit waits is decided outside: a setting of the function would end
-- before the commit.
CREATE FUNCTION pglock.fence_draw(count integer) RETURNS bigint[]
LANGUAGE plpgsql STRICT SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM FROM pglock.fence_rows AS r LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        INSERT INTO pglock.fence_rows AS r (id) VALUES (pg_backend_pid() % 64)
        ON CONFLICT (id) DO UPDATE SET id = excluded.id WHERE false; -- waits for the row, and locks it
    END IF;
    RETURN ARRAY(SELECT nextval('pglock.fence') FROM generate_series(1, fence_draw.count));
END
$$;

-- Which runs of scheduled jobs there have been (package schedule). A run is known by its job and the time at which it
-- was due, so clocks that differ and processes that restart cannot repeat it. Old records are deleted. The highest due
-- time among these stays with the job for ever, so what is older counts as run.

CREATE TABLE pglock.jobs (
    name text COLLATE "C" NOT NULL, -- the name of its lock
    key bigint NOT NULL,
    pruned timestamptz,             -- the highest due time of a deleted record
    CONSTRAINT jobs_pkey PRIMARY KEY (name),
    CONSTRAINT jobs_key_is_of_name CHECK (key = pglock.key(name)),
    CONSTRAINT jobs_name_fits_index CHECK (octet_length(name) <= 1024)
);
COMMENT ON TABLE pglock.jobs IS 'The scheduled jobs that have run';

CREATE TABLE pglock.runs (
    job text COLLATE "C" NOT NULL,
    due timestamptz NOT NULL,
    started timestamptz NOT NULL, -- when the last attempt began, by the clock of the server
    finished timestamptz,         -- when it succeeded, NULL while it runs and after a failure
    done boolean NOT NULL,        -- whether the run counts, so that it is not repeated
    attempts integer NOT NULL,
    CONSTRAINT runs_pkey PRIMARY KEY (job, due),
    CONSTRAINT runs_job_fkey FOREIGN KEY (job) REFERENCES pglock.jobs (name) ON DELETE CASCADE
);
COMMENT ON TABLE pglock.runs IS 'The runs of scheduled jobs, a row for each due time';

-- Looks at a run, or records a step of it:
--
--   look     nothing is written
--   attempt  it begins, and will be repeated unless it is recorded as done
--   start    it begins, and is not repeated whatever becomes of it
--   done     it has succeeded, and is not repeated. After start it has only this time
--
-- It returns the time, whether the run had been done, the highest due time of a deleted record, and the newest due
-- times before it. A run that is done already, or not due yet by the clock of the server, is left alone. The row of the
-- job is locked first, so records and the deletion of old ones are in one order, and later statements have newer
-- snapshots.
CREATE FUNCTION pglock.tick(
    job text, due timestamptz, step text DEFAULT 'look', keep interval DEFAULT NULL, newest integer DEFAULT 0,
    OUT at timestamptz, OUT done boolean, OUT pruned timestamptz, OUT dues timestamptz[]
)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    old timestamptz;
BEGIN
    IF tick.step IN ('attempt', 'start', 'done') THEN
        INSERT INTO pglock.jobs AS j (name, key) VALUES (tick.job, pglock.key(tick.job)) ON CONFLICT DO NOTHING;
        SELECT j.pruned INTO tick.pruned FROM pglock.jobs AS j WHERE j.name = tick.job FOR UPDATE;
    ELSIF tick.step = 'look' THEN
        SELECT j.pruned INTO tick.pruned FROM pglock.jobs AS j WHERE j.name = tick.job;
    ELSE
        RAISE invalid_parameter_value USING MESSAGE = format('pglock.tick has no step %L', tick.step);
    END IF;
    tick.at := clock_timestamp();
    SELECT r.done INTO tick.done FROM pglock.runs AS r WHERE r.job = tick.job AND r.due = tick.due;
    tick.done := coalesce(tick.done, false) OR coalesce(tick.due <= tick.pruned, false);
    IF tick.newest > 0 THEN
        tick.dues := ARRAY(SELECT r.due FROM pglock.runs AS r
                           WHERE r.job = tick.job AND r.due < tick.due AND r.done
                           ORDER BY r.due DESC LIMIT tick.newest);
    END IF;
    IF tick.step = 'look' OR tick.due > tick.at THEN
        RETURN;
    ELSIF tick.done THEN
        UPDATE pglock.runs AS r SET finished = tick.at
        WHERE tick.step = 'done' AND r.job = tick.job AND r.due = tick.due AND r.finished IS NULL;
        RETURN;
    END IF;
    INSERT INTO pglock.runs AS r (job, due, started, finished, done, attempts)
    VALUES (tick.job, tick.due, tick.at, CASE WHEN tick.step = 'done' THEN tick.at END, tick.step <> 'attempt', 1)
    ON CONFLICT ON CONSTRAINT runs_pkey DO UPDATE SET
        started = CASE WHEN tick.step = 'done' THEN r.started ELSE excluded.started END,
        finished = excluded.finished,
        done = excluded.done,
        attempts = r.attempts + CASE WHEN tick.step = 'done' THEN 0 ELSE 1 END;
    IF tick.keep IS NOT NULL THEN
        WITH deleted AS (
            DELETE FROM pglock.runs AS r
            WHERE r.job = tick.job AND r.due < tick.at - tick.keep AND r.due < tick.due
            RETURNING r.due
        )
        SELECT max(d.due) INTO old FROM deleted AS d;
        UPDATE pglock.jobs AS j SET pruned = greatest(j.pruned, old) WHERE j.name = tick.job AND old IS NOT NULL;
    END IF;
END
$$;

-- What has been done once, and is not to be done again (package once).

CREATE TABLE pglock.once_records (
    id text COLLATE "C" NOT NULL,    -- which one of its kind, such as an Idempotency-Key
    scope text COLLATE "C" NOT NULL, -- what kind of thing it is, such as the name of a consumer
    done_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    fingerprint bytea,               -- the SHA-256 of what was asked for, where the caller gave that
    result bytea,                    -- what came of it, where the caller has kept that
    CONSTRAINT once_records_pkey PRIMARY KEY (id, scope),
    CONSTRAINT once_records_scope_fits_index CHECK (octet_length(scope) <= 256),
    CONSTRAINT once_records_id_fits_index CHECK (octet_length(id) <= 1024)
);
COMMENT ON TABLE pglock.once_records IS 'What has been done once';
CREATE INDEX once_records_done_at ON pglock.once_records (done_at); -- for pglock.once_prune

-- Records what has been done. The caller has the lock of the identity and has seen no record.
CREATE FUNCTION pglock.once_record(scope text, id text, fingerprint bytea, result bytea) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    INSERT INTO pglock.once_records (id, scope, fingerprint, result)
    VALUES (once_record.id, once_record.scope, once_record.fingerprint, once_record.result)
$$;

-- Says whether something is to be done by this transaction, and records that it is:
--
--   first     it has not been done, and no other transaction can do it before this one ends
--   done      it has been done
--   mismatch  it has been done for other contents
--   held      another transaction is at it (only where wait is false)
--   stale     the transaction would not see what others have done meanwhile
--
-- The lock and the look are separate statements, so in a READ COMMITTED transaction the look has a snapshot that is
-- newer than the lock. Where the caller wants a record, the INSERT is the look. The other look must use the index,
-- whatever the planner thinks of a table that was empty when it looked. Every name has its schema: to set search_path
-- costs as much as the look.
CREATE FUNCTION pglock.once(
    scope text, id text, fingerprint bytea DEFAULT NULL, wait boolean DEFAULT true, record boolean DEFAULT true,
    OUT outcome text, OUT done_at timestamptz, OUT result bytea
)
LANGUAGE plpgsql SECURITY DEFINER SET enable_seqscan = off AS $$
DECLARE
    lock bigint := ('x'::pg_catalog.text OPERATOR(pg_catalog.||) pg_catalog.encode(pg_catalog.substring(
        pg_catalog.sha256(pg_catalog.convert_to(pg_catalog.concat('once:', once.scope, '/', once.id), 'UTF8')), 1, 8
    ), 'hex'))::bit(64)::bigint;
    earlier pg_catalog.bytea;
BEGIN
    IF NOT pg_catalog.starts_with(pg_catalog.current_setting('transaction_isolation'), 'read ') THEN
        once.outcome := 'stale';
        RETURN;
    ELSIF once.wait THEN
        PERFORM pg_catalog.pg_advisory_xact_lock(lock);
    ELSIF NOT pg_catalog.pg_try_advisory_xact_lock(lock) THEN
        once.outcome := 'held';
        RETURN;
    END IF;
    once.outcome := 'first';
    LOOP
        IF once.record THEN
            INSERT INTO pglock.once_records (id, scope, fingerprint) VALUES (once.id, once.scope, once.fingerprint)
            ON CONFLICT DO NOTHING;
            IF FOUND THEN
                RETURN;
            END IF;
        END IF;
        SELECT r.done_at, r.fingerprint, r.result INTO once.done_at, earlier, once.result
        FROM pglock.once_records AS r
        WHERE r.id OPERATOR(pg_catalog.=) once.id AND r.scope OPERATOR(pg_catalog.=) once.scope;
        EXIT WHEN FOUND OR NOT once.record; -- it may have been deleted in between
    END LOOP;
    IF earlier OPERATOR(pg_catalog.<>) once.fingerprint THEN
        once.outcome := 'mismatch';
        once.result := NULL;
    ELSIF FOUND THEN
        once.outcome := 'done';
    END IF;
END
$$;

-- Deletes at most so many records that are older than keep, the oldest first, and returns how many.
CREATE FUNCTION pglock.once_prune(keep interval, most integer) RETURNS bigint
LANGUAGE sql STRICT SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    WITH deleted AS (
        DELETE FROM pglock.once_records AS old WHERE old.ctid = ANY (ARRAY(
            SELECT r.ctid FROM pglock.once_records AS r WHERE r.done_at < clock_timestamp() - once_prune.keep
            ORDER BY r.done_at LIMIT once_prune.most FOR UPDATE SKIP LOCKED))
        RETURNING old.id
    )
    SELECT count(*) FROM deleted
$$;

-- The state of rate limits (package ratelimit): for each key the time until which what it has let through is accounted
-- for, GCRA's theoretical arrival time, in nanoseconds since 1970. A row whose time has passed says nothing, and may be
-- deleted.
--
-- What a key owes is busy_until less the clock. If the clock was set back, the time of the last decision is ahead of
-- it, and the key owes what it owed then. Rows are changed in place, so there is no index on what changes.

CREATE TABLE pglock.rates (
    key text COLLATE "C" NOT NULL,
    busy_until bigint NOT NULL,
    decided_at bigint NOT NULL DEFAULT 0,
    CONSTRAINT rates_pkey PRIMARY KEY (key),
    CONSTRAINT rates_key_fits_index CHECK (octet_length(key) <= 1024)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05);
COMMENT ON TABLE pglock.rates IS 'The state of rate limits';

-- The time in nanoseconds since 1970, in steps of microseconds.
CREATE FUNCTION pglock.rate_clock() RETURNS bigint
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint * 1000
$$;

-- Lets through what the limits of keys have room for. An element of the arrays is a run of requests, counts[i] of them
-- that want amounts[i] each, for a limit that lets one through every intervals[i] nanoseconds and has tolerances[i]
-- nanoseconds of burst. Each may be put off by patiences[i]. Where that is 0 it is let through now or refused, and then
-- so is what comes after it of that kind. Runs of a key are together and in the order of their arrival. All calls have
-- keys in the order of their bytes, so that they do not deadlock. For every run it returns how many were let through,
-- always the first ones, the time from which the first of them counts, and the time of the decision.
--
-- It looks before it locks: a row's time only grows (but for pglock.rate_return), so what has no room in an older row
-- has none in the row, and a refusal writes nothing. The time is taken after the row is locked, so that the times of
-- decisions are in the order of the decisions. Where the clock was set back, even a refusal writes the row. Each
-- statement costs more than what it does with a row, so the look and the change are one each, by the index whatever the
-- planner thinks of a table that was small when it looked. Rows are locked one at a time, since they may have to be
-- made.
CREATE FUNCTION pglock.rate_take(
    keys text[], intervals bigint[], tolerances bigint[], amounts bigint[], counts bigint[],
    patiences bigint[]
) RETURNS TABLE (granted bigint, start bigint, at bigint)
LANGUAGE plpgsql STRICT SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
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

-- Gives back what was taken last, if nothing was taken since, and says whether it did. It is the only thing that moves
-- a row's time back: a rate_take that looked before may refuse what would have had room.
CREATE FUNCTION pglock.rate_return(key text, taken_until bigint, price bigint) RETURNS boolean
LANGUAGE sql STRICT SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    WITH returned AS (
        UPDATE pglock.rates AS r SET busy_until = r.busy_until - rate_return.price
        WHERE r.key = rate_return.key AND r.busy_until = rate_return.taken_until AND rate_return.price > 0
        RETURNING r.key
    )
    SELECT EXISTS (SELECT FROM returned)
$$;

-- Deletes at most so many rows that say nothing any more, and returns how many. Rows that others have locked are in
-- use.
CREATE FUNCTION pglock.rate_prune(most integer) RETURNS bigint
LANGUAGE sql STRICT SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    WITH deleted AS (
        DELETE FROM pglock.rates AS idle WHERE idle.ctid = ANY (ARRAY(
            SELECT r.ctid FROM pglock.rates AS r
            WHERE r.busy_until < pglock.rate_clock() LIMIT rate_prune.most FOR UPDATE SKIP LOCKED))
        RETURNING idle.key
    )
    SELECT count(*) FROM deleted
$$;

-- Locks that are rows, for clients that reach the server only through a pooler of transactions (package rowlock).
--
-- A process has one row in pglock.holders, which it renews for all its locks: rows of pglock.leases that name their
-- holder, and end with it. Who does not know the random id of a holder can neither use nor end what it holds.
--
-- A holder is over when its row says ended, and only then. It is set by a process that wants a lock of a holder that
-- has expired, and never taken back: after that no late renewal, and no clock that jumps back, can revive the holder. A
-- holder without a row is not over. So its locks are set free before its row is deleted, in the same transaction.

CREATE TABLE pglock.holders (
    id uuid NOT NULL,               -- a random number that is never used again
    expires timestamptz NOT NULL,   -- until when its locks are its own, unless it is renewed
    ended boolean NOT NULL DEFAULT false,
    floor bigint NOT NULL DEFAULT 0, -- calls up to this number are refused: their answers were lost
    role text NOT NULL,
    application text NOT NULL,
    host text NOT NULL,
    pid integer NOT NULL,
    since timestamptz NOT NULL DEFAULT clock_timestamp(),
    waits text NOT NULL DEFAULT '', -- what the process publishes for searches of deadlocks
    CONSTRAINT holders_pkey PRIMARY KEY (id)
) WITH (fillfactor = 50);
COMMENT ON TABLE pglock.holders IS 'The processes that hold locks in pglock.leases, or wait for them';

CREATE TABLE pglock.leases (
    space smallint NOT NULL, -- 1 for keys of one bigint, 2 for keys of two integers (objsubid in pg_locks)
    number bigint NOT NULL,  -- the bigint, or two integers packed as class << 32 | object
    holder uuid,             -- NULL if it is free, or held in pglock.lease_shares
    generation bigint,       -- the fencing token: larger than that of every earlier holder
    attempt bigint,          -- the number of the call of its holder that took it
    since timestamptz NOT NULL DEFAULT clock_timestamp(), -- when it was taken, or became free
    held bigint NOT NULL DEFAULT 0, -- how long it was held, in microseconds, an average of the last times
    CONSTRAINT leases_pkey PRIMARY KEY (space, number)
) WITH (fillfactor = 50);
COMMENT ON TABLE pglock.leases IS 'The locks in rows: a row for each key that is held, or was not long ago';

CREATE TABLE pglock.lease_shares (
    space smallint NOT NULL,
    number bigint NOT NULL,
    generation bigint NOT NULL, -- among shared holders the order has no meaning
    holder uuid NOT NULL,
    attempt bigint NOT NULL,
    since timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT lease_shares_pkey PRIMARY KEY (space, number, generation)
);
COMMENT ON TABLE pglock.lease_shares IS 'The locks in rows that are held shared';

CREATE TABLE pglock.lease_waiters (
    space smallint NOT NULL,
    number bigint NOT NULL,
    arrival bigint NOT NULL, -- the order of arrival, a number of the sequence pglock.fence
    holder uuid NOT NULL,    -- the process that waits, which counts while its row in pglock.holders lives
    attempt bigint NOT NULL,
    shared boolean NOT NULL,
    since timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT lease_waiters_pkey PRIMARY KEY (space, number, arrival)
);
COMMENT ON TABLE pglock.lease_waiters IS 'Who waits for locks in rows: a row for each waiting call';

-- Makes the commit wait until it is durable. Whether it waits is decided at its end, so the setting is for the rest of
-- the transaction: a holder, a renewal or a lock that a failover forgets is as bad as one that was never written.
CREATE FUNCTION pglock.lease_durable() RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE feature_not_supported USING MESSAGE = 'leases are taken and renewed in READ COMMITTED transactions only';
    END IF;
    IF current_setting('synchronous_commit') NOT IN ('on', 'remote_apply') THEN
        PERFORM set_config('synchronous_commit', 'on', true);
    END IF;
END
$$;

-- When a lease that begins now is over. It is bounded, so that the locks of a process that ended do not stay for ever.
CREATE FUNCTION pglock.lease_until(lease_ms bigint) RETURNS timestamptz
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF lease_until.lease_ms NOT BETWEEN 1 AND 86400000 THEN
        RAISE invalid_parameter_value USING MESSAGE = 'a lease is between a millisecond and a day long';
    END IF;
    RETURN clock_timestamp() + lease_until.lease_ms * interval '1 ms';
END
$$;

-- Adds a holder. Of texts that are too long the beginning is kept, so that what people and the monitor read stays
-- short.
CREATE FUNCTION pglock.lease_open(holder uuid, lease_ms bigint, application text, host text, pid integer)
RETURNS void LANGUAGE plpgsql STRICT SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM pglock.lease_durable();
    INSERT INTO pglock.holders (id, expires, role, application, host, pid)
    VALUES (lease_open.holder, pglock.lease_until(lease_open.lease_ms), session_user,
            left(lease_open.application, 63), left(lease_open.host, 255), lease_open.pid);
END
$$;

-- Renews a holder. False says that it is over, and so are all its locks. The race with a take that finds the holder
-- expired: both write the row. If the take is first, the renewal waits for it, sees ended, and changes nothing. If the
-- renewal is first, the take skips the row, or sees the new time.
CREATE FUNCTION pglock.lease_renew(holder uuid, lease_ms bigint) RETURNS boolean
LANGUAGE plpgsql STRICT SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM pglock.lease_durable();
    UPDATE pglock.holders AS h SET expires = pglock.lease_until(lease_renew.lease_ms)
    WHERE h.id = lease_renew.holder AND NOT h.ended AND h.expires > clock_timestamp();
    RETURN FOUND;
END
$$;

-- Ends a holder, and so sets all its locks free.
CREATE FUNCTION pglock.lease_end(holder uuid) RETURNS void
LANGUAGE sql STRICT SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    UPDATE pglock.holders AS h SET ended = true WHERE h.id = lease_end.holder AND NOT h.ended
$$;

-- Drops and takes locks of one holder, for many calls of its process at once. A drop is a lock (x), a share (s) or a
-- wait (w), with its generation or arrival. A want that waits stands in the queue of its key from the first call on, and
-- asks again with its arrival there. The first wants are plain: exclusive, and not in the queue. The key of an exclusive
-- want is that of no other.
--
-- The outcome is done, over (the holder is, and nothing was done) or settled (lease_settle was first). There is a
-- letter for each drop: d (it is), g (it was not held any more) or b (busy: another transaction has the row locked,
-- nothing was done). And one for each want: g (granted), h (held by others), w (only waited for by others, if it does not
-- wait) or b. The result of a want is its generation, or else its arrival. If it waits, ahead is how many are in its way, and
-- held for how many microseconds the key was held lately.
--
-- Lock first, look later: each statement here has a snapshot of its own, and what decides is read after the rows are
-- locked. In a single statement the look is as old as its beginning: it steals a lock whose holder was renewed
-- meanwhile, or whose holder is newer than the snapshot. Only a row that is locked is read as it is then, by the
-- statement that locks it. A generation is drawn when the rows are locked, so it is larger than those of the earlier
-- holders of these keys, whose drops were committed before.
--
-- A look without locks comes before that: a want that cannot win only reads, so that it delays no other, and a call of
-- such wants writes nothing. What it has missed it finds when it looks again.
--
-- The order of locks: first the own holder, which waits for pglock.lease_settle only, so that this finds all of a call
-- done or nothing. Rows of keys that are locked are passed over, so that no transaction that has one locked stalls the
-- others (a guarded transaction keeps its keys locked, see pglock.lease_guard), and no two calls wait for each other.
-- Only the insertion of new keys waits, for a moment.
-- A row that is locked keeps its place (ctid) until the transaction ends, so it is found again without the index. A
-- search that is LATERAL with a row lock in it, or a value, is done key by key with the index. As a join it could be
-- planned the other way round while the table was small, and then compare each row with each key.
CREATE FUNCTION pglock.lease_call(
    holder uuid, attempt bigint,
    drop_kinds text[], drop_spaces smallint[], drop_numbers bigint[], drop_values bigint[], plain integer,
    spaces smallint[], numbers bigint[], shared boolean[], waits boolean[], arrivals bigint[],
    OUT outcome text, OUT dropped text, OUT taken text, OUT results bigint[], OUT ahead bigint[], OUT held bigint[]
)
LANGUAGE plpgsql STRICT SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    me uuid := holder;
    writes boolean;
    places tid[];        -- of the plain wants whose rows are locked, and have no holder
    drawn bigint;        -- the generation of those of them that are granted
    n integer := cardinality(numbers);
    granted bigint;
    letters text[];      -- of each want
    one record;
    t record;
BEGIN
    lease_call.outcome := 'done';
    lease_call.results := '{}';
    lease_call.ahead := '{}';
    lease_call.held := '{}';
    -- Of a try of one plain key, which most are: held, or free, and so busy if its row cannot be locked below.
    SELECT CASE WHEN l.holder IS NOT NULL THEN CASE WHEN NOT h.ended AND h.expires > clock_timestamp() THEN 'h' END
                WHEN NOT EXISTS (SELECT FROM pglock.lease_shares) AND NOT EXISTS (SELECT FROM pglock.lease_waiters) THEN 'b' END
    INTO taken FROM pglock.leases AS l LEFT JOIN pglock.holders AS h ON h.id = l.holder
    WHERE cardinality(drop_kinds) = 0 AND plain = 1 AND n = 1 AND NOT lease_call.waits[1]
      AND l.space = spaces[1] AND l.number = numbers[1];
    IF taken = 'h' THEN -- whatever has become of the own holder
        RETURN;
    END IF;
    writes := cardinality(drop_kinds) > 0 OR coalesce(taken = 'b', false)
        OR plain > 0 AND pglock.lease_ahead(spaces[1], numbers[1], false, 0, true) = 0;
    lease_call.outcome := pglock.lease_enter(me, attempt, writes);
    IF lease_call.outcome <> 'done' THEN
        RETURN;
    END IF;
    IF cardinality(drop_kinds) > 0 THEN
        lease_call.dropped := pglock.lease_drop(me, drop_kinds, drop_spaces, drop_numbers, drop_values);
    END IF;
    IF n = 0 THEN
        PERFORM set_config('synchronous_commit', 'off', true); -- a drop that is forgotten is repeated
        RETURN;
    END IF;
    PERFORM pglock.lease_durable();

    -- The plain wants whose keys are free. What was not found may have no row yet.
    FOR pass IN 1..2 LOOP
        EXIT WHEN NOT writes OR plain = 0;
        SELECT array_agg(found.ctid) INTO places
        FROM unnest(spaces[:plain], numbers[:plain]) AS w (space, number)
        CROSS JOIN LATERAL (
            SELECT l.ctid FROM pglock.leases AS l
            WHERE l.space = w.space AND l.number = w.number AND l.holder IS NULL
            FOR NO KEY UPDATE OF l SKIP LOCKED) AS found;
        EXIT WHEN pass = 2 OR cardinality(places) = n OR NOT pglock.lease_insert(spaces, numbers);
    END LOOP;
    IF places IS NOT NULL THEN
        drawn := nextval('pglock.fence');
        UPDATE pglock.leases AS l
        SET holder = me, generation = drawn, attempt = lease_call.attempt, since = clock_timestamp()
        WHERE l.ctid = ANY (places)
          AND NOT EXISTS (SELECT FROM pglock.lease_shares AS s WHERE s.space = l.space AND s.number = l.number)
          AND NOT EXISTS (SELECT FROM pglock.lease_waiters AS q WHERE q.space = l.space AND q.number = l.number);
        GET DIAGNOSTICS granted = ROW_COUNT;
        IF granted = n THEN
            lease_call.taken := repeat('g', n);
            lease_call.results := array_fill(drawn, ARRAY[n]);
            RETURN;
        END IF;
    ELSIF taken = 'b' THEN -- most often by a call that takes it
        PERFORM set_config('synchronous_commit', 'off', true);
        RETURN;
    END IF;
    letters := ARRAY(
        SELECT CASE WHEN drawn = (SELECT l.generation FROM pglock.leases AS l
                                  WHERE l.space = w.space AND l.number = w.number AND l.holder = me) THEN 'g' END
        FROM unnest(spaces[:plain], numbers[:plain]) WITH ORDINALITY AS w (space, number, i) ORDER BY w.i);
    SELECT array_fill(drawn, ARRAY[n]), empty.list, empty.list INTO results, ahead, held
    FROM array_fill(0::bigint, ARRAY[n]) AS empty (list);
    FOR one IN
        SELECT w.* FROM unnest(spaces, numbers, shared, waits, arrivals) WITH ORDINALITY
            AS w (space, number, shared, waits, arrival, i)
        WHERE letters[w.i] IS NULL
    LOOP
        SELECT * INTO t FROM pglock.lease_take(me, attempt, one.space, one.number, one.shared, one.waits, one.arrival);
        IF t.letter IS NULL THEN
            lease_call.outcome := 'over';
            RETURN;
        END IF;
        letters[one.i] := t.letter;
        lease_call.results[one.i] := t.value;
        lease_call.ahead[one.i] := t.ahead;
        lease_call.held[one.i] := t.held;
    END LOOP;
    lease_call.taken := array_to_string(letters, '');
    PERFORM set_config('synchronous_commit', 'off', true) WHERE drawn IS NULL AND 'g' <> ALL (letters); -- and so is a place
END
$$;

-- Whether a call may go on (done), or is over or settled. One that writes locks the row of its holder until its end.
CREATE FUNCTION pglock.lease_enter(me uuid, attempt bigint, writes boolean) RETURNS text
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF writes THEN
        PERFORM FROM pglock.holders AS h WHERE h.id = me FOR KEY SHARE;
    END IF;
    RETURN coalesce((
        SELECT CASE WHEN h.ended OR h.expires <= clock_timestamp() THEN 'over'
                    WHEN lease_enter.attempt <= h.floor THEN 'settled' ELSE 'done' END
        FROM pglock.holders AS h WHERE h.id = me), 'over');
END
$$;

-- Adds rows for the keys that have none. False says that all have one. It waits but a moment for other transactions' keys.
CREATE FUNCTION pglock.lease_insert(spaces smallint[], numbers bigint[]) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET lock_timeout = '5ms' AS $$
DECLARE
    missing bigint := (
        SELECT count(*) FROM unnest(spaces, numbers) AS w (space, number)
        WHERE (SELECT true FROM pglock.leases AS l WHERE l.space = w.space AND l.number = w.number) IS NULL);
BEGIN
    IF missing > 0 THEN
        INSERT INTO pglock.leases AS l (space, number)
        SELECT DISTINCT w.space, w.number FROM unnest(spaces, numbers) AS w (space, number)
        WHERE (SELECT true FROM pglock.leases AS l WHERE l.space = w.space AND l.number = w.number) IS NULL
        ORDER BY 1, 2
        ON CONFLICT ON CONSTRAINT leases_pkey DO NOTHING;
    END IF;
    RETURN missing > 0;
EXCEPTION WHEN lock_not_available THEN
    IF cardinality(numbers) > 1 THEN -- each alone
        PERFORM pglock.lease_insert(ARRAY[w.space], ARRAY[w.number]) FROM unnest(spaces, numbers) AS w (space, number);
    END IF;
    RETURN true;
END
$$;

-- How many are in the way of a key: its holder or its readers, and live waiters that arrived earlier, but for readers
-- before a reader. Only waiters have an arrival, and all others come after them. A holder that is over is in the way of none,
-- and neither is one that has expired, which lease_expire ends, unless expired is false. At most 400 waiters are counted,
-- so that a look costs little: those behind them rest as long.
CREATE FUNCTION pglock.lease_ahead(space smallint, number bigint, shared boolean, arrival bigint, expired boolean)
RETURNS bigint LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN (
        SELECT count(*) FROM pglock.leases AS l LEFT JOIN pglock.holders AS h ON h.id = l.holder
        WHERE l.space = lease_ahead.space AND l.number = lease_ahead.number AND l.holder IS NOT NULL
          AND (h.ended OR lease_ahead.expired AND h.expires <= clock_timestamp()) IS NOT TRUE
    ) + (
        SELECT count(*) FROM (
            SELECT FROM pglock.lease_shares AS s LEFT JOIN pglock.holders AS h ON h.id = s.holder
            WHERE NOT lease_ahead.shared AND s.space = lease_ahead.space AND s.number = lease_ahead.number
              AND (lease_ahead.expired AND (h.ended OR h.expires <= clock_timestamp())) IS NOT TRUE
            LIMIT 1) AS readers
    ) + (
        SELECT count(*) FROM (
            SELECT FROM pglock.lease_waiters AS q JOIN pglock.holders AS h ON h.id = q.holder
            WHERE q.space = lease_ahead.space AND q.number = lease_ahead.number
              AND (lease_ahead.arrival = 0 OR q.arrival < lease_ahead.arrival) AND NOT (q.shared AND lease_ahead.shared)
              AND NOT h.ended AND h.expires > clock_timestamp()
            LIMIT 400) AS earlier
    );
END
$$;

-- Takes a key, see lease_call. No letter says that the holder is over.
CREATE FUNCTION pglock.lease_take(
    me uuid, attempt bigint, space smallint, number bigint, shared boolean, waits boolean, arrival bigint,
    OUT letter text, OUT value bigint, OUT ahead bigint, OUT held bigint
)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
BEGIN
    SELECT 'h', arrival, pglock.lease_ahead(space, number, shared, arrival, true) INTO letter, value, ahead;
    held := coalesce((SELECT l.held FROM pglock.leases AS l WHERE waits AND l.space = lease_take.space AND l.number = lease_take.number), 0);
    IF ahead > 0 AND (NOT waits OR EXISTS (
        SELECT FROM pglock.lease_waiters AS q
        WHERE q.space = lease_take.space AND q.number = lease_take.number AND q.arrival = lease_take.arrival AND q.holder = me)
    ) THEN
        IF NOT waits AND EXISTS (
            SELECT FROM pglock.leases AS l
            WHERE l.space = lease_take.space AND l.number = lease_take.number AND l.holder IS NULL
              AND NOT EXISTS (SELECT FROM pglock.lease_shares AS s WHERE s.space = l.space AND s.number = l.number)
        ) THEN
            letter := 'w';
        END IF;
        RETURN; -- it has only read
    ELSIF pglock.lease_enter(me, attempt, true) <> 'done' THEN
        letter := NULL;
        RETURN;
    END IF;
    IF ahead = 0 THEN
        PERFORM pglock.lease_insert(ARRAY[space], ARRAY[number]);
        PERFORM FROM pglock.leases AS l LEFT JOIN pglock.holders AS h ON h.id = l.holder
        WHERE l.space = lease_take.space AND l.number = lease_take.number -- its holder may be about to drop one that is held
          AND (l.holder IS NULL OR h.ended OR h.expires <= clock_timestamp()) FOR NO KEY UPDATE OF l SKIP LOCKED;
        IF NOT FOUND THEN
            ahead := pglock.lease_ahead(space, number, shared, arrival, true);
            letter := CASE ahead WHEN 0 THEN 'b' ELSE 'h' END;
        ELSIF pglock.lease_ahead(space, number, shared, arrival, false) > 0 THEN
            PERFORM pglock.lease_expire(me, space, number);
            ahead := pglock.lease_ahead(space, number, shared, arrival, false);
        END IF;
    END IF;
    IF letter = 'h' AND ahead = 0 THEN
        SELECT 'g', nextval('pglock.fence') INTO letter, value;
        DELETE FROM pglock.lease_waiters AS q
        WHERE q.space = lease_take.space AND q.number = lease_take.number AND q.arrival = lease_take.arrival AND q.holder = me;
        IF shared THEN
            INSERT INTO pglock.lease_shares (space, number, generation, holder, attempt) VALUES (space, number, value, me, attempt);
        ELSE
            UPDATE pglock.leases AS l SET holder = me, generation = value, attempt = lease_take.attempt, since = clock_timestamp()
            WHERE l.space = lease_take.space AND l.number = lease_take.number;
        END IF;
    ELSIF waits THEN
        value := CASE arrival WHEN 0 THEN nextval('pglock.fence') ELSE arrival END;
        INSERT INTO pglock.lease_waiters (space, number, arrival, holder, attempt, shared)
        VALUES (space, number, value, me, attempt, shared)
        ON CONFLICT ON CONSTRAINT lease_waiters_pkey DO NOTHING; -- a busy key, whose queue it stands in
    END IF;
END
$$;

-- Ends the holders of a key that have expired, and drops the shares of those that are over, but for guarded ones.
CREATE FUNCTION pglock.lease_expire(me uuid, space smallint, number bigint) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    UPDATE pglock.holders AS expired SET ended = true
    WHERE NOT expired.ended AND expired.expires <= clock_timestamp() AND expired.ctid = ANY (ARRAY(
        SELECT h.ctid FROM pglock.holders AS h
        WHERE NOT h.ended AND h.expires <= clock_timestamp() AND h.id <> me AND h.id IN (
            SELECT l.holder FROM pglock.leases AS l WHERE l.space = lease_expire.space AND l.number = lease_expire.number
            UNION ALL
            SELECT s.holder FROM pglock.lease_shares AS s WHERE s.space = lease_expire.space AND s.number = lease_expire.number)
        ORDER BY h.id FOR NO KEY UPDATE SKIP LOCKED));
    DELETE FROM pglock.lease_shares AS freed WHERE freed.ctid = ANY (ARRAY(
        SELECT s.ctid FROM pglock.lease_shares AS s JOIN pglock.holders AS h ON h.id = s.holder AND h.ended
        WHERE s.space = lease_expire.space AND s.number = lease_expire.number FOR UPDATE OF s SKIP LOCKED));
END
$$;

-- Drops locks, shares and waits, see lease_call.
CREATE FUNCTION pglock.lease_drop(me uuid, kinds text[], spaces smallint[], numbers bigint[], drop_values bigint[])
RETURNS text LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    places tid[];
    letters text[]; -- of each drop
    one record;
BEGIN
    SELECT array_agg(found.ctid), array_agg(CASE WHEN found.ctid IS NOT NULL THEN 'd' END ORDER BY d.i) INTO places, letters
    FROM unnest(kinds, spaces, numbers, drop_values) WITH ORDINALITY AS d (kind, space, number, value, i)
    LEFT JOIN LATERAL (
        SELECT l.ctid FROM pglock.leases AS l
        WHERE d.kind = 'x' AND l.space = d.space AND l.number = d.number AND l.holder = me AND l.generation = d.value
        FOR NO KEY UPDATE SKIP LOCKED) AS found ON true;
    UPDATE pglock.leases AS l
    SET holder = NULL, attempt = NULL, since = clock_timestamp(),
        held = (3 * l.held + date_part('epoch', clock_timestamp() - l.since) * 1000000) / 4
    WHERE l.ctid = ANY (places);
    IF array_position(letters, NULL) IS NULL THEN -- all are exclusive locks, as mostly
        RETURN array_to_string(letters, '');
    END IF;
    FOR one IN
        SELECT d.kind, d.space, d.number, d.value, d.i
        FROM unnest(kinds, spaces, numbers, drop_values) WITH ORDINALITY AS d (kind, space, number, value, i)
        WHERE letters[d.i] IS NULL
    LOOP
        DELETE FROM pglock.lease_waiters AS q
        WHERE one.kind = 'w' AND q.space = one.space AND q.number = one.number AND q.arrival = one.value AND q.holder = me;
        DELETE FROM pglock.lease_shares AS dropped WHERE dropped.ctid = ANY (ARRAY(
            SELECT s.ctid FROM pglock.lease_shares AS s
            WHERE one.kind = 's' AND s.space = one.space AND s.number = one.number AND s.generation = one.value AND s.holder = me
            FOR UPDATE SKIP LOCKED));
        letters[one.i] := CASE
            WHEN FOUND OR one.kind = 'w' THEN 'd'
            WHEN EXISTS (SELECT FROM pglock.leases AS l WHERE one.kind = 'x' AND l.space = one.space
                    AND l.number = one.number AND l.holder = me AND l.generation = one.value)
                OR EXISTS (SELECT FROM pglock.lease_shares AS s WHERE one.kind = 's' AND s.space = one.space
                    AND s.number = one.number AND s.holder = me AND s.generation = one.value) THEN 'b'
            ELSE 'g' END;
    END LOOP;
    RETURN array_to_string(letters, '');
END
$$;

-- Makes sure that a call whose answer was lost has left nothing: what it took is free again, and if it arrives later it
-- is refused. A call locks its holder's row first and until its end, so this waits for one that is running.
CREATE FUNCTION pglock.lease_settle(holder uuid, attempt bigint, spaces smallint[], numbers bigint[])
RETURNS void LANGUAGE plpgsql STRICT SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
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

-- Whether a holder holds a key with that generation. It only reads.
CREATE FUNCTION pglock.lease_holds(holder uuid, generation bigint, shared boolean, space smallint, number bigint)
RETURNS boolean LANGUAGE sql STABLE STRICT SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT EXISTS (
        SELECT FROM pglock.holders AS h
        WHERE h.id = lease_holds.holder AND NOT h.ended AND h.expires > clock_timestamp()
    ) AND (EXISTS (
        SELECT FROM pglock.leases AS l
        WHERE NOT lease_holds.shared AND l.space = lease_holds.space AND l.number = lease_holds.number
          AND l.holder = lease_holds.holder AND l.generation = lease_holds.generation
    ) OR EXISTS (
        SELECT FROM pglock.lease_shares AS s
        WHERE lease_holds.shared AND s.space = lease_holds.space AND s.number = lease_holds.number
          AND s.holder = lease_holds.holder AND s.generation = lease_holds.generation))
$$;

-- Draws one more fencing token for a lock. 0 says that it is not held. The holder's row stays locked until the commit,
-- so that it cannot be found to have expired before: the next holder draws a larger number. The lock on the row makes
-- the commit write to the log, and wait (see pglock.fence_rows).
CREATE FUNCTION pglock.lease_fence(holder uuid, generation bigint, shared boolean, space smallint, number bigint)
RETURNS bigint LANGUAGE plpgsql STRICT SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM pglock.lease_durable();
    PERFORM FROM pglock.holders AS h WHERE h.id = lease_fence.holder FOR SHARE;
    IF NOT pglock.lease_holds(holder, generation, shared, space, number) THEN
        RETURN 0;
    END IF;
    RETURN nextval('pglock.fence');
END
$$;

-- Ties the caller's transaction to a lock: its row stays locked until the transaction ends, and a row that is locked is
-- not taken by any other holder. If there is no row of the holder and generation, a READ COMMITTED transaction fails. A
-- transaction with an older snapshot is told so, since the row may be newer than that.
CREATE FUNCTION pglock.lease_guard(holder uuid, generation bigint, shared boolean, space smallint, number bigint)
RETURNS text LANGUAGE plpgsql STRICT SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF current_setting('transaction_read_only')::boolean THEN
        RETURN 'read only';
    END IF;
    IF lease_guard.shared THEN
        PERFORM FROM pglock.lease_shares AS s
        WHERE s.space = lease_guard.space AND s.number = lease_guard.number
          AND s.holder = lease_guard.holder AND s.generation = lease_guard.generation FOR SHARE;
    ELSE
        PERFORM FROM pglock.leases AS l
        WHERE l.space = lease_guard.space AND l.number = lease_guard.number
          AND l.holder = lease_guard.holder AND l.generation = lease_guard.generation FOR SHARE;
    END IF;
    IF FOUND AND NOT EXISTS (SELECT FROM pglock.holders AS h WHERE h.id = lease_guard.holder AND h.ended) THEN
        RETURN 'guarded';
    ELSIF current_setting('transaction_isolation') IN ('read committed', 'read uncommitted') THEN
        RAISE object_not_in_prerequisite_state USING MESSAGE = 'pglock_lost: the lock is not held by this holder any more';
    END IF;
    RETURN 'stale';
END
$$;

-- Who holds a key now, or else who is the first in its queue (waits). A holder's id is not shown.
CREATE FUNCTION pglock.lease_holders(holder uuid, space smallint, number bigint)
RETURNS TABLE (
    self boolean, shared boolean, role text, application text, host text, pid integer,
    process_us bigint, since_us bigint, waits boolean
)
LANGUAGE sql STABLE STRICT SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT held.holder = lease_holders.holder, held.shared, coalesce(h.role, ''), coalesce(h.application, ''),
        coalesce(h.host, ''), coalesce(h.pid, 0), coalesce((extract(epoch FROM h.since) * 1000000)::bigint, 0),
        (extract(epoch FROM held.since) * 1000000)::bigint, held.waits
    FROM (
        SELECT l.holder, false AS shared, l.since, l.generation, false AS waits FROM pglock.leases AS l
        WHERE l.space = lease_holders.space AND l.number = lease_holders.number AND l.holder IS NOT NULL
        UNION ALL
        SELECT s.holder, true, s.since, s.generation, false FROM pglock.lease_shares AS s
        WHERE s.space = lease_holders.space AND s.number = lease_holders.number
        UNION ALL
        (SELECT q.holder, q.shared, q.since, q.arrival, true
         FROM pglock.lease_waiters AS q JOIN pglock.holders AS h ON h.id = q.holder
         WHERE q.space = lease_holders.space AND q.number = lease_holders.number AND NOT h.ended AND h.expires > clock_timestamp()
         ORDER BY q.arrival LIMIT 1)
    ) AS held
    LEFT JOIN pglock.holders AS h ON h.id = held.holder
    WHERE h.id IS NULL OR NOT h.ended AND h.expires > clock_timestamp()
    ORDER BY held.waits, held.generation
$$;

-- Lists what a holder has, so that its process can drop what it does not know: after a failover the server may have
-- forgotten a drop. It reads all leases: an index on their holders would cost every take and drop more than this does
-- now and then.
CREATE FUNCTION pglock.lease_rows(holder uuid)
RETURNS TABLE (kind text, space smallint, number bigint, value bigint, attempt bigint)
LANGUAGE sql STABLE STRICT SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT 'x', l.space, l.number, l.generation, l.attempt FROM pglock.leases AS l WHERE l.holder = lease_rows.holder
    UNION ALL
    SELECT 's', s.space, s.number, s.generation, s.attempt FROM pglock.lease_shares AS s WHERE s.holder = lease_rows.holder
    UNION ALL
    SELECT 'w', q.space, q.number, q.arrival, q.attempt FROM pglock.lease_waiters AS q WHERE q.holder = lease_rows.holder
$$;

-- Publishes which calls of a holder have waited for long, in place of the last ones, and returns what all processes have
-- published, and who holds the locks in it, in the form of queries/waits.sql. A process is known by a hash of its id, which is
-- not shown.
CREATE FUNCTION pglock.lease_waits(holder uuid, waits text) RETURNS text
LANGUAGE plpgsql STRICT SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    UPDATE pglock.holders AS h SET waits = left(lease_waits.waits, 4000) WHERE h.id = lease_waits.holder AND h.waits <> lease_waits.waits;
    RETURN (
        WITH live AS MATERIALIZED (
            SELECT h.id, encode(substr(sha256(uuid_send(h.id)), 1, 8), 'hex') AS process, h.application, h.waits AS text,
                (SELECT r.oid::text FROM pg_roles AS r WHERE r.rolname = h.role) AS role
            FROM pglock.holders AS h WHERE NOT h.ended AND h.expires > clock_timestamp()
        ), words AS MATERIALIZED (
            SELECT DISTINCT m.word[1]::smallint - 10 AS space, ('x' || m.word[2])::bit(64)::bigint AS number
            FROM live AS l CROSS JOIN LATERAL regexp_matches(l.text, '[-+=](1[12]):([0-9a-f]{16})', 'g') AS m (word)
        ), held AS (
            SELECT w.space, w.number, l.holder, false AS shared FROM words AS w JOIN pglock.leases AS l ON l.space = w.space AND l.number = w.number
            UNION
            SELECT w.space, w.number, s.holder, NOT EXISTS (SELECT FROM pglock.lease_waiters AS q
                WHERE q.space = w.space AND q.number = w.number AND NOT q.shared) FROM words AS w
            JOIN pglock.lease_shares AS s ON s.space = w.space AND s.number = w.number
        )
        SELECT json_build_object('room', 4000, 'self', (SELECT l.process FROM live AS l WHERE l.id = lease_waits.holder),
            'texts', (SELECT json_agg(t) FROM (
                SELECT l.process, l.role, l.application, l.text, true AS seesall FROM live AS l WHERE l.text <> '') AS t),
            'holders', (SELECT json_agg(h) FROM (
                SELECT d.space + 10 AS space, d.number, l.process AS owner, l.role, d.shared
                FROM held AS d JOIN live AS l ON l.id = d.holder) AS h)));
END
$$;

-- Forgets at most so many holders that ended, and keys that were not in use, for so many milliseconds. The locks of a
-- holder are free before its row goes. A key that is locked, or whose row was locked since the look, stays.
CREATE FUNCTION pglock.lease_prune(keep_ms bigint, most integer) RETURNS bigint
LANGUAGE plpgsql STRICT SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    before timestamptz := clock_timestamp() - greatest(lease_prune.keep_ms, 0) * interval '1 ms';
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
        UPDATE pglock.leases AS freed SET holder = NULL, attempt = NULL, since = clock_timestamp()
        WHERE freed.ctid = ANY (ARRAY(
            SELECT l.ctid FROM pglock.leases AS l WHERE l.holder = ANY (gone) FOR NO KEY UPDATE SKIP LOCKED));
        DELETE FROM pglock.lease_shares AS freed WHERE freed.ctid = ANY (ARRAY(
            SELECT s.ctid FROM pglock.lease_shares AS s WHERE s.holder = ANY (gone) FOR UPDATE SKIP LOCKED));
        DELETE FROM pglock.holders AS h
        WHERE h.id = ANY (gone)
          AND NOT EXISTS (SELECT FROM pglock.leases AS l WHERE l.holder = h.id)
          AND NOT EXISTS (SELECT FROM pglock.lease_shares AS s WHERE s.holder = h.id);
        GET DIAGNOSTICS pruned = ROW_COUNT;
    END IF;
    DELETE FROM pglock.leases AS idle WHERE idle.ctid = ANY (ARRAY(
        SELECT l.ctid FROM pglock.leases AS l
        WHERE l.holder IS NULL AND l.since < before LIMIT lease_prune.most FOR UPDATE SKIP LOCKED));
    GET DIAGNOSTICS n = ROW_COUNT;
    RETURN pruned + n;
END
$$;

-- Ends a process that pglock.row_locks shows. False says that none lives. It is told at its next renewal, and its locks
-- are free at once, except those of guarded transactions that are open.
CREATE FUNCTION pglock.lease_terminate(holder text) RETURNS boolean
LANGUAGE plpgsql STRICT SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    UPDATE pglock.holders AS h SET ended = true
    WHERE left(encode(sha256(uuid_send(h.id)), 'hex'), 16) = lease_terminate.holder AND NOT h.ended;
    RETURN FOUND;
END
$$;

-- These functions use the indexes, and are not compiled, whatever is set for the database or a role.
DO LANGUAGE plpgsql $$
DECLARE
    f record;
BEGIN
    FOR f IN
        SELECT p.oid::regprocedure AS signature FROM pg_catalog.pg_proc AS p
        WHERE p.pronamespace = 'pglock'::regnamespace AND p.prosecdef AND p.proname ~ '^(lease_|rate_|tick|once_prune)'
    LOOP
        EXECUTE format('ALTER FUNCTION %s SET plan_cache_mode = force_generic_plan SET jit = off '
            'SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off '
            'SET enable_nestloop = on SET enable_indexscan = on', f.signature);
    END LOOP;
END
$$;

-- What people and the monitor read.

-- A key as people write it: the name where it is registered (@@x for the name @x), else @BIGINT or @CLASS/OBJECT, or
-- @CLASS/OBJECT#SPACE for locks that extensions take through PostgreSQL's C interface.
CREATE FUNCTION pglock.written(name text, space integer, number bigint) RETURNS text
LANGUAGE sql STABLE RETURN CASE
    WHEN name ~~ '@%' THEN concat('@', name)
    WHEN name <> '' THEN name
    WHEN space = 1 THEN concat('@', number)
    ELSE concat('@', number >> 32, '/', number << 32 >> 32, CASE WHEN space <> 2 THEN concat('#', space) END)
END;

-- The advisory locks of this database, one row per holder or waiter, as pg_locks has them
-- (https://www.postgresql.org/docs/current/view-pg-locks.html). objsubid tells the key's space: 1 is a bigint, whose
-- upper half is classid and lower half objid, 2 is two integers. Both halves are shown unsigned there.
--
-- A lock without a pid belongs to a prepared transaction, which is found through the lock on its own transaction ID,
-- with the same virtual transaction. waitstart is NULL for an instant after a wait has begun. pg_locks is read once,
-- since two readings are of two moments.
CREATE VIEW pglock.locks AS
WITH lock AS MATERIALIZED (
    SELECT l.locktype, l.virtualtransaction, l.transactionid, l.pid, l.mode, l.granted,
           l.objsubid AS space,
           (l.classid::bigint << 32) | l.objid::bigint AS number,
           CASE WHEN l.objsubid <> 1 THEN l.classid::integer END AS class,
           CASE WHEN l.objsubid <> 1 THEN l.objid::integer END AS object,
           l.waitstart AS waiting_since
    FROM pg_catalog.pg_locks AS l
    WHERE (l.locktype = 'advisory' AND l.database = (
               SELECT d.oid FROM pg_catalog.pg_database AS d WHERE d.datname = current_database()))
       OR (l.locktype = 'transactionid' AND l.pid IS NULL)
)
SELECT pglock.written(name.name, lock.space, lock.number) AS key,
       name.name,
       lock.space, -- objsubid in pg_locks
       lock.number, -- the bigint, or two integers packed as class << 32 | object
       lock.class, lock.object,
       CASE WHEN lock.mode = 'ShareLock' THEN 'shared' ELSE 'exclusive' END AS mode,
       lock.granted,
       lock.pid, -- NULL for a prepared transaction
       prepared.gid AS prepared,
       coalesce(session.usename, prepared.owner) AS usename,
       session.application_name, session.client_addr, session.state,
       session.backend_start AS session_since,
       lock.waiting_since
FROM lock
LEFT JOIN LATERAL (
    SELECT n.name FROM pglock.names AS n WHERE n.key = lock.number AND lock.space = 1
    ORDER BY n.first_seen, n.name LIMIT 1
) AS name ON true
LEFT JOIN pg_catalog.pg_stat_activity AS session ON session.pid = lock.pid
LEFT JOIN (
    lock AS own JOIN pg_catalog.pg_prepared_xacts AS prepared
        ON own.locktype = 'transactionid' AND prepared.transaction = own.transactionid
) ON lock.pid IS NULL AND own.virtualtransaction = lock.virtualtransaction
WHERE lock.locktype = 'advisory';
COMMENT ON VIEW pglock.locks IS
    'The advisory locks of this database: who holds them and who waits. What PostgreSQL hides from the current role '
    '(client_addr, state, session_since) is NULL, and shown to members of pg_read_all_stats';

-- Waiters and their blockers. A self-join of pg_locks does not tell, since a waiter also stands behind earlier waiters,
-- so this asks pg_blocking_pids, and for waiters alone, since it stops the lock manager for a moment. A hard blocker
-- holds the lock in a mode that conflicts, a soft one only waits ahead, and NULL came or went meanwhile.
--
-- A queue of n waiters has about n * n / 2 pairs. So nothing here compares each pair with each lock: = ANY (SELECT ...)
-- in place of a join lets the server look the pair up in a hash table, however few rows it expects.
CREATE VIEW pglock.waits AS
WITH lock AS MATERIALIZED (
    SELECT l.key, l.name, l.space, l.number, l.class, l.object, l.mode, l.granted, coalesce(l.pid, 0) AS pid, l.prepared,
           l.usename, l.application_name, l.waiting_since
    FROM pglock.locks AS l
)
SELECT pair.key, pair.name, pair.space, pair.number, pair.class, pair.object, pair.mode,
       pair.pid AS waiter_pid, pair.usename AS waiter_usename, pair.application_name AS waiter_application_name,
       pair.waiting_since,
       pair.blocker AS blocker_pid, -- 0 for a prepared transaction
       holder.prepared AS blocker_prepared,
       session.usename AS blocker_usename, session.application_name AS blocker_application_name,
       session.client_addr AS blocker_client_addr, session.state AS blocker_state,
       CASE
           WHEN (pair.space, pair.number, pair.blocker, pair.mode) = ANY (
               SELECT held.space, held.number, held.pid, wanted.mode
               FROM lock AS held CROSS JOIN (VALUES ('exclusive'), ('shared')) AS wanted (mode)
               WHERE held.granted AND (held.mode = 'exclusive' OR wanted.mode = 'exclusive')
           ) THEN 'hard'
           WHEN (pair.space, pair.number, pair.blocker) = ANY (
               SELECT queued.space, queued.number, queued.pid FROM lock AS queued WHERE NOT queued.granted
           ) THEN 'soft'
       END AS block
FROM (
    SELECT waiter.*, blocking.pid AS blocker
    FROM lock AS waiter
    CROSS JOIN LATERAL (
        SELECT DISTINCT given.pid FROM unnest(pg_blocking_pids(waiter.pid)) AS given (pid)
    ) AS blocking
    WHERE NOT waiter.granted
) AS pair
LEFT JOIN LATERAL (
    SELECT DISTINCT held.prepared FROM lock AS held
    WHERE pair.blocker = 0 AND held.pid = 0 AND held.granted AND held.space = pair.space AND held.number = pair.number
      AND (held.mode = 'exclusive' OR pair.mode = 'exclusive')
) AS holder ON true
LEFT JOIN pg_catalog.pg_stat_activity AS session ON session.pid = pair.blocker;
COMMENT ON VIEW pglock.waits IS
    'Who waits for whom on the advisory locks of this database, a row for every blocker of a waiter. '
    'Reading it stops the lock manager for a moment per waiter: set a statement_timeout before reading it often';

-- The roots of the waits of the server, for locks of all types: they wait for nothing. A waiter that stands ahead of
-- another in the same mode, and holds nothing there, is left out: its blockers are also those of the other. The worker
-- of a parallel query counts as its leader, which is what pg_blocking_pids names. A prepared transaction has no
-- process, and a virtual transaction for ever. lock is the one for which most sessions wait directly, behind counts all
-- waiters, direct or through others. Members of a deadlock have the kind cycle. Who waits for a permit of a semaphore is left
-- out. A root whose waiters are all candidates of an election, or wait for the run of a job, has the kind expected: the waiter's own
-- process holds the key that says so (package lockkeys).
--
-- It is a function so that the server does not compile it (jit), which would take ten times as long as running it.
CREATE FUNCTION pglock.find_blockers() RETURNS TABLE (
    kind text, pid integer, prepared text, usename name, application_name text,
    client_addr inet, state text, state_since timestamptz, lock_type text,
    lock text, mode text, behind bigint, waiting_since timestamptz, query text
)
LANGUAGE sql
SET search_path = pg_catalog, pg_temp
SET jit = off
AS $$
    WITH RECURSIVE lock AS MATERIALIZED (
        SELECT l.locktype, l.database, l.relation, l.transactionid, l.classid, l.objid, l.objsubid, l.mode, l.granted, l.pid,
               coalesce(coalesce(activity.leader_pid, l.pid)::text, l.virtualtransaction) COLLATE "C" AS owner,
               concat_ws('/', l.locktype, l.database, l.relation, l.page, l.tuple, l.virtualxid, l.transactionid, l.classid,
                         l.objid, l.objsubid) COLLATE "C" AS target,
               l.waitstart AS waiting_since, activity.usesysid || substring(activity.application_name, '\(pglock [0-9a-f]{8}\)$')
                   || coalesce(activity.client_addr::text, '') AS process, -- NULL if it is no session of pglock
               (((l.classid::bigint & 65535) << 32) | l.objid::bigint) # (l.classid::bigint >> 16)
                   # CASE l.objsubid WHEN 2 THEN (1::bigint << 48) - 1 ELSE 0 END AS mark
        FROM pg_locks AS l
        LEFT JOIN pg_stat_activity AS activity ON activity.pid = l.pid
    ),
    said AS MATERIALIZED (
        SELECT l.process, ((l.classid::bigint & 65535) << 32) | l.objid::bigint AS mark
        FROM lock AS l
        WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 2 AND l.classid::bigint >> 16 IN (x'706c'::int, x'7074'::int)
    ),
    pair AS MATERIALIZED (
        SELECT waiter.owner AS waiter, waiter.target, blocking.pid::text COLLATE "C" AS blocker,
               waiter.locktype = 'advisory' AND EXISTS (
                   SELECT FROM said WHERE said.mark = waiter.mark AND said.process = waiter.process) AS expected
        FROM lock AS waiter
        CROSS JOIN LATERAL (
            SELECT DISTINCT given.pid FROM unnest(pg_blocking_pids(waiter.pid)) AS given (pid)
        ) AS blocking
        WHERE NOT waiter.granted
          AND NOT (waiter.locktype = 'advisory' AND waiter.objsubid = 2 AND waiter.classid::bigint >> 16 = x'7073'::int)
          AND CASE
                  WHEN (waiter.target, blocking.pid::text) = ANY (
                      SELECT held.target, held.owner FROM lock AS held WHERE held.granted
                  ) THEN true
                  ELSE NOT (waiter.target, waiter.mode, blocking.pid::text) = ANY (
                      SELECT queued.target, queued.mode, queued.owner FROM lock AS queued WHERE NOT queued.granted
                  )
              END
    ),
    edge AS MATERIALIZED (
        SELECT pair.waiter, pair.target, pair.blocker, pair.expected FROM pair
        WHERE pair.blocker <> '0' AND pair.blocker <> pair.waiter
        UNION
        SELECT pair.waiter, pair.target, held.owner, pair.expected
        FROM pair JOIN lock AS held ON held.target = pair.target AND held.granted AND held.pid IS NULL
        WHERE pair.blocker = '0'
    ),
    behind (root, waiter) AS (
        SELECT edge.blocker, edge.waiter FROM edge
        WHERE NOT edge.blocker = ANY (SELECT other.waiter FROM edge AS other)
        UNION
        SELECT behind.root, edge.waiter FROM behind JOIN edge ON edge.blocker = behind.waiter
    ),
    stuck AS MATERIALIZED (
        SELECT edge.blocker, edge.waiter FROM edge WHERE NOT edge.waiter = ANY (SELECT behind.waiter FROM behind)
    ),
    reach (root, waiter) AS (
        SELECT stuck.blocker, stuck.waiter FROM stuck
        UNION
        SELECT reach.root, stuck.waiter FROM reach JOIN stuck ON stuck.blocker = reach.waiter
    ),
    root AS MATERIALIZED (
        SELECT tree.root, min(tree.kind) AS kind, count(DISTINCT tree.waiter) AS behind, min(waiting.waiting_since) AS waiting_since
        FROM (
            SELECT behind.root, behind.waiter, CASE WHEN EXISTS (
                SELECT FROM edge WHERE edge.blocker = behind.root AND NOT edge.expected) THEN 'root' ELSE 'expected' END AS kind
            FROM behind
            UNION ALL
            SELECT reach.root, reach.waiter, 'cycle' FROM reach
            WHERE reach.waiter <> reach.root AND (reach.root, reach.root) = ANY (SELECT r.root, r.waiter FROM reach AS r)
        ) AS tree
        LEFT JOIN lock AS waiting ON waiting.owner = tree.waiter AND NOT waiting.granted
        GROUP BY tree.root
    ),
    contended AS MATERIALIZED (
        SELECT DISTINCT ON (edge.blocker) edge.blocker, edge.target
        FROM edge JOIN root ON root.root = edge.blocker
        GROUP BY edge.blocker, edge.target
        ORDER BY edge.blocker, count(*) DESC, edge.target
    )
    SELECT root.kind, session.pid, prepared.gid AS prepared, coalesce(session.usename, prepared.owner) AS usename,
           session.application_name, session.client_addr, session.state,
           coalesce(session.state_change, prepared.prepared) AS state_since,
           held.locktype AS lock_type,
           CASE
               WHEN held.locktype = 'advisory'
                   THEN pglock.written(known.name, held.objsubid, (held.classid::bigint << 32) | held.objid::bigint)
               WHEN held.locktype = 'transactionid' THEN held.transactionid::text
               WHEN class.relname IS NOT NULL THEN format('%I.%I', namespace.nspname, class.relname)
               ELSE contended.target
           END AS lock,
           held.mode,
           root.behind,
           root.waiting_since,
           session.query
    FROM root
    JOIN contended ON contended.blocker = root.root
    LEFT JOIN LATERAL (
        SELECT lock.locktype, lock.database, lock.relation, lock.transactionid, lock.classid, lock.objid, lock.objsubid,
               lock.mode
        FROM lock
        WHERE lock.owner = root.root AND lock.target = contended.target AND lock.granted
        ORDER BY array_position(
            ARRAY['AccessShareLock', 'RowShareLock', 'RowExclusiveLock', 'ShareUpdateExclusiveLock', 'ShareLock',
                  'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock'], lock.mode) DESC
        LIMIT 1
    ) AS held ON true
    LEFT JOIN pg_database AS connected ON connected.datname = current_database()
    LEFT JOIN LATERAL (
        SELECT n.name FROM pglock.names AS n
        WHERE held.locktype = 'advisory' AND held.objsubid = 1 AND held.database = connected.oid
          AND n.key = ((held.classid::bigint << 32) | held.objid::bigint)
        ORDER BY n.first_seen, n.name LIMIT 1
    ) AS known ON true
    LEFT JOIN pg_class AS class ON class.oid = held.relation AND held.database = ANY (ARRAY[connected.oid, 0::oid])
    LEFT JOIN pg_namespace AS namespace ON namespace.oid = class.relnamespace
    LEFT JOIN pg_stat_activity AS session ON session.pid::text = root.root
    LEFT JOIN LATERAL (
        SELECT x.gid, x.owner, x.prepared
        FROM lock AS own JOIN pg_prepared_xacts AS x ON x.transaction = own.transactionid
        WHERE own.owner = root.root AND own.pid IS NULL AND own.locktype = 'transactionid'
        LIMIT 1
    ) AS prepared ON true
$$;
CREATE VIEW pglock.blockers AS
SELECT root.* FROM pglock.find_blockers() AS root;
COMMENT ON VIEW pglock.blockers IS
    'Who is at the root of the waits of this server, for locks of all types: the sessions and prepared transactions that '
    'others wait for and that wait for nothing, and the members of deadlocks. Reading it stops the lock manager for a moment per '
    'waiter: set a statement_timeout before reading it often';

-- Holders and waiters of locks in rows. The id of a holder is a secret, so there is a digest of it instead, for
-- pglock.lease_terminate. What a lease that has run out has is shown until another holder wants it, with a negative
-- lease_left: it is not renewed any more. Where a process runs is shown to those to whom PostgreSQL shows the address
-- of its sessions. The generation of a wait is its place.
--
-- Names and places are sub-selects, and nothing is volatile, so that of many rows only those that are asked for cost time.
CREATE VIEW pglock.row_locks AS
SELECT pglock.written(lock.name, lock.space, lock.number) AS key,
       lock.name, lock.space, lock.number,
       CASE WHEN lock.space = 2 THEN (lock.number >> 32)::integer END AS class,
       CASE WHEN lock.space = 2 THEN (lock.number << 32 >> 32)::integer END AS object,
       CASE WHEN lock.shared THEN 'shared' ELSE 'exclusive' END AS mode,
       lock.granted,
       lock.place AS generation,
       lock.since,
       left(encode(sha256(uuid_send(lock.holder)), 'hex'), 16) AS holder,
       lock.role, lock.application,
       CASE WHEN lock.visible THEN lock.host END AS host,
       CASE WHEN lock.visible THEN lock.pid END AS pid,
       lock.process_since, lock.expires, lock.expires - statement_timestamp() AS lease_left
FROM (
    SELECT l.*, process.role, process.application, process.host, process.pid, process.since AS process_since, process.expires,
           (SELECT n.name FROM pglock.names AS n WHERE n.key = l.number AND l.space = 1
            ORDER BY n.first_seen, n.name LIMIT 1) AS name,
           pg_has_role('pg_read_all_stats', 'USAGE') OR EXISTS (
               SELECT FROM pg_catalog.pg_roles AS r WHERE r.rolname::text = process.role AND pg_has_role(r.oid, 'USAGE')
           ) AS visible
    FROM (
        SELECT l.space, l.number, l.holder, false AS shared, true AS granted, l.generation AS place, l.since
        FROM pglock.leases AS l WHERE l.holder IS NOT NULL
        UNION ALL
        SELECT s.space, s.number, s.holder, true, true, s.generation, s.since FROM pglock.lease_shares AS s
        UNION ALL
        SELECT q.space, q.number, q.holder, q.shared, false, q.arrival, q.since FROM pglock.lease_waiters AS q
    ) AS l
    LEFT JOIN pglock.holders AS process ON process.id = l.holder
    WHERE process.ended IS NOT TRUE
) AS lock;
COMMENT ON VIEW pglock.row_locks IS
    'The locks in rows: who holds them, and who waits. A lease is of a process, and so of all that it holds';

-- Takes away what ALTER DEFAULT PRIVILEGES gave to roles, and PostgreSQL to PUBLIC.

DO LANGUAGE plpgsql $$
DECLARE
    given record;
BEGIN
    FOR given IN
        SELECT DISTINCT o.name, CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(a.grantee)) END AS grantee
        FROM (
            SELECT 'SCHEMA pglock' AS name, n.nspowner AS owner, n.nspacl AS acl
            FROM pg_namespace AS n WHERE n.nspname = 'pglock'
            UNION ALL
            SELECT concat(CASE c.relkind WHEN 'S' THEN 'SEQUENCE ' ELSE 'TABLE ' END, c.oid::regclass), c.relowner, c.relacl
            FROM pg_class AS c WHERE c.relnamespace = 'pglock'::regnamespace
            UNION ALL
            SELECT concat('FUNCTION ', p.oid::regprocedure), p.proowner, coalesce(p.proacl, acldefault('f', p.proowner))
            FROM pg_proc AS p WHERE p.pronamespace = 'pglock'::regnamespace
        ) AS o, aclexplode(o.acl) AS a
        WHERE a.grantee <> o.owner
    LOOP
        EXECUTE format('REVOKE ALL ON %s FROM %s CASCADE', given.name, given.grantee);
    END LOOP;
END
$$;

SELECT pg_catalog.set_config('search_path', pg_catalog.current_setting('pglock.search_path'), true);
-- +goose StatementEnd
-- migrate:down
