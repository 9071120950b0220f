DROP FUNCTION pglock.lease_terminate(pg_catalog.text) RESTRICT;

DROP VIEW pglock.row_waits RESTRICT;

DROP VIEW pglock.row_locks RESTRICT;

DROP FUNCTION pglock.lease_prune(bigint, integer) RESTRICT;

DROP FUNCTION pglock.lease_rows(pg_catalog.uuid) RESTRICT;

DROP FUNCTION pglock.lease_holders(pg_catalog.uuid, smallint, bigint) RESTRICT;

DROP FUNCTION pglock.lease_guard(pg_catalog.uuid, bigint, boolean, smallint[], bigint[]) RESTRICT;

DROP FUNCTION pglock.lease_fence(pg_catalog.uuid, bigint, boolean, smallint[], bigint[]) RESTRICT;

DROP FUNCTION pglock.lease_holds(pg_catalog.uuid, bigint, boolean, smallint[], bigint[]) RESTRICT;

DROP FUNCTION pglock.lease_poll(pg_catalog.uuid, integer[], smallint[], bigint[], boolean[], bigint[]) RESTRICT;

DROP FUNCTION pglock.lease_settle(pg_catalog.uuid, bigint, smallint[], bigint[]) RESTRICT;

DROP FUNCTION pglock.lease_take(pg_catalog.uuid, bigint, integer[], smallint[], bigint[], boolean[], boolean[], bigint[])
    RESTRICT;

DROP FUNCTION pglock.lease_drop(pg_catalog.uuid, pg_catalog.text[], smallint[], bigint[], bigint[]) RESTRICT;

DROP FUNCTION pglock.lease_call(pg_catalog.uuid, bigint, pg_catalog.text[], smallint[], bigint[], bigint[],
    integer, integer[], smallint[], bigint[], boolean[], boolean[], bigint[]) RESTRICT;

DROP FUNCTION pglock.lease_end(pg_catalog.uuid) RESTRICT;

DROP FUNCTION pglock.lease_renew(pg_catalog.uuid, bigint) RESTRICT;

DROP FUNCTION pglock.lease_open(pg_catalog.uuid, bigint, pg_catalog.text, pg_catalog.text, integer) RESTRICT;

DROP FUNCTION pglock.lease_until(bigint) RESTRICT;

DROP FUNCTION pglock.lease_durable() RESTRICT;

DROP TABLE pglock.lease_waiters RESTRICT;

DROP TABLE pglock.lease_shares RESTRICT;

DROP TABLE pglock.leases RESTRICT;

DROP TABLE pglock.holders RESTRICT;

UPDATE pglock.schema_migrations SET version = 12, dirty = false;
