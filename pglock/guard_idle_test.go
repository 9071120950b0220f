package pglock_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/locktest"
	"github.com/pglock-toolkit/pglock/pglock/semaphore"
)

// cutOff has a holder guard a transaction, and cuts it off from the server. Then its successor gets the lock.
func cutOff(t *testing.T, db *testenv.DB, key pglock.Key, successor *pglock.Locker, opts ...pglock.Option) *pglock.Lock {
	t.Helper()
	link, config := newProxy(t, db)
	holder, err := pglock.NewWithConfig(config, append(opts, pglock.WithLease(time.Second))...)
	txCheck(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
		defer cancel()
		_ = holder.Close(ctx) // it reports the lock that it has lost
	})
	lock := mustLock(t, holder, key)
	conn, err := pgx.ConnectConfig(t.Context(), config.ConnConfig)
	txCheck(t, err)
	t.Cleanup(func() { _ = conn.PgConn().Conn().Close() })
	tx, err := conn.Begin(t.Context())
	txCheck(t, err)
	txCheck(t, lock.GuardTx(t.Context(), tx))
	link.Cut(true, true)
	return mustLock(t, successor, key)
}

// Nothing but the bound ends the transaction of the holder that is cut off: its socket stays open.
func TestGuardIdleTimeoutEndsTheTransactionOfAHolderThatIsCutOff(t *testing.T) {
	t.Parallel()
	db, key := testenv.Database(t), pglock.NewKey("k")
	lock := cutOff(t, db, key, openLocker(t, db), pglock.WithGuardIdleTimeout(0))
	defer mustUnlock(t, lock)
	err := pgx.BeginFunc(t.Context(), db.Connect(t), func(tx pgx.Tx) error { return lock.GuardTx(t.Context(), tx) })
	txCheck(t, err)
}

func TestGuardIdleTimeoutOnlyLowersWhatTheCallerHasSet(t *testing.T) {
	t.Parallel()
	db := testenv.Database(t)
	conn := db.Connect(t)
	unbounded := map[string]string{"0": "0", "700ms": "700ms", "1h": "1h"}
	bounded := map[string]string{"0": "90s", "700ms": "700ms", "89s": "89s", "90s": "90s", "91s": "90s", "2min": "90s", "1h": "90s", "3d": "90s"}
	for _, c := range []struct {
		opts []pglock.Option
		want map[string]string
	}{
		{nil, unbounded},
		{[]pglock.Option{pglock.WithGuardIdleTimeout(0), pglock.WithLease(90 * time.Second)}, bounded},
		{[]pglock.Option{pglock.WithGuardIdleTimeout(90 * time.Second)}, bounded},
	} {
		l := openLocker(t, db, c.opts...)
		s, err := semaphore.New(l, pglock.NewKey("semaphore"), 2)
		txCheck(t, err)
		permit, err := s.Acquire(t.Context())
		txCheck(t, err)
		lock := mustLock(t, l, pglock.NewKey("k"))
		for set, want := range c.want {
			for name, guard := range map[string]func(context.Context, pgx.Tx) error{"lock": lock.GuardTx, "permit": permit.GuardTx} {
				tx := txBegin(t, conn)
				txExec(t, tx, "SET LOCAL idle_in_transaction_session_timeout = '"+set+"'")
				for range 2 { // a first guard, and a later one
					txCheck(t, guard(t.Context(), tx))
				}
				if got := txShow(t, conn, "idle_in_transaction_session_timeout"); got != want {
					t.Errorf("%s, %s: it is %s, want %s", name, set, got, want)
				}
				txCheck(t, tx.Commit(t.Context()))
				if got := txShow(t, conn, "idle_in_transaction_session_timeout"); got != "0" {
					t.Errorf("after the transaction it is %s", got)
				}
			}
		}
		mustUnlock(t, lock)
		txCheck(t, permit.Release(t.Context()))
	}
}

func TestGuardIdleTimeoutIsForPostgreSQL(t *testing.T) {
	if _, err := pglock.Open(t.Context(), "host=localhost", pglock.WithGuardIdleTimeout(-1)); err == nil {
		t.Error("a negative bound is accepted")
	}
	l, err := locktest.NewMemory(pglock.WithGuardIdleTimeout(time.Second))
	if err != nil && !errors.Is(err, pglock.ErrUnsupported) {
		t.Error(err)
	}
	if l != nil {
		txCheck(t, l.Close(t.Context()))
	}
}
