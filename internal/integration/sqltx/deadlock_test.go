package sqltx

import (
	"context"
	"database/sql"
	"errors"
	"testing"

	"github.com/pglock-toolkit/pglock/internal/hooks"
	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/adapter/sqltx"
)

// A call in a transaction waits for a Lock, whose holder waits for the transaction and gives up, since it is the last.
func TestSQLTxTransactionsTakePartInTheSearchForDeadlocks(t *testing.T) {
	onEach(t, func(t *testing.T, server *testenv.DB, db *sql.DB) {
		one, two := newLocker(t, server), newLocker(t, server)
		hooks.Process(one)
		hooks.Process(two)
		a, b := pglock.NewKey("a"), pglock.NewKey("b")
		lock, err := one.Lock(t.Context(), a)
		must.Succeed(t, err)
		last, first := begin(t, db), begin(t, db)
		must.Succeed(t, sqltx.LockTx(t.Context(), first, b))
		tied, err := sqltx.TxContext(t.Context(), first)
		must.Succeed(t, err)
		waiting := make(chan error, 1)
		go func() {
			waiting <- two.Do(tied, a, func(context.Context, *pglock.Lock) error { return nil })
		}()
		conn := server.Connect(t)
		testenv.WaitUntil(t, "the call's wait is published, and so older for every process", func() bool {
			return must.One[int](t, conn, "select count(*) from pg_stat_activity where datname = current_database() and query like '/* pglock waits %'") > 0
		})
		if err := sqltx.LockTx(lock.Context(t.Context()), last, b); !errors.Is(err, pglock.ErrDeadlock) {
			t.Errorf("LockTx: %v", err)
		}
		_ = last.Rollback() // the driver may have closed the connection
		must.Succeed(t, errors.Join(lock.Unlock(t.Context()), <-waiting, first.Rollback()))
	})
}
