-- Fencing tokens. CACHE 1 makes the order of the values the order of the calls: a larger cache hands every session a
-- block of numbers of its own (https://www.postgresql.org/docs/current/sql-createsequence.html).

CREATE SEQUENCE pglock.fence AS bigint INCREMENT BY 1 MINVALUE 1 START WITH 1 CACHE 1 NO CYCLE;

REVOKE ALL ON SEQUENCE pglock.fence FROM PUBLIC;

COMMENT ON SEQUENCE pglock.fence IS
    'Fencing tokens, each larger than every earlier one, of all locks. A failover that loses WAL can repeat values';

UPDATE pglock.schema_migrations SET version = 4, dirty = false;
