package lowestpgx

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/migrations"
	"github.com/pglock-toolkit/pglock/monitor"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/adapter/sqltx"
	"github.com/pglock-toolkit/pglock/pglock/locktest"
)

func TestMain(m *testing.M) { testenv.Main(m) }

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func open(t testing.TB, db *testenv.DB, opts ...pglock.Option) *pglock.Locker {
	t.Helper()
	l, err := pglock.New(db.Pool(t), opts...)
	check(t, err)
	t.Cleanup(func() { check(t, l.Close(context.Background())) })
	return l
}

func begin(t *testing.T, db *testenv.DB) pgx.Tx {
	t.Helper()
	tx, err := db.Connect(t).Begin(t.Context())
	check(t, err)
	return tx
}

func TestTheVersionIsTheDocumentedOne(t *testing.T) {
	for _, file := range []string{"go.mod", "../consumercheck/lowest.go", "../../docs/compatibility.md"} {
		text, err := os.ReadFile(file)
		check(t, err)
		if !strings.Contains(string(text), "v5.9.2") {
			t.Errorf("%s does not name v5.9.2", file)
		}
	}
}

func TestLockersPassTheSuite(t *testing.T) {
	db := testenv.Database(t)
	check(t, migrations.Up(t.Context(), db.Pool(t)))
	locktest.Exercise(t, func(t testing.TB, opts ...pglock.Option) *pglock.Locker { return open(t, db, opts...) })
}

func TestLocksInTransactions(t *testing.T) {
	db, ctx, key := testenv.Database(t), t.Context(), pglock.NewKey("invoice:42")
	holder, other := begin(t, db), begin(t, db)
	check(t, pglock.LockTx(ctx, holder, key))
	check(t, pglock.LockAllTx(ctx, holder, []pglock.Key{pglock.NewKey("a"), pglock.PairKey(7, -42)}))
	for name, err := range map[string]error{
		"TryLockTx":       pglock.TryLockTx(ctx, other, key),
		"with MaxWait":    pglock.LockTx(ctx, other, key, pglock.MaxWait(20*time.Millisecond)),
		"with a deadline": lockNear(t, db, key),
	} {
		if wait, ok := errors.AsType[*pglock.WaitError](err); !ok || !wait.Key.Equal(key) {
			t.Errorf("%s: the error is %v", name, err)
		}
	}
	waited := make(chan error, 1)
	go func() { waited <- pglock.LockTx(ctx, other, key) }()
	db.WaitForWaiters(t, 1)
	check(t, holder.Commit(ctx))
	check(t, <-waited)
	check(t, other.Rollback(ctx))

	batch := &pgx.Batch{}
	pglock.QueueLockTx(batch, key)
	batch.Queue("SELECT 1")
	tx := begin(t, db)
	check(t, tx.SendBatch(ctx, batch).Close())
	if locks := db.AdvisoryLocks(t); len(locks) != 1 {
		t.Errorf("pg_locks shows %v", locks)
	}
	check(t, tx.Rollback(ctx))
}

// lockNear waits under a deadline, in a separate transaction, since on a busy machine the connection may not survive
// that.
func lockNear(t *testing.T, db *testenv.DB, key pglock.Key) error {
	t.Helper()
	tx := begin(t, db)
	near, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	return pglock.LockTx(near, tx, key)
}

func TestGuardsAndDatabaseSQL(t *testing.T) {
	db, ctx := testenv.Database(t), t.Context()
	lock, err := open(t, db).Lock(ctx, pglock.NewKey("ledger"))
	check(t, err)
	tx := begin(t, db)
	check(t, lock.GuardTx(ctx, tx))
	check(t, tx.Commit(ctx))
	sqlDB := stdlib.OpenDB(*db.Config(t).ConnConfig)
	defer func() { check(t, sqlDB.Close()) }()
	sqlTx, err := sqlDB.BeginTx(ctx, nil)
	check(t, err)
	check(t, sqltx.GuardTx(ctx, lock, sqlTx))
	check(t, sqltx.LockTx(ctx, sqlTx, pglock.NewKey("invoice:42"), pglock.MaxWait(time.Minute)))
	snapshot, err := monitor.Take(ctx, db.Pool(t))
	check(t, err)
	if len(snapshot.Locks) < 2 {
		t.Errorf("the monitor shows %v", snapshot.Locks)
	}
	check(t, sqlTx.Commit())
	check(t, lock.Unlock(ctx))
}
