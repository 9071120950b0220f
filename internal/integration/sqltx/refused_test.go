package sqltx

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/adapter/sqltx"
)

// rewriting changes part of each query, so that the server gives another answer.
type rewriting struct {
	tx       sqltx.Tx
	replacer *strings.Replacer
}

func (r rewriting) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	return r.tx.QueryContext(ctx, r.replacer.Replace(query), args...)
}

// attempts are all ways to take a lock.
func attempts(ctx context.Context, tx sqltx.Tx) map[string]error {
	key := pglock.NewKey("invoice:42")
	return map[string]error{
		"LockTx":                sqltx.LockTx(ctx, tx, key),
		"TryLockTx":             sqltx.TryLockTx(ctx, tx, key),
		"LockAllTx":             sqltx.LockAllTx(ctx, tx, []pglock.Key{key}),
		"LockTx with MaxWait":   sqltx.LockTx(ctx, tx, key, pglock.MaxWait(long)),
		"LockTx of a pair":      sqltx.LockTx(ctx, tx, pglock.PairKey(1, 2), pglock.Shared()),
		"LockAllTx and MaxWait": sqltx.LockAllTx(ctx, tx, []pglock.Key{key}, pglock.MaxWait(long)),
	}
}

func TestSQLTxRefusesServersWhoseLocksDoNotExclude(t *testing.T) {
	for name, test := range map[string]struct {
		replacer *strings.Replacer
		want     error
	}{
		"CockroachDB": {
			strings.NewReplacer("pg_catalog.current_setting('crdb_version', true)", "'CockroachDB CCL v24.1.0'::text"),
			pglock.ErrUnsupported,
		},
		"standby": {strings.NewReplacer("pg_catalog.pg_is_in_recovery()", "true"), pglock.ErrStandby},
	} {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(t *testing.T, server *testenv.DB, db *sql.DB) {
				for form, err := range attempts(t.Context(), rewriting{begin(t, db), test.replacer}) {
					if !errors.Is(err, test.want) || !strings.Contains(err.Error(), "lock") {
						t.Errorf("%s: the error is %v", form, err)
					}
				}
				wantLocks(t, server)
			})
		})
	}
}

// wrapped has the form of sqlx.DB and others.
type wrapped struct{ *sql.DB }

// hidden hides everything but QueryContext.
type hidden struct{ tx sqltx.Tx }

func (h hidden) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	return h.tx.QueryContext(ctx, query, args...)
}

func TestSQLTxRefusesWhatIsOutsideOfATransaction(t *testing.T) {
	onEach(t, func(t *testing.T, server *testenv.DB, db *sql.DB) {
		conn, err := db.Conn(t.Context())
		must.Succeed(t, err)
		defer func() { must.Succeed(t, conn.Close()) }()
		for name, handle := range map[string]sqltx.Tx{
			"*sql.DB": db, "*sql.Conn": conn, "*sql.DB in a struct": wrapped{db}, "behind a pointer": &wrapped{db},
			"hidden *sql.DB": hidden{db}, "hidden *sql.Conn": &hidden{conn},
		} {
			for form, err := range attempts(t.Context(), handle) {
				if !errors.Is(err, sqltx.ErrNoTransaction) {
					t.Errorf("%s, %s: the error is %v", name, form, err)
				}
			}
		}
		wantLocks(t, server)
	})
}

func TestSQLTxTakesAnyHandleThatIsInATransaction(t *testing.T) {
	onEach(t, func(t *testing.T, server *testenv.DB, db *sql.DB) {
		for name, handle := range map[string]func(*sql.Tx) sqltx.Tx{
			"hidden":              func(tx *sql.Tx) sqltx.Tx { return hidden{tx} },
			"embedded":            func(tx *sql.Tx) sqltx.Tx { return struct{ *sql.Tx }{tx} },
			"embedded by pointer": func(tx *sql.Tx) sqltx.Tx { return &struct{ *sql.Tx }{tx} },
		} {
			tx := begin(t, db)
			for form, err := range attempts(t.Context(), handle(tx)) {
				if err != nil {
					t.Errorf("%s, %s: %v", name, form, err)
				}
			}
			must.Succeed(t, tx.Commit())
		}
		conn, err := db.Conn(t.Context())
		must.Succeed(t, err)
		defer func() { must.Succeed(t, conn.Close()) }()
		for _, statement := range []string{"BEGIN", "ROLLBACK"} {
			_, err := conn.ExecContext(t.Context(), statement)
			must.Succeed(t, err)
			if statement == "BEGIN" {
				must.Succeed(t, sqltx.LockTx(t.Context(), conn, pglock.Int64Key(1)))
				wantLocks(t, server, "@1 exclusive")
			}
		}
		wantLocks(t, server)
	})
}
