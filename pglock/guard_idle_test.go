package pglock_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/pglock"
)

// A holder that is cut off keeps its socket open, so nothing ends its transaction but idle_in_transaction_session_timeout. Until
// then the guarded transactions of its successor wait.
func TestGuardTxOfAHolderThatIsCutOffIsEndedByTheServer(t *testing.T) {
	t.Parallel()
	db, key := testenv.Database(t), pglock.NewKey("k")
	link, config := newProxy(t, db)
	holder, err := pglock.NewWithConfig(config, pglock.WithLease(2*time.Second))
	txCheck(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
		defer cancel()
		_ = holder.Close(ctx) // it reports the lock that it has lost
	})
	conn, err := pgx.ConnectConfig(t.Context(), config.ConnConfig)
	txCheck(t, err)
	t.Cleanup(func() { _ = conn.PgConn().Conn().Close() })
	tx, err := conn.Begin(t.Context())
	txCheck(t, err)
	txCheck(t, mustLock(t, holder, key).GuardTx(t.Context(), tx))
	txExec(t, conn, "SET LOCAL idle_in_transaction_session_timeout = '1s'") // not before: a guard can take long
	link.Cut(true, true)
	lock := mustLock(t, openLocker(t, db), key)
	defer mustUnlock(t, lock)
	txCheck(t, pgx.BeginFunc(t.Context(), db.Connect(t), func(tx pgx.Tx) error { return lock.GuardTx(t.Context(), tx) }))
}
