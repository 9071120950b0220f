package rowlock_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pglock-toolkit/pglock/internal/hooks"
	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/migrations"
	"github.com/pglock-toolkit/pglock/pglock"
)

func begin(t *testing.T, pool *pgxpool.Pool, options pgx.TxOptions) pgx.Tx {
	t.Helper()
	tx, err := pool.BeginTx(t.Context(), options)
	must.Succeed(t, err)
	t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
	return tx
}

// endHolders plays that the leases of all processes have run out.
func endHolders(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	_, err := pool.Exec(t.Context(), "UPDATE pglock.holders SET ended = true")
	must.Succeed(t, err)
}

// A holder has lost its lock and does not know it. Either its transaction is before all of its successor, or it fails.
func TestGuardTxAWriteCannotBeStale(t *testing.T) {
	t.Parallel()
	for _, shared := range []bool{false, true} {
		owner, db := installed(t)
		var opts []pglock.LockOption
		if shared {
			opts = append(opts, pglock.Shared())
		}
		app := owner
		if !shared {
			app = pooled(t, db)
		}
		l, next := open(t, app), open(t, app)
		held, unguarded := lock(t, l, opts...), begin(t, app, pgx.TxOptions{})
		tx := begin(t, app, pgx.TxOptions{})
		must.Succeed(t, held.GuardTx(t.Context(), tx))
		endHolders(t, owner)
		_, err := next.TryLock(t.Context(), key)
		wantIs(t, err, pglock.ErrNotAcquired) // the guarded transaction has the row
		another, err := next.TryLock(t.Context(), pglock.NewKey("another"))
		must.Succeed(t, err) // and stalls nothing else
		must.Succeed(t, tx.Commit(t.Context()))
		successor := lock(t, next)
		wantIs(t, held.GuardTx(t.Context(), unguarded), pglock.ErrLost)
		if err := unguarded.Commit(t.Context()); err == nil {
			t.Error("a transaction that came too late was committed")
		}
		must.Succeed(t, another.Unlock(t.Context()))
		unlock(t, successor)
	}
}

func TestGuardTxTakesIsolationLevelsIntoAccount(t *testing.T) {
	t.Parallel()
	pool, _ := installed(t)
	l := open(t, pool)
	for _, level := range []pgx.TxIsoLevel{pgx.RepeatableRead, pgx.Serializable} {
		before := begin(t, pool, pgx.TxOptions{IsoLevel: level})
		must.One[int](t, before, "SELECT count(*) FROM pglock.jobs") // its snapshot
		held := lock(t, l)
		wantIs(t, held.GuardTx(t.Context(), before), pglock.ErrStaleSnapshot)
		must.One[int](t, before, "SELECT 1") // it can continue
		must.Succeed(t, before.Rollback(t.Context()))

		after := begin(t, pool, pgx.TxOptions{IsoLevel: level})
		must.Succeed(t, held.GuardTx(t.Context(), after))
		must.Succeed(t, after.Commit(t.Context()))
		unlock(t, held)
	}
	held := lock(t, l)
	wantIs(t, held.GuardTx(t.Context(), begin(t, pool, pgx.TxOptions{AccessMode: pgx.ReadOnly})), pglock.ErrUnsupported)
	unlock(t, held)
}

// The lock was released and taken again after the snapshot: PostgreSQL's serialization failure is passed on.
func TestGuardTxPassesOnSerializationFailures(t *testing.T) {
	t.Parallel()
	pool, _ := installed(t)
	l := open(t, pool)
	held := lock(t, l)
	tx := begin(t, pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	must.One[int](t, tx, "SELECT count(*) FROM pglock.jobs")
	endHolders(t, pool)
	unlock(t, lock(t, open(t, pool)))
	err := held.GuardTx(t.Context(), tx)
	if state := (interface{ SQLState() string })(nil); !errors.As(err, &state) || state.SQLState() != "40001" {
		t.Errorf("got %v, want a serialization failure", err)
	}
}

// A rollback to a savepoint from before the guard ends the guard. pgx's own nested transactions are refused.
func TestGuardTxASavepointFromBeforeEndsTheGuard(t *testing.T) {
	t.Parallel()
	pool, _ := installed(t)
	l, next := open(t, pool), open(t, pool)
	held, tx := lock(t, l), begin(t, pool, pgx.TxOptions{})
	nested, err := tx.Begin(t.Context())
	must.Succeed(t, err)
	if err := held.GuardTx(t.Context(), nested); err == nil {
		t.Error("a nested transaction was guarded")
	}
	must.Succeed(t, nested.Rollback(t.Context()))

	exec := func(sql string) {
		t.Helper()
		_, err := tx.Exec(t.Context(), sql)
		must.Succeed(t, err)
	}
	exec("SAVEPOINT before")
	must.Succeed(t, held.GuardTx(t.Context(), tx))
	exec("SAVEPOINT behind")
	exec("ROLLBACK TO behind")
	endHolders(t, pool)
	_, err = next.TryLock(t.Context(), key)
	wantIs(t, err, pglock.ErrNotAcquired)
	exec("ROLLBACK TO before")
	unlock(t, lock(t, next))
}

func TestGuardTxOnAnotherDatabaseIsRefused(t *testing.T) {
	t.Parallel()
	pool, _ := installed(t)
	elsewhere := testenv.Database(t).Pool(t)
	held := lock(t, open(t, pool))
	wantIs(t, held.GuardTx(t.Context(), begin(t, elsewhere, pgx.TxOptions{})), pglock.ErrOtherServer)
	must.Succeed(t, migrations.Up(t.Context(), elsewhere))
	wantIs(t, held.GuardTx(t.Context(), begin(t, elsewhere, pgx.TxOptions{})), pglock.ErrOtherServer)
	must.Succeed(t, held.Err())
	unlock(t, held)
}

// In the usual order of defers: Unlock, then Commit.
func TestGuardTxOfSeveralKeysHoldsAllAfterUnlock(t *testing.T) {
	t.Parallel()
	_, db := installed(t)
	pool := pooled(t, db)
	l, next := open(t, pool), open(t, pool)
	keys := []pglock.Key{key, pglock.NewKey("b"), pglock.PairKey(1, -2)}
	held, err := l.LockAll(t.Context(), keys)
	must.Succeed(t, err)
	tx := begin(t, pool, pgx.TxOptions{})
	must.Succeed(t, held.GuardTx(t.Context(), tx))
	unlock(t, held)
	for _, key := range keys {
		for _, from := range []*pglock.Locker{l, next} {
			_, err := from.TryLock(t.Context(), key)
			wantIs(t, err, pglock.ErrNotAcquired)
		}
	}
	must.Succeed(t, tx.Commit(t.Context()))
	again, err := next.LockAll(t.Context(), keys)
	must.Succeed(t, err)
	unlock(t, again)
}

// A guarded transaction may be open when its Lock ends: by an Unlock before the commit, by MaxHold, or when package semaphore
// passes a permit on. The next Lock of the process has the key when it has ended.
func TestGuardTxEndsBeforeTheNextLockOfTheProcessHasTheKey(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*testing.T, *pglock.Lock){
		"Unlock": func(t *testing.T, held *pglock.Lock) { unlock(t, held) },
		"MaxHold": func(t *testing.T, held *pglock.Lock) {
			must.Succeed(t, held.Extend(time.Millisecond))
			<-held.Done()
		},
		"HandOff": func(t *testing.T, held *pglock.Lock) {
			_, _, err := hooks.HandOff(held, t.Context(), []pglock.LockOption(nil))
			wantIs(t, err, pglock.ErrNotAcquired)
			unlock(t, held)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool, _ := installed(t)
			l := open(t, pool, pglock.WithHandoffLimit(1000, time.Hour))
			held := lock(t, l)
			tx := begin(t, pool, pgx.TxOptions{})
			must.Succeed(t, held.GuardTx(t.Context(), tx))
			if name == "HandOff" { // which others in the queue prevent in any case
				end(t, held)
			}
			got := make(chan *pglock.Lock, 1)
			go func() {
				next, err := l.Lock(context.WithoutCancel(t.Context()), key)
				if err != nil {
					t.Error(err)
				}
				got <- next
			}()
			testenv.WaitUntil(t, "the next waits", func() bool { return l.Stats().Waiting == 1 })
			if name != "HandOff" {
				end(t, held)
			}
			select {
			case next := <-got:
				t.Error("the next Lock has the key while the guarded transaction is open")
				got <- next
			case <-time.After(300 * time.Millisecond):
			}
			must.Succeed(t, tx.Commit(t.Context()))
			if next := <-got; next != nil {
				unlock(t, next)
			}
		})
	}
}
