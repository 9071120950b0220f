package lockfixture_test

import (
	"context"
	"errors"
	"net"
	"os"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/pglock"
)

// modes are all the ways in which pgx executes a query.
var modes = []pgx.QueryExecMode{
	pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec,
	pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
}

// unlike are the two of them that differ most: of prepared statements, and of texts with their arguments in them.
var unlike = []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeSimpleProtocol}

// database has the fixture's schema, and the invoices 0 to 9 of tenant acme.
func database(t testing.TB) *testenv.DB {
	t.Helper()
	db := testenv.Database(t)
	schema, err := os.ReadFile("schema.sql")
	must.Succeed(t, err)
	execute(t, db.Connect(t), string(schema), `INSERT INTO invoices (id, tenant) SELECT i, 'acme' FROM generate_series(0, 9) i`)
	return db
}

func execute(t testing.TB, conn *pgx.Conn, statements ...string) {
	t.Helper()
	for _, statement := range statements {
		if _, err := conn.Exec(context.Background(), statement); err != nil {
			t.Fatalf("%.60s: %v", statement, err)
		}
	}
}

// connect connects in an execution mode, and counts the round trips.
func connect(t testing.TB, connString string, mode pgx.QueryExecMode) (*pgx.Conn, *roundTrips) {
	t.Helper()
	config, err := pgx.ParseConfig(connString)
	must.Succeed(t, err)
	config.DefaultQueryExecMode = mode
	counted := &roundTrips{}
	config.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		return countedConn{conn, counted}, err
	}
	conn, err := pgx.ConnectConfig(t.Context(), config)
	must.Succeed(t, err)
	t.Cleanup(func() {
		if err := conn.Close(context.Background()); err != nil {
			t.Errorf("close a connection: %v", err)
		}
	})
	return conn, counted
}

// begin begins a transaction, which is rolled back when the test ends, if it has not ended before.
func begin(t testing.TB, conn *pgx.Conn, isolation ...pgx.TxIsoLevel) pgx.Tx {
	t.Helper()
	tx, err := conn.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: append(isolation, "")[0]})
	must.Succeed(t, err)
	t.Cleanup(func() {
		if err := tx.Rollback(context.Background()); err != nil && !errors.Is(err, pgx.ErrTxClosed) && !conn.IsClosed() {
			t.Errorf("roll back: %v", err)
		}
	})
	return tx
}

// hold has another session hold the keys until the returned function is called, or the test ends.
func hold(t testing.TB, db *testenv.DB, keys ...pglock.Key) (release func()) {
	t.Helper()
	tx := begin(t, db.Connect(t))
	must.Succeed(t, pglock.LockAllTx(t.Context(), tx, keys))
	return func() { must.Succeed(t, tx.Rollback(context.Background())) }
}

// wantLocks fails the test unless the database has exactly these locks, held.
func wantLocks(t testing.TB, db *testenv.DB, keys ...pglock.Key) {
	t.Helper()
	want := map[int64]bool{}
	for _, key := range keys {
		want[key.Int64()] = true
	}
	locks := db.AdvisoryLocks(t)
	for _, lock := range locks {
		if !want[lock.Key] || !lock.Granted {
			t.Errorf("pg_locks shows %v, want %v", locks, keys)
			return
		}
	}
	if len(locks) != len(want) {
		t.Errorf("pg_locks shows %v, want %v", locks, keys)
	}
}

// wantUsable fails the test unless the transaction and its connection can continue.
func wantUsable(t testing.TB, tx pgx.Tx) {
	t.Helper()
	var n int
	if err := tx.QueryRow(t.Context(), "SELECT 41 + $1::int", 1).Scan(&n); err != nil || n != 42 {
		t.Errorf("the transaction cannot continue: %d, %v", n, err)
	}
}

// wantAborted fails the test unless the transaction is aborted, and its connection can be used afterwards.
func wantAborted(t testing.TB, tx pgx.Tx) {
	t.Helper()
	conn := tx.Conn()
	if status := conn.PgConn().TxStatus(); status != 'E' {
		t.Errorf("the transaction's status is %c, want E", status)
	}
	must.Succeed(t, tx.Rollback(t.Context()))
	if err := conn.Ping(t.Context()); err != nil {
		t.Errorf("the connection is of no use: %v", err)
	}
}

// roundTrips counts the round trips of a connection: how often its client sends after its server has.
type roundTrips struct {
	mu       sync.Mutex
	answered bool
	count    int
}

func (c *roundTrips) during(call func()) int {
	c.mu.Lock()
	before := c.count
	c.mu.Unlock()
	call()
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.count - before
}

type countedConn struct {
	net.Conn
	trips *roundTrips
}

func (c countedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.trips.mu.Lock()
	c.trips.answered = c.trips.answered || n > 0
	c.trips.mu.Unlock()
	return n, err
}

func (c countedConn) Write(p []byte) (int, error) {
	c.trips.mu.Lock()
	if c.trips.answered {
		c.trips.count++
	}
	c.trips.answered = false
	c.trips.mu.Unlock()
	return c.Conn.Write(p)
}
