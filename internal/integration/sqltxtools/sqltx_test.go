package sqltxtools

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/stdlib"
	"github.com/jmoiron/sqlx"
	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/pgdialect"
	"go.uber.org/goleak"
	"gorm.io/driver/postgres"
	"gorm.io/gorm"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/adapter/sqltx"
)

// GORM with PrepareStmt starts a goroutine that never ends.
func TestMain(m *testing.M) {
	testenv.Main(m, goleak.IgnoreTopFunction("gorm.io/gorm/internal/lru.NewLRU[...].func1"))
}

// tool is one of the libraries: its handle without a transaction, and one in a transaction that end ends.
type tool struct {
	outside func() sqltx.Tx
	begin   func(t *testing.T) (tx sqltx.Tx, end func() error)
}

func tools(t *testing.T, db *sql.DB) map[string]tool {
	t.Helper()
	x := sqlx.NewDb(db, "pgx")
	b := bun.NewDB(db, pgdialect.New())
	conn, err := b.Conn(t.Context())
	must.Succeed(t, err)
	t.Cleanup(func() { must.Succeed(t, conn.Close()) })
	return map[string]tool{
		"database/sql": {
			outside: func() sqltx.Tx { return db },
			begin: func(t *testing.T) (sqltx.Tx, func() error) {
				tx, err := db.BeginTx(t.Context(), nil)
				must.Succeed(t, err)
				return tx, tx.Commit
			},
		},
		"sqlx": {
			outside: func() sqltx.Tx { return x },
			begin: func(t *testing.T) (sqltx.Tx, func() error) {
				tx, err := x.BeginTxx(t.Context(), nil)
				must.Succeed(t, err)
				return tx, tx.Commit
			},
		},
		"bun": {
			outside: func() sqltx.Tx { return b },
			begin: func(t *testing.T) (sqltx.Tx, func() error) {
				tx, err := b.BeginTx(t.Context(), nil)
				must.Succeed(t, err)
				return tx, tx.Commit
			},
		},
		"bun's interface": {
			outside: func() sqltx.Tx { return conn },
			begin: func(t *testing.T) (sqltx.Tx, func() error) {
				tx, err := b.BeginTx(t.Context(), nil)
				must.Succeed(t, err)
				var db bun.IDB = tx // for functions that take either
				return db, tx.Commit
			},
		},
		"GORM":              byGorm(t, db, &gorm.Config{}),
		"GORM, PrepareStmt": byGorm(t, db, &gorm.Config{PrepareStmt: true}),
	}
}

func byGorm(t *testing.T, db *sql.DB, config *gorm.Config) tool {
	t.Helper()
	g, err := gorm.Open(postgres.New(postgres.Config{Conn: db}), config)
	must.Succeed(t, err)
	return tool{
		outside: func() sqltx.Tx { return g.WithContext(t.Context()).Statement.ConnPool },
		begin: func(t *testing.T) (sqltx.Tx, func() error) {
			tx := g.WithContext(t.Context()).Begin()
			must.Succeed(t, tx.Error)
			return tx.Statement.ConnPool, func() error { return tx.Commit().Error }
		},
	}
}

// onEach runs a test with each tool.
func onEach(t *testing.T, test func(t *testing.T, server *testenv.DB, tool tool)) {
	t.Helper()
	server := testenv.Database(t)
	db := stdlib.OpenDB(*server.Config(t).ConnConfig)
	t.Cleanup(func() { must.Succeed(t, db.Close()) })
	for name, tool := range tools(t, db) {
		t.Run(name, func(t *testing.T) { test(t, server, tool) })
	}
}

func TestLocksInTransactionsOfEachTool(t *testing.T) {
	key, wait := pglock.NewKey("invoice:42"), pglock.MaxWait(20*time.Millisecond)
	onEach(t, func(t *testing.T, server *testenv.DB, tool tool) {
		locker, err := pglock.New(server.Pool(t))
		must.Succeed(t, err)
		defer func() { must.Succeed(t, locker.Close(context.Background())) }()
		lock, err := locker.Lock(t.Context(), pglock.NewKey("ledger"))
		must.Succeed(t, err)

		holder, commit := tool.begin(t)
		must.Succeed(t, sqltx.GuardTx(t.Context(), lock, holder))
		must.Succeed(t, sqltx.LockTx(t.Context(), holder, key))
		must.Succeed(t, sqltx.LockAllTx(t.Context(), holder, []pglock.Key{pglock.PairKey(7, -42), pglock.Int64Key(1)}, wait))
		tx, rollback := tool.begin(t)
		for name, err := range map[string]error{
			"TryLockTx": sqltx.TryLockTx(t.Context(), tx, key),
			"MaxWait":   sqltx.LockTx(t.Context(), tx, key, wait),
		} {
			if wait, ok := errors.AsType[*pglock.WaitError](err); !ok || !wait.Keys[0].Equal(key) {
				t.Errorf("%s: the error is %v", name, err)
			}
		}
		must.Succeed(t, sqltx.TryLockTx(t.Context(), tx, pglock.NewKey("free"), pglock.Shared()))
		must.Succeed(t, commit())
		must.Succeed(t, sqltx.LockTx(t.Context(), tx, key, pglock.Shared()))
		must.Succeed(t, rollback())
		must.Succeed(t, lock.Unlock(t.Context()))
	})
}

func TestLocksOutsideOfTransactionsAreRefused(t *testing.T) {
	key := pglock.NewKey("invoice:42")
	onEach(t, func(t *testing.T, server *testenv.DB, tool tool) {
		for name, err := range map[string]error{
			"LockTx":    sqltx.LockTx(t.Context(), tool.outside(), key),
			"TryLockTx": sqltx.TryLockTx(t.Context(), tool.outside(), key),
			"LockAllTx": sqltx.LockAllTx(t.Context(), tool.outside(), []pglock.Key{key}),
			"MaxWait":   sqltx.LockTx(t.Context(), tool.outside(), key, pglock.MaxWait(time.Second)),
		} {
			if !errors.Is(err, sqltx.ErrNoTransaction) {
				t.Errorf("%s: the error is %v", name, err)
			}
		}
		if locks := server.AdvisoryLocks(t); len(locks) > 0 {
			t.Errorf("pg_locks shows %v", locks)
		}
	})
}
