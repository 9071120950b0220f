-- Locks that are rows. Each statement is a READ COMMITTED transaction of its own, but for the guard, which is
-- in the caller's. They depend on no setting of a session, so that they pass poolers of transactions.

-- name: BeginReadWrite :exec
BEGIN ISOLATION LEVEL READ COMMITTED, READ WRITE;

-- name: Rollback :exec
ROLLBACK;

-- name: OpenHolder :one
SELECT pg_catalog.concat((pg_catalog.date_part('epoch', pg_catalog.pg_postmaster_start_time())
    OPERATOR(pg_catalog.*) 1000000)::bigint, '/', pg_catalog.current_database())::pg_catalog.text AS server
FROM pglock.lease_open(@holder::pg_catalog.uuid, @lease_ms::bigint, @application::pg_catalog.text,
                       @host::pg_catalog.text, @pid::integer);

-- name: RenewHolder :one
SELECT pglock.lease_renew(@holder::pg_catalog.uuid, @lease_ms::bigint)::boolean AS renewed;

-- name: EndHolder :exec
SELECT FROM pglock.lease_end(@holder::pg_catalog.uuid);

-- name: CallLeases :one
SELECT r.outcome::pg_catalog.text AS outcome, COALESCE(r.dropped, '')::pg_catalog.text AS dropped,
       COALESCE(r.taken, '')::pg_catalog.text AS taken, r.results::bigint[] AS results,
       r.ahead::bigint[] AS ahead, r.held::bigint[] AS held
FROM pglock.lease_call(@holder::pg_catalog.uuid, @attempt::bigint,
    pg_catalog.string_to_array(@drop_kinds::pg_catalog.text, NULL), @drop_spaces::smallint[], @drop_numbers::bigint[],
    @drop_values::bigint[], @plain::integer, @spaces::smallint[], @numbers::bigint[], @shared::boolean[], @waits::boolean[], @arrivals::bigint[]) AS r;

-- name: SettleLeases :exec
SELECT FROM pglock.lease_settle(@holder::pg_catalog.uuid, @attempt::bigint, @spaces::smallint[], @numbers::bigint[]);

-- name: HoldsLeases :one
SELECT pglock.lease_holds(@holder::pg_catalog.uuid, @generation::bigint, @shared::boolean, @space::smallint,
                          @number::bigint)::boolean AS held;

-- A token of 0 says that the key is not held.
-- name: FenceLease :one
SELECT pglock.lease_fence(@holder::pg_catalog.uuid, @generation::bigint, @shared::boolean, @space::smallint,
                          @number::bigint)::bigint AS token;

-- name: LeaseHolders :many
SELECT h.self::boolean AS self, h.shared::boolean AS shared, h.waits::boolean AS waits, h.role::pg_catalog.text AS role,
       h.application::pg_catalog.text AS application, h.host::pg_catalog.text AS host, h.pid::integer AS pid,
       h.process_us::bigint AS process_us, h.since_us::bigint AS since_us
FROM pglock.lease_holders(@holder::pg_catalog.uuid, @space::smallint, @number::bigint) AS h;

-- name: LeaseRows :many
SELECT r.kind::pg_catalog.text AS kind, r.space::smallint AS space, r.number::bigint AS number, r.value::bigint AS value,
       r.attempt::bigint AS attempt
FROM pglock.lease_rows(@holder::pg_catalog.uuid) AS r;

-- name: PublishLeaseWaits :one
SELECT pglock.lease_waits(@holder::pg_catalog.uuid, @waits::pg_catalog.text)::pg_catalog.text AS sight;

-- name: PruneLeases :one
SELECT pglock.lease_prune(@keep_ms::bigint, @most::integer)::bigint AS pruned;

-- Searches for deadlocks see by the companions (queries/waits.sql) that the transaction is guarded.
-- name: GuardByLeases :one
SELECT CASE
    WHEN pg_catalog.pg_try_advisory_xact_lock_shared(@companion::bigint) IS NULL THEN ''
    ELSE pglock.lease_guard(@holder::pg_catalog.uuid, @generation::bigint, @shared::boolean, @space::smallint, @number::bigint)
END::pg_catalog.text AS outcome;
