package once_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/once"
)

func TestMain(m *testing.M) { testenv.MainAlone(m) }

// patience is how long a test waits for something that must happen.
const patience = time.Minute

// installed returns a pool for a new database that has the schema.
func installed(t *testing.T) (*testenv.DB, *pgxpool.Pool) {
	t.Helper()
	db := testenv.Installed(t)
	return db, db.Pool(t)
}

func bounded(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// begin begins a transaction, which is rolled back when the test ends.
func begin(t *testing.T, pool *pgxpool.Pool) pgx.Tx {
	t.Helper()
	tx, err := pool.Begin(t.Context())
	must.Succeed(t, err)
	t.Cleanup(func() { _ = tx.Rollback(context.Background()) }) // or it has ended already
	return tx
}

func commit(t *testing.T, tx pgx.Tx) {
	t.Helper()
	must.Succeed(t, tx.Commit(t.Context()))
}

func scope(t *testing.T, name string, opts ...once.Option) *once.Scope {
	t.Helper()
	s, err := once.New(pglock.NewKey(name), opts...)
	must.Succeed(t, err)
	return s
}

// do runs a transaction with nothing but a call of Tx.
func do(t *testing.T, pool *pgxpool.Pool, name, id string, opts ...pglock.TxOption) error {
	t.Helper()
	return doIn(t, pool, scope(t, name), id, opts...)
}

func doIn(t *testing.T, pool *pgxpool.Pool, s *once.Scope, id string, opts ...pglock.TxOption) error {
	t.Helper()
	return pgx.BeginFunc(bounded(t), pool, func(tx pgx.Tx) error { return s.Tx(bounded(t), tx, id, opts...) })
}

func wantIs(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("the error is %v, want one that is %v", err, want)
	}
}

type execer interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}

func execute(t *testing.T, db execer, sql string, args ...any) {
	t.Helper()
	if _, err := db.Exec(t.Context(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}
