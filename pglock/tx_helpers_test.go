package pglock_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/pglock"
)

// txModes are all the ways in which pgx executes a query.
var txModes = []pgx.QueryExecMode{
	pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec,
	pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
}

// txForm is one of the functions that lock in a transaction.
type txForm struct {
	name  string
	batch bool // an error aborts the transaction
	lock  func(ctx context.Context, tx pgx.Tx, key pglock.Key, opts ...pglock.TxOption) error
}

var txForms = []txForm{
	{name: "LockTx", lock: pglock.LockTx},
	{name: "LockAllTx", lock: func(ctx context.Context, tx pgx.Tx, key pglock.Key, opts ...pglock.TxOption) error {
		return pglock.LockAllTx(ctx, tx, []pglock.Key{key}, opts...)
	}},
	{name: "QueueLockTx", batch: true, lock: txSendLock},
}

// txSendLock locks with a batch.
func txSendLock(ctx context.Context, tx pgx.Tx, key pglock.Key, opts ...pglock.TxOption) error {
	batch := &pgx.Batch{}
	pglock.QueueLockTx(batch, key, opts...)
	return tx.SendBatch(ctx, batch).Close()
}

// txConnect connects with change made to the configuration.
func txConnect(t testing.TB, connString string, change func(*pgx.ConnConfig)) *pgx.Conn {
	t.Helper()
	config, err := pgx.ParseConfig(connString)
	txCheck(t, err)
	if change != nil {
		change(config)
	}
	conn, err := pgx.ConnectConfig(t.Context(), config)
	txCheck(t, err)
	t.Cleanup(func() {
		if err := conn.Close(context.Background()); err != nil {
			t.Errorf("close a connection: %v", err)
		}
	})
	return conn
}

// txBegin begins a transaction that is rolled back at the end of the test, if it has not ended by then.
func txBegin(t testing.TB, conn *pgx.Conn, options ...pgx.TxOptions) pgx.Tx {
	t.Helper()
	tx, err := conn.BeginTx(t.Context(), append(options, pgx.TxOptions{})[0])
	txCheck(t, err)
	t.Cleanup(func() {
		err := tx.Rollback(context.Background())
		if err != nil && !errors.Is(err, pgx.ErrTxClosed) && !conn.IsClosed() {
			t.Errorf("roll back: %v", err)
		}
	})
	return tx
}

// txHold has another session hold the keys until the returned transaction ends.
func txHold(t testing.TB, db *testenv.DB, keys ...pglock.Key) pgx.Tx {
	t.Helper()
	tx := txBegin(t, db.Connect(t))
	txCheck(t, pglock.LockAllTx(t.Context(), tx, keys))
	return tx
}

// txGo runs a call that may wait.
func txGo(call func() error) <-chan error {
	result := make(chan error, 1)
	go func() { result <- call() }()
	return result
}

func txCheck(t testing.TB, err error) {
	t.Helper()
	must.Succeed(t, err)
}

func txExec(t testing.TB, on interface {
	Exec(context.Context, string, ...any) (pgconn.CommandTag, error)
}, statements ...string) {
	t.Helper()
	for _, statement := range statements {
		if _, err := on.Exec(t.Context(), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
}

// txWantUsable fails the test unless tx can continue.
func txWantUsable(t testing.TB, tx pgx.Tx) {
	t.Helper()
	if _, err := tx.Exec(t.Context(), "SELECT 1"); err != nil {
		t.Errorf("the transaction cannot continue: %v", err)
	}
}

// txWantAborted fails the test unless conn is in a transaction that can only be rolled back.
func txWantAborted(t testing.TB, conn *pgx.Conn) {
	t.Helper()
	if status := conn.PgConn().TxStatus(); status != 'E' {
		t.Errorf("the transaction's status is %c, want E", status)
	}
}

// txWantLocks fails the test unless pg_locks shows what is wanted: a lock for each string, as "<key> <mode>", in the
// order of testenv.DB.AdvisoryLocks, all of them held.
func txWantLocks(t testing.TB, db *testenv.DB, want ...string) {
	t.Helper()
	got := []string{}
	for _, lock := range db.AdvisoryLocks(t) {
		got = append(got, txDescribe(lock))
	}
	if !slices.Equal(got, append([]string{}, want...)) {
		t.Errorf("pg_locks shows %q, want %q", got, want)
	}
}

func txDescribe(lock testenv.Lock) string {
	key := pglock.Int64Key(lock.Key)
	if lock.ObjSubID == 2 {
		key = pglock.PairKey(int32(lock.Key>>32), int32(lock.Key))
	}
	text := key.String() + " " + strings.ToLower(strings.TrimSuffix(lock.Mode, "Lock"))
	if !lock.Granted {
		text += " waited for"
	}
	return text
}

// txWantWaitError fails the test unless err is a *WaitError for key.
func txWantWaitError(t testing.TB, err error, key pglock.Key) *pglock.WaitError {
	t.Helper()
	wait := (*pglock.WaitError)(nil)
	if !errors.As(err, &wait) || !errors.Is(err, pglock.ErrNotAcquired) {
		t.Fatalf("the error is %v, want a WaitError", err)
	}
	if !wait.Keys[0].Equal(key) {
		t.Errorf("the WaitError is for %v, want %v", wait.Keys[0], key)
	}
	return wait
}

// txRoundTrips counts the round trips of a connection: how often its client sends after its server has.
type txRoundTrips struct {
	mu       sync.Mutex
	answered bool
	trips    int
}

// txCountRoundTrips counts the round trips of the connection that is made with config.
func txCountRoundTrips(config *pgx.ConnConfig) *txRoundTrips {
	trips := &txRoundTrips{}
	config.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		return txCountedConn{conn, trips}, err
	}
	return trips
}

func (t *txRoundTrips) read(n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.answered = t.answered || n > 0
}

func (t *txRoundTrips) write() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.answered {
		t.trips++
	}
	t.answered = false
}

func (t *txRoundTrips) count() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.trips
}

// during returns how many round trips the call takes.
func (t *txRoundTrips) during(call func()) int {
	before := t.count()
	call()
	return t.count() - before
}

type txCountedConn struct {
	net.Conn
	trips *txRoundTrips
}

func (c txCountedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.trips.read(n)
	return n, err
}

func (c txCountedConn) Write(p []byte) (int, error) {
	c.trips.write()
	return c.Conn.Write(p)
}

// txLong is a bound that no wait of a test reaches.
const txLong = 5 * time.Minute

var txHundredKeys = func() (keys []pglock.Key) {
	for i := range 50 {
		keys = append(keys, pglock.NewKey(fmt.Sprint("account:", i)), pglock.PairKey(int32(i), -int32(i)))
	}
	return keys
}()
