DROP FUNCTION pglock.fence_draw(integer) RESTRICT;

DROP TABLE pglock.fence_rows RESTRICT;

COMMENT ON SEQUENCE pglock.fence IS
    'Fencing tokens, each larger than every earlier one, of all locks. A failover that loses WAL can repeat values';

UPDATE pglock.schema_migrations SET version = 10, dirty = false;
