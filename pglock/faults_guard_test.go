package pglock_test

import (
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/pglock"
)

// A holder whose lock session has fallen silent keeps writing over a connection that works. The next holder's guarded
// transaction waits for those that were guarded before, and later ones cannot commit.
func TestLongGuardedTransactionsOfASilentHolderStayInOrder(t *testing.T) {
	t.Parallel()
	for name, waited := range map[string]bool{"on a mux session": false, "on a wait session": true} {
		t.Run(name, func(t *testing.T) {
			for range testenv.Trials(t, 2) {
				writeAfterSilence(t, waited)
			}
		})
	}
}

func writeAfterSilence(t *testing.T, waited bool) {
	db := testenv.Database(t)
	link, config := newProxy(t, db)
	silent, next := openShortLeased(t, config), openLocker(t, db)
	zombie, writer, admin := db.Connect(t), db.Connect(t), db.Connect(t)
	if _, err := admin.Exec(t.Context(), "create table counter as select 0 as n"); err != nil {
		t.Fatal(err)
	}
	key := pglock.NewKey("counter")
	first := lockAllOf(t, db, silent, []pglock.Key{key}, key, waited)
	begun := mustGuard(t, zombie, first)
	link.Cut(true, true)
	second := mustLock(t, next, key)
	wantLost(t, first.Err(), pglock.LostLease)

	guarded := make(chan pgx.Tx)
	go func() { guarded <- mustGuard(t, writer, second) }()
	testenv.WaitUntil(t, "the next holder's transaction waits for the earlier one", func() bool {
		return number(t, admin, "select count(*) from unnest(pg_blocking_pids($1)) as pid where pid = $2",
			writer.PgConn().PID(), zombie.PgConn().PID()) == 1
	})
	addOne(t, begun)
	tx := <-guarded
	if n := addOne(t, tx); n != 2 {
		t.Errorf("the counter is %d after both, want 2: a write was lost", n)
	}
	late, err := zombie.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := first.GuardTx(minuteContext(t), late); !errors.Is(err, pglock.ErrLost) {
		t.Errorf("GuardTx of a lock that was lost: %v", err)
	}
	if err := late.Commit(t.Context()); err == nil {
		t.Error("a transaction committed whose guard had failed")
	}
	mustUnlock(t, second)
	link.Cut(false, false)
}

func mustGuard(t *testing.T, conn *pgx.Conn, lock *pglock.Lock) pgx.Tx {
	t.Helper()
	tx, err := conn.Begin(t.Context())
	if err == nil {
		err = lock.GuardTx(minuteContext(t), tx)
	}
	if err != nil {
		t.Error(err)
	}
	return tx
}

// addOne reads and writes in two steps, so that a stale write would show, and commits.
func addOne(t *testing.T, tx pgx.Tx) (n int) {
	t.Helper()
	if err := tx.QueryRow(t.Context(), "select n from counter").Scan(&n); err != nil {
		t.Fatal(err)
	}
	n++
	if _, err := tx.Exec(t.Context(), "update counter set n = $1", n); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	return n
}
