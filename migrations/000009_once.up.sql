-- What has been done once, and is not to be done again.
--
-- Records are in a ring of four partitions, of which one takes the new ones: each more is one more to look into. To forget old records is to truncate a
-- partition. Nothing here needs DDL at run time, and where pglock.once_prune is never called the current partition goes
-- on to grow.
--
-- Nothing but the advisory lock of the identity and the look into every partition keeps identities unique: the primary
-- keys are per partition.
-- pglock: allow (this is pglock)

CREATE TABLE pglock.once_records (
    slot smallint NOT NULL,
    scope pg_catalog.text COLLATE pg_catalog."C" NOT NULL,
    id pg_catalog.text COLLATE pg_catalog."C" NOT NULL,
    done_at timestamp with time zone NOT NULL,
    fingerprint pg_catalog.bytea,
    result pg_catalog.bytea,
    CONSTRAINT once_records_pkey PRIMARY KEY (id, scope, slot),
    CONSTRAINT once_records_scope_fits_index CHECK (pg_catalog.octet_length(scope) OPERATOR(pg_catalog.<=) 256),
    CONSTRAINT once_records_id_fits_index CHECK (pg_catalog.octet_length(id) OPERATOR(pg_catalog.<=) 1024)
) PARTITION BY LIST (slot);

REVOKE ALL ON TABLE pglock.once_records FROM PUBLIC;

COMMENT ON TABLE pglock.once_records IS 'What has been done once';
COMMENT ON COLUMN pglock.once_records.slot IS 'The partition, see pglock.once_slots';
COMMENT ON COLUMN pglock.once_records.scope IS 'What kind of thing it is, such as the name of a consumer';
COMMENT ON COLUMN pglock.once_records.id IS 'Which one of its kind, such as an Idempotency-Key';
COMMENT ON COLUMN pglock.once_records.done_at IS 'When it was recorded, by the clock of the server';
COMMENT ON COLUMN pglock.once_records.fingerprint IS 'The SHA-256 of what was asked for, where the caller gave that';
COMMENT ON COLUMN pglock.once_records.result IS 'What came of it, where the caller has kept that';
COMMENT ON CONSTRAINT once_records_pkey ON pglock.once_records IS 'Finds the record of an identity in each partition';
COMMENT ON INDEX pglock.once_records_pkey IS 'Finds the record of an identity in each partition';
COMMENT ON CONSTRAINT once_records_scope_fits_index ON pglock.once_records IS
    'Keeps rows well below the size limit of an index row';
COMMENT ON CONSTRAINT once_records_id_fits_index ON pglock.once_records IS
    'Keeps rows well below the size limit of an index row';

CREATE TABLE pglock.once_records_0 PARTITION OF pglock.once_records FOR VALUES IN (0);
REVOKE ALL ON TABLE pglock.once_records_0 FROM PUBLIC;
COMMENT ON TABLE pglock.once_records_0 IS 'A partition, see pglock.once_slots';

CREATE TABLE pglock.once_records_1 PARTITION OF pglock.once_records FOR VALUES IN (1);
REVOKE ALL ON TABLE pglock.once_records_1 FROM PUBLIC;
COMMENT ON TABLE pglock.once_records_1 IS 'A partition, see pglock.once_slots';

CREATE TABLE pglock.once_records_2 PARTITION OF pglock.once_records FOR VALUES IN (2);
REVOKE ALL ON TABLE pglock.once_records_2 FROM PUBLIC;
COMMENT ON TABLE pglock.once_records_2 IS 'A partition, see pglock.once_slots';

CREATE TABLE pglock.once_records_3 PARTITION OF pglock.once_records FOR VALUES IN (3);
REVOKE ALL ON TABLE pglock.once_records_3 FROM PUBLIC;
COMMENT ON TABLE pglock.once_records_3 IS 'A partition, see pglock.once_slots';

CREATE TABLE pglock.once_slots (
    slot smallint NOT NULL,
    since timestamp with time zone,
    until timestamp with time zone,
    rotated pg_catalog.xid8,
    barrier pg_catalog.xid8,
    drained timestamp with time zone,
    CONSTRAINT once_slots_pkey PRIMARY KEY (slot),
    CONSTRAINT once_slots_slot_is_one_of_four CHECK (slot OPERATOR(pg_catalog.>=) 0 AND slot OPERATOR(pg_catalog.<=) 3)
);

REVOKE ALL ON TABLE pglock.once_slots FROM PUBLIC;

COMMENT ON TABLE pglock.once_slots IS 'The partitions of pglock.once_records, of which the one without until is current';
COMMENT ON COLUMN pglock.once_slots.slot IS 'The number of the partition';
COMMENT ON COLUMN pglock.once_slots.since IS 'When it became the current one. NULL while it is empty';
COMMENT ON COLUMN pglock.once_slots.until IS 'When the next one became current';
COMMENT ON COLUMN pglock.once_slots.rotated IS 'The transaction that made the next one current';
COMMENT ON COLUMN pglock.once_slots.barrier IS 'Transactions from this one on know that it is not current any more';
COMMENT ON COLUMN pglock.once_slots.drained IS 'When all earlier transactions had been seen to have ended';
COMMENT ON CONSTRAINT once_slots_pkey ON pglock.once_slots IS 'There is a row for each partition';
COMMENT ON CONSTRAINT once_slots_slot_is_one_of_four ON pglock.once_slots IS 'There are four partitions';

CREATE UNIQUE INDEX once_slots_one_is_current ON pglock.once_slots ((until IS NULL))
    WHERE since IS NOT NULL AND until IS NULL;

COMMENT ON INDEX pglock.once_slots_one_is_current IS 'There is no more than one current partition';

INSERT INTO pglock.once_slots (slot, since)
VALUES (0, pg_catalog.clock_timestamp()), (1, NULL), (2, NULL), (3, NULL);

-- Records what has been done. The caller has the lock of the identity and has seen no record. The transaction has its ID
-- before it looks which partition is current: see pglock.once_prune.

CREATE FUNCTION pglock.once_record(
    scope pg_catalog.text, id pg_catalog.text, fingerprint pg_catalog.bytea, result pg_catalog.bytea
) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
AS $$
DECLARE
    xid pg_catalog.xid8 := pg_catalog.pg_current_xact_id();
BEGIN
    INSERT INTO pglock.once_records (slot, scope, id, done_at, fingerprint, result)
    SELECT s.slot, once_record.scope, once_record.id, pg_catalog.clock_timestamp(), once_record.fingerprint,
           once_record.result
    FROM pglock.once_slots AS s
    WHERE s.since IS NOT NULL AND s.until IS NULL;
    IF NOT FOUND THEN
        RAISE object_not_in_prerequisite_state USING MESSAGE = 'pglock.once_slots has no current partition';
    END IF;
END
$$;

REVOKE ALL ON FUNCTION
    pglock.once_record(pg_catalog.text, pg_catalog.text, pg_catalog.bytea, pg_catalog.bytea) FROM PUBLIC;

COMMENT ON FUNCTION pglock.once_record(pg_catalog.text, pg_catalog.text, pg_catalog.bytea, pg_catalog.bytea) IS
    'Records that something has been done, after pglock.once has said first';

-- Says whether something is to be done by this transaction:
--
--   first     it has not been done, and no other transaction can do it before this one ends
--   done      it has been done
--   mismatch  it has been done for other contents
--   held      another transaction is at it (only where wait is false)
--   stale     the transaction would not see what others have done meanwhile
--
-- The lock and the look are statements of their own here, so in a READ COMMITTED transaction the look has a snapshot
-- that is newer than the lock. It must use the indexes, whatever the planner thinks of partitions that were empty when
-- it looked. Where the caller wants a record, the look is part of the INSERT: to start another statement would cost as
-- much as to look into two partitions. The transaction has its ID before that, see pglock.once_prune.
--
-- This and pglock.once_record write every name with its schema instead of setting search_path: to set it costs as much as
-- the look.

CREATE FUNCTION pglock.once(
    scope pg_catalog.text,
    id pg_catalog.text,
    fingerprint pg_catalog.bytea DEFAULT NULL,
    wait boolean DEFAULT true,
    record boolean DEFAULT true,
    OUT outcome pg_catalog.text,
    OUT done_at timestamp with time zone,
    OUT result pg_catalog.bytea
)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET enable_seqscan = off
AS $$
DECLARE
    lock bigint := ('x'::pg_catalog.text OPERATOR(pg_catalog.||) pg_catalog.encode(pg_catalog.substring(
        pg_catalog.sha256(pg_catalog.convert_to(pg_catalog.concat('once:', once.scope, '/', once.id), 'UTF8')), 1, 8
    ), 'hex'))::bit(64)::bigint;
    earlier pg_catalog.bytea;
    xid pg_catalog.xid8;
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
    IF once.record THEN
        xid := pg_catalog.pg_current_xact_id();
        INSERT INTO pglock.once_records (slot, scope, id, done_at, fingerprint)
        SELECT s.slot, once.scope, once.id, pg_catalog.clock_timestamp(), once.fingerprint
        FROM pglock.once_slots AS s
        WHERE s.since IS NOT NULL AND s.until IS NULL AND NOT EXISTS (
            SELECT FROM pglock.once_records AS r
            WHERE r.id OPERATOR(pg_catalog.=) once.id AND r.scope OPERATOR(pg_catalog.=) once.scope
        );
        IF FOUND THEN
            once.outcome := 'first';
            RETURN;
        END IF;
    END IF;
    SELECT r.done_at, r.fingerprint, r.result INTO once.done_at, earlier, once.result
    FROM pglock.once_records AS r
    WHERE r.id OPERATOR(pg_catalog.=) once.id AND r.scope OPERATOR(pg_catalog.=) once.scope
    LIMIT 1;
    IF FOUND THEN
        once.outcome := 'done';
        IF earlier OPERATOR(pg_catalog.<>) once.fingerprint THEN
            once.outcome := 'mismatch';
            once.result := NULL;
        END IF;
        RETURN;
    ELSIF once.record THEN
        RAISE object_not_in_prerequisite_state USING MESSAGE = 'pglock.once_slots has no current partition';
    END IF;
    once.outcome := 'first';
END
$$;

REVOKE ALL ON FUNCTION
    pglock.once(pg_catalog.text, pg_catalog.text, pg_catalog.bytea, boolean, boolean) FROM PUBLIC;

COMMENT ON FUNCTION pglock.once(pg_catalog.text, pg_catalog.text, pg_catalog.bytea, boolean, boolean) IS
    'Says first, and records it, if what scope and id name has not been done. Others wait until the transaction ends. '
    'Otherwise it says done, mismatch, held or stale';

-- The same for a batch, nothing of which may be carried out behind it unless this transaction is the first.

CREATE FUNCTION pglock.once_or_raise(
    scope pg_catalog.text, id pg_catalog.text, fingerprint pg_catalog.bytea DEFAULT NULL, wait boolean DEFAULT true
) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    said record;
BEGIN
    SELECT o.outcome, o.done_at INTO said
    FROM pglock.once(once_or_raise.scope, once_or_raise.id, once_or_raise.fingerprint, once_or_raise.wait) AS o;
    IF said.outcome <> 'first' THEN
        RAISE SQLSTATE 'PLK01' USING MESSAGE = 'pglock_once_' || said.outcome,
            DETAIL = coalesce('done at ' || to_char(said.done_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'), '');
    END IF;
END
$$;

REVOKE ALL ON FUNCTION
    pglock.once_or_raise(pg_catalog.text, pg_catalog.text, pg_catalog.bytea, boolean) FROM PUBLIC;

COMMENT ON FUNCTION pglock.once_or_raise(pg_catalog.text, pg_catalog.text, pg_catalog.bytea, boolean) IS
    'Like pglock.once, but an error (SQLSTATE PLK01, pglock_once_done and the like) unless it says first';

-- Forgets old records, one step a call, each of which belongs into a transaction of its own: more says that there is
-- more to do now, done that there is not, and held that another session is at it or uses the records.
--
-- A partition goes through four steps. The next one becomes current when it has been so for half of keep. A later
-- transaction notes its own ID as the barrier: a transaction that has not seen the next one become current has an ID
-- below it. When all transactions below have ended, all that is in the partition is committed, and it is drained. When
-- that is longer ago than keep, it is truncated. So a record is kept for at least keep after its commit.
--
-- To truncate waits for the transactions that have used the records. Others would queue up behind it, so it gives up
-- soon and is asked again.

CREATE FUNCTION pglock.once_prune(keep interval) RETURNS pg_catalog.text
LANGUAGE plpgsql VOLATILE STRICT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET lock_timeout = '50ms'
AS $$
DECLARE
    now timestamp with time zone := clock_timestamp();
    full_slot smallint;
    next_slot smallint;
BEGIN
    IF once_prune.keep <= interval '0' THEN
        RAISE invalid_parameter_value USING MESSAGE = 'pglock.once_prune: keep must be positive';
    ELSIF NOT pg_try_advisory_xact_lock(pglock.key('pglock:once')) THEN
        RETURN 'held';
    END IF;

    UPDATE pglock.once_slots AS s SET drained = now
    WHERE s.drained IS NULL AND s.barrier <= pg_snapshot_xmin(pg_current_snapshot());

    SELECT s.slot INTO full_slot FROM pglock.once_slots AS s
    WHERE s.until IS NOT NULL AND s.barrier IS NULL AND s.rotated <> pg_current_xact_id() LIMIT 1;
    IF FOUND THEN
        UPDATE pglock.once_slots AS s SET barrier = pg_current_xact_id() WHERE s.slot = full_slot;
        RETURN 'more';
    END IF;

    SELECT s.slot, (s.slot + 1) % 4 INTO full_slot, next_slot FROM pglock.once_slots AS s
    WHERE s.since < now - once_prune.keep / 2 AND s.until IS NULL;
    IF FOUND AND EXISTS (SELECT FROM pglock.once_slots AS s WHERE s.slot = next_slot AND s.since IS NULL) THEN
        UPDATE pglock.once_slots AS s SET until = now, rotated = pg_current_xact_id() WHERE s.slot = full_slot;
        UPDATE pglock.once_slots AS s SET since = now WHERE s.slot = next_slot;
        RETURN 'more';
    END IF;
    SELECT s.slot INTO full_slot FROM pglock.once_slots AS s
    WHERE s.drained < now - once_prune.keep ORDER BY s.drained LIMIT 1;
    IF FOUND THEN
        BEGIN
            EXECUTE 'TRUNCATE pglock.once_records_' || full_slot;
        EXCEPTION WHEN lock_not_available THEN
            RETURN 'held';
        END;
        UPDATE pglock.once_slots AS s
        SET since = NULL, until = NULL, rotated = NULL, barrier = NULL, drained = NULL
        WHERE s.slot = full_slot;
        RETURN 'more';
    END IF;
    RETURN 'done';
END
$$;

REVOKE ALL ON FUNCTION pglock.once_prune(interval) FROM PUBLIC;

COMMENT ON FUNCTION pglock.once_prune(interval) IS
    'Forgets records that were committed longer ago, one step a call: again while it returns more or held';

UPDATE pglock.schema_migrations SET version = 9, dirty = false;
