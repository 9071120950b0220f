-- Makes fencing tokens durable before they are given away.
--
-- Only every 33rd nextval writes WAL, and only the session that called it waits until that is flushed. The others can
-- have the numbers behind it at once. So after a crash, or on a standby, nextval alone can return numbers again. A
-- transaction that locks a row writes WAL of its own, so its commit flushes everything before it, and waits for the
-- synchronous standbys. Locking leaves no dead row versions behind, as an update would.
--
-- A row stays locked until the commit has been flushed, so there are several: each transaction takes one that is free.

CREATE TABLE pglock.fence_rows (
    id smallint NOT NULL,
    CONSTRAINT fence_rows_pkey PRIMARY KEY (id),
    CONSTRAINT fence_rows_id_is_one_of_64 CHECK (id OPERATOR(pg_catalog.>=) 0 AND id OPERATOR(pg_catalog.<=) 63)
);

REVOKE ALL ON TABLE pglock.fence_rows FROM PUBLIC;

INSERT INTO pglock.fence_rows (id) SELECT i FROM pg_catalog.generate_series(0, 63) AS i;

COMMENT ON TABLE pglock.fence_rows IS 'Rows that are locked by transactions that draw fencing tokens, and never change';
COMMENT ON COLUMN pglock.fence_rows.id IS 'The number of the row';
COMMENT ON CONSTRAINT fence_rows_pkey ON pglock.fence_rows IS 'Finds a row to wait for when all are locked';
COMMENT ON CONSTRAINT fence_rows_id_is_one_of_64 ON pglock.fence_rows IS 'pglock.fence_draw knows how many there are';

-- The function has the owner's rights, so that its callers need none on the table. Whether the commit waits is decided
-- outside: a setting of the function would end before the commit.

CREATE FUNCTION pglock.fence_draw(count integer) RETURNS bigint[]
LANGUAGE plpgsql VOLATILE STRICT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM FROM pglock.fence_rows AS r LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        PERFORM FROM pglock.fence_rows AS r WHERE r.id = pg_backend_pid() % 64 FOR NO KEY UPDATE;
    END IF;
    IF NOT FOUND THEN
        RAISE object_not_in_prerequisite_state USING MESSAGE = 'pglock.fence_rows has lost rows';
    END IF;
    RETURN ARRAY(SELECT nextval('pglock.fence') FROM generate_series(1, fence_draw.count));
END
$$;

REVOKE ALL ON FUNCTION pglock.fence_draw(integer) FROM PUBLIC;

COMMENT ON FUNCTION pglock.fence_draw(integer) IS
    'Draws so many fencing tokens. They may be used when the commit has been confirmed, with synchronous_commit = on or '
    'remote_apply and without a warning';

COMMENT ON SEQUENCE pglock.fence IS
    'Fencing tokens, each larger than every earlier one, of all locks. Draw them with pglock.fence_draw: after a crash '
    'nextval can repeat values. So can a failover that loses transactions, and logical replication does not copy it';

UPDATE pglock.schema_migrations SET version = 11, dirty = false;
