package sqltx

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/lib/pq"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/pglock"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// drivers are the ways to open a database that send statements differently.
var drivers = map[string]func(t *testing.T, connString string) *sql.DB{
	"pgx":                      byPgx(""),
	"pgx exec":                 byPgx("default_query_exec_mode=exec"),
	"pgx describe":             byPgx("default_query_exec_mode=cache_describe"),
	"pgx simple":               byPgx("default_query_exec_mode=simple_protocol"),
	"lib/pq":                   byPq(""),
	"lib/pq binary parameters": byPq("binary_parameters=yes"),
}

func byPgx(parameter string) func(*testing.T, string) *sql.DB {
	return func(t *testing.T, connString string) *sql.DB {
		config, err := pgx.ParseConfig(with(connString, parameter))
		must.Succeed(t, err)
		return closed(t, stdlib.OpenDB(*config))
	}
}

func byPq(parameter string) func(*testing.T, string) *sql.DB {
	return func(t *testing.T, connString string) *sql.DB {
		connector, err := pq.NewConnector(with(connString, parameter))
		must.Succeed(t, err)
		return closed(t, sql.OpenDB(connector))
	}
}

func with(connString, parameter string) string {
	switch {
	case parameter == "":
		return connString
	case strings.Contains(connString, "?"):
		return connString + "&" + parameter
	}
	return connString + "?" + parameter
}

func closed(t *testing.T, db *sql.DB) *sql.DB {
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Errorf("close the database: %v", err)
		}
	})
	return db
}

// onEach runs a test with each driver.
func onEach(t *testing.T, test func(t *testing.T, server *testenv.DB, db *sql.DB)) {
	t.Parallel()
	server := testenv.Database(t)
	for name, open := range drivers {
		t.Run(name, func(t *testing.T) { test(t, server, open(t, server.ConnString())) })
	}
}

// begin begins a transaction that is rolled back when the test ends, if it has not ended before.
func begin(t *testing.T, db *sql.DB, options ...*sql.TxOptions) *sql.Tx {
	t.Helper()
	tx, err := db.BeginTx(context.Background(), append(options, nil)[0])
	must.Succeed(t, err)
	t.Cleanup(func() { _ = tx.Rollback() }) // it may have ended
	return tx
}

func show(t *testing.T, tx *sql.Tx, setting string) (value string) {
	t.Helper()
	must.Succeed(t, tx.QueryRowContext(t.Context(), "SHOW "+setting).Scan(&value))
	return value
}

// wantLocks fails the test unless pg_locks shows these locks, as "<key> <mode>", all of them granted.
func wantLocks(t *testing.T, server *testenv.DB, want ...string) {
	t.Helper()
	got := []string{}
	for _, lock := range server.AdvisoryLocks(t) {
		key := pglock.Int64Key(lock.Key)
		if lock.ObjSubID == 2 {
			key = pglock.PairKey(int32(lock.Key>>32), int32(lock.Key))
		}
		text := key.String() + " " + strings.ToLower(strings.TrimSuffix(lock.Mode, "Lock"))
		if !lock.Granted {
			text += " waited for"
		}
		got = append(got, text)
	}
	if !slices.Equal(got, append([]string{}, want...)) {
		t.Errorf("pg_locks shows %q, want %q", got, want)
	}
}

func wantWaitError(t *testing.T, err error, key pglock.Key) *pglock.WaitError {
	t.Helper()
	wait, ok := errors.AsType[*pglock.WaitError](err)
	if !ok || !errors.Is(err, pglock.ErrNotAcquired) || !wait.Keys[0].Equal(key) {
		t.Fatalf("the error is %v, want a WaitError for %v", err, key)
	}
	return wait
}

// long is a bound that no wait of a test reaches.
const long = 5 * time.Minute
