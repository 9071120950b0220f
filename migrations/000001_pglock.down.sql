-- RESTRICT: what others have put into the schema, or made to depend on something in it, stays, and makes this an error. In its
-- one transaction the sequence is locked first, as in every use of the schema, so that neither waits for the other in a circle.

-- Locks in rows would end while their holders go on. The first look locks nothing, so where it fails no process has waited.
-- At the second all calls are locked out: one that commits before that wins, and a later one finds no schema.
DO LANGUAGE plpgsql $$
DECLARE held text;
BEGIN
    FOR look IN 1..2 LOOP
        FOR held IN SELECT pg_catalog.format('%s by process %s ("%s", process %s on "%s")', pg_catalog.count(*), l.holder,
                                         pg_catalog.left(l.application, 64), l.pid, pg_catalog.left(l.host, 255))
            FROM pglock.row_locks AS l
            WHERE l.granted AND l.expires OPERATOR(pg_catalog.>) pg_catalog.clock_timestamp()
            GROUP BY l.holder, l.application, l.pid, l.host LIMIT 1 LOOP
            RAISE 'locks in rows are held: %. Stop such processes, end them (pglock terminate --holder), or wait until their leases are over', held;
        END LOOP;
        ALTER SEQUENCE pglock.fence OWNED BY NONE; -- no change, but a lock
        LOCK TABLE pglock.holders IN ACCESS EXCLUSIVE MODE;
    END LOOP;
END
$$;

DROP SEQUENCE pglock.fence RESTRICT;
DROP VIEW pglock.row_locks, pglock.blockers, pglock.waits, pglock.locks RESTRICT;
DROP TABLE pglock.lease_waiters, pglock.lease_shares, pglock.leases, pglock.holders, pglock.rates, pglock.once_records,
    pglock.runs, pglock.jobs, pglock.fence_rows, pglock.names RESTRICT;
DROP FUNCTION pglock.written, pglock.find_blockers, pglock.lease_terminate, pglock.lease_prune, pglock.lease_waits, pglock.lease_rows,
    pglock.lease_holders, pglock.lease_guard, pglock.lease_fence, pglock.lease_holds, pglock.lease_expire,
    pglock.lease_settle, pglock.lease_take, pglock.lease_ahead, pglock.lease_insert, pglock.lease_enter, pglock.lease_drop, pglock.lease_call, pglock.lease_end, pglock.lease_renew,
    pglock.lease_open, pglock.lease_until, pglock.lease_durable, pglock.rate_clock, pglock.rate_prune, pglock.rate_return,
    pglock.rate_take, pglock.once_prune, pglock.once, pglock.once_record, pglock.tick,
    pglock.fence_draw, pglock.semaphore_of, pglock.register, pglock.key, pglock.toolkit_version RESTRICT;
DROP SCHEMA pglock RESTRICT;
