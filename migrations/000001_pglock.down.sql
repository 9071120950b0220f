-- RESTRICT: what others have put into the schema, or made to depend on something in it, stays, and makes this an error.
-- It is for one transaction. Every use of the schema locks the sequence first, so that comes first here too, and neither
-- can wait for the other in a circle.
DROP SEQUENCE pglock.fence RESTRICT;
DROP VIEW pglock.row_waits, pglock.row_locks, pglock.blockers, pglock.waits, pglock.locks RESTRICT;
DROP TABLE pglock.lease_waiters, pglock.lease_shares, pglock.leases, pglock.holders, pglock.rates, pglock.once_slots,
    pglock.once_records, pglock.runs, pglock.jobs, pglock.fence_rows, pglock.names, pglock.schema_migrations RESTRICT;
DROP FUNCTION pglock.written, pglock.find_blockers, pglock.lease_terminate, pglock.lease_prune, pglock.lease_waits, pglock.lease_rows,
    pglock.lease_holders, pglock.lease_guard, pglock.lease_fence, pglock.lease_holds, pglock.lease_expire,
    pglock.lease_settle, pglock.lease_take, pglock.lease_ahead, pglock.lease_insert, pglock.lease_enter, pglock.lease_drop, pglock.lease_call, pglock.lease_end, pglock.lease_renew,
    pglock.lease_open, pglock.lease_until, pglock.lease_durable, pglock.rate_clock, pglock.rate_prune, pglock.rate_return,
    pglock.rate_take, pglock.once_prune, pglock.once, pglock.once_record, pglock.tick,
    pglock.fence_draw, pglock.semaphore_of, pglock.register, pglock.key RESTRICT;
DROP SCHEMA pglock RESTRICT;
