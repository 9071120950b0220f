package errortable

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/pglock"
)

func TestMain(m *testing.M) { testenv.Main(m) }

func openLocker(t *testing.T, db *testenv.DB) *pglock.Locker {
	t.Helper()
	l, err := pglock.NewWithConfig(db.Config(t))
	return must.Closing(t, l, err)
}

func mustLock(t *testing.T, l *pglock.Locker, key pglock.Key) *pglock.Lock {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	lock, err := l.Lock(ctx, key)
	must.Succeed(t, err)
	return lock
}

func mustUnlock(t *testing.T, lock *pglock.Lock) {
	t.Helper()
	must.Succeed(t, lock.Unlock(t.Context()))
}

// terminate ends the session of a server process.
func terminate(t *testing.T, admin *pgx.Conn, pid int32) {
	t.Helper()
	var ended bool
	if err := admin.QueryRow(t.Context(), "SELECT pg_terminate_backend($1)", pid).Scan(&ended); err != nil || !ended {
		t.Fatalf("terminate %d: %v, %v", pid, ended, err)
	}
}

func txBegin(t *testing.T, conn *pgx.Conn) pgx.Tx {
	t.Helper()
	tx, err := conn.Begin(t.Context())
	must.Succeed(t, err)
	t.Cleanup(func() { _ = tx.Rollback(context.Background()) }) // its connection may have ended
	return tx
}

// txHold has another session hold the key until the test ends.
func txHold(t *testing.T, db *testenv.DB, key pglock.Key) {
	t.Helper()
	must.Succeed(t, pglock.LockTx(t.Context(), txBegin(t, db.Connect(t)), key))
}

func txExec(t *testing.T, on interface {
	Exec(context.Context, string, ...any) (pgconn.CommandTag, error)
}, statements ...string) {
	t.Helper()
	for _, statement := range statements {
		if _, err := on.Exec(t.Context(), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
}

func txCode(err error) string {
	if server, ok := errors.AsType[*pgconn.PgError](err); ok {
		return server.Code
	}
	return ""
}
