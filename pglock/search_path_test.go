package pglock_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/pglock"
)

// traps shadows every type that the statements use, and every operator of each pair of these types, whether PostgreSQL
// has one or not: PostgreSQL would take a missing operator of the trap's before it tries a conversion.
const traps = `create schema evil;
do $do$
declare l text; r text; o text; n int := 0;
begin
	foreach l in array array['int2', 'int4', 'int8', 'float8', 'numeric', 'interval', 'timestamptz', 'text', 'name', 'oid', 'bool'] loop
		foreach r in array array['int2', 'int4', 'int8', 'float8', 'numeric', 'interval', 'timestamptz', 'text', 'name', 'oid', 'bool'] loop
			n := n + 1;
			execute format('create function evil.trap%s(%s, %s) returns bool language plpgsql as $$ begin raise ''trapped''; end $$', n, l, r);
			foreach o in array array['+', '-', '*', '/', '<<', '>>', '&', '|', '||', '=', '<>', '<', '>', '<=', '>=', '~~'] loop
				execute format('create operator evil.%s (function = evil.trap%s, leftarg = %s, rightarg = %s)', o, n, l, r);
			end loop;
		end loop;
	end loop;
	foreach o in array array['count(bigint)', 'max(text)', 'coalesce(text)', 'current_setting(text)', 'set_config(text, text, bool)',
		'starts_with(text, text)', 'unnest(bigint[])', 'pg_advisory_xact_lock(bigint)', 'pg_advisory_xact_lock_shared(bigint)',
		'pg_try_advisory_xact_lock_shared(int, int)'] loop
		execute format('create function evil.%s returns bool language plpgsql as $$ begin raise ''trapped''; end $$', o);
	end loop;
	foreach o in array array['int2', 'int4', 'int8', 'float8', 'text', 'bool', 'oid', 'timestamptz', 'interval'] loop
		execute format('create domain evil.%s as pg_catalog.%s check (false)', o, o);
	end loop;
end $do$`

// The statements of locks must not depend on search_path, which the owner of the database can set for all.
func TestTrustLocksRunNothingOfTheSearchPath(t *testing.T) {
	db := testenv.Database(t)
	admin := db.Connect(t)
	if _, err := admin.Exec(t.Context(), traps); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.Exec(t.Context(), "alter database "+db.Name()+" set search_path = evil, pg_catalog"); err != nil {
		t.Fatal(err)
	}
	conn := db.Connect(t)
	var path string
	if err := conn.QueryRow(t.Context(), "show search_path").Scan(&path); err != nil || path != "evil, pg_catalog" {
		t.Fatalf("the search_path is %q, %v", path, err)
	}
	key, pair, busy := pglock.NewKey("k"), pglock.PairKey(7, -42), pglock.NewKey("busy")
	locker, other := openLocker(t, db), openLocker(t, db)
	held := mustLock(t, locker, busy)
	bound := pglock.MaxWait(50 * time.Millisecond)

	inTx := func(name string, want error, lock func(ctx context.Context, tx pgx.Tx) error) {
		t.Helper()
		err := pgx.BeginFunc(t.Context(), conn, func(tx pgx.Tx) error { return lock(t.Context(), tx) })
		if !errors.Is(err, want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	inBatch := func(name string, want error, queue func(b *pgx.Batch)) {
		t.Helper()
		inTx(name, want, func(ctx context.Context, tx pgx.Tx) error {
			b := &pgx.Batch{}
			queue(b)
			return pglock.TxError(tx.SendBatch(ctx, b).Close())
		})
	}
	for _, opts := range [][]pglock.TxOption{nil, {pglock.Shared()}} {
		for _, k := range []pglock.Key{key, pair} {
			bounded := append([]pglock.TxOption{bound}, opts...)
			inTx("LockTx", nil, func(ctx context.Context, tx pgx.Tx) error { return pglock.LockTx(ctx, tx, k, opts...) })
			inTx("TryLockTx", nil, func(ctx context.Context, tx pgx.Tx) error { return pglock.TryLockTx(ctx, tx, k, opts...) })
			inTx("LockTx with MaxWait", nil, func(ctx context.Context, tx pgx.Tx) error { return pglock.LockTx(ctx, tx, k, bounded...) })
			inTx("LockAllTx", nil, func(ctx context.Context, tx pgx.Tx) error {
				return pglock.LockAllTx(ctx, tx, []pglock.Key{k, pglock.NewKey("l")}, opts...)
			})
			inBatch("QueueLockTx", nil, func(b *pgx.Batch) { pglock.QueueLockTx(b, k, opts...) })
			inBatch("QueueLockTx with MaxWait", nil, func(b *pgx.Batch) { pglock.QueueLockTx(b, k, bounded...) })
			inBatch("QueueLockAllTx", nil, func(b *pgx.Batch) {
				pglock.QueueLockAllTx(b, []pglock.Key{k, pglock.NewKey("l")}, opts...)
			})
			inBatch("QueueLockAllTx with MaxWait", nil, func(b *pgx.Batch) {
				pglock.QueueLockAllTx(b, []pglock.Key{k, pglock.NewKey("l")}, bounded...)
			})
			inBatch("a try of several", nil, func(b *pgx.Batch) {
				tryAll(b, []pglock.Key{k, pglock.NewKey("l")}, opts...)
			})
		}
	}
	inTx("a lock that is held", pglock.ErrNotAcquired, func(ctx context.Context, tx pgx.Tx) error {
		err := pglock.LockTx(ctx, tx, busy, bound)
		if wait, ok := errors.AsType[*pglock.WaitError](err); !ok || len(wait.Holders) != 1 {
			t.Errorf("the holder is not named: %v", err)
		}
		return err
	})

	// A Locker: uncontended, contended, several keys, shared, and who holds it.
	txCheck(t, other.Ping(t.Context())) // the bound is for a wait, not for connecting
	if _, err := other.Lock(t.Context(), busy, bound); !errors.Is(err, pglock.ErrNotAcquired) {
		t.Errorf("Lock of a lock that is held: %v", err)
	}
	mustUnlock(t, held)
	mustUnlock(t, mustLock(t, other, busy, pglock.Shared()))
	all, err := other.LockAll(t.Context(), []pglock.Key{key, pair, busy})
	must.Succeed(t, err)
	if err := all.Verify(t.Context()); err != nil {
		t.Error(err)
	}
	for range 2 { // the first one has one more statement
		inTx("GuardTx", nil, func(ctx context.Context, tx pgx.Tx) error { return all.GuardTx(ctx, tx) })
	}
	if holders, err := locker.Holders(t.Context(), pair); err != nil || len(holders) != 1 {
		t.Errorf("the holders are %v, %v", holders, err)
	}
	mustUnlock(t, all)
}
