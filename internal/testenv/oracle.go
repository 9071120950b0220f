package testenv

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
)

// Lock is a row of pg_locks: an advisory lock that a session holds or waits for.
type Lock struct {
	// Key is the bigint, or for a pair its class in the upper half and its object in the lower.
	Key int64
	// ObjSubID is 1 for a bigint and 2 for a pair.
	ObjSubID int16
	// Mode is "ExclusiveLock" or "ShareLock".
	Mode string
	// Granted is false for waiters.
	Granted bool
	// PID is the backend's process ID; 0 for a prepared transaction.
	PID int32
}

// String is for the messages of tests.
func (l Lock) String() string {
	state := "waited for"
	if l.Granted {
		state = "held"
	}
	return fmt.Sprintf("advisory lock %d (objsubid %d) in %s, %s by %d", l.Key, l.ObjSubID, l.Mode, state, l.PID)
}

const selectLocks = `
SELECT l.classid::bigint << 32 | l.objid::bigint AS key, l.objsubid, l.mode, l.granted, coalesce(l.pid, 0) AS pid
FROM pg_catalog.pg_locks l JOIN pg_catalog.pg_database d ON d.oid = l.database
WHERE l.locktype = 'advisory' AND d.datname = $1 AND NOT (l.granted AND l.objsubid = 2 AND l.classid = 1885826155) -- identities of sessions
ORDER BY key, l.objsubid, l.granted DESC, l.mode, pid`

// AdvisoryLocks returns the advisory locks in the database from pg_locks, ordered by key, holders first, but those by which
// lock sessions know each other (lockkeys.IdentityClass).
func (db *DB) AdvisoryLocks(t testing.TB) []Lock {
	t.Helper()
	var locks []Lock
	err := db.asAdmin(func(ctx context.Context, conn *pgx.Conn) (err error) {
		locks, err = db.advisoryLocks(ctx, conn)
		return err
	})
	if err != nil {
		t.Fatalf("read pg_locks: %v", err)
	}
	return locks
}

// TerminateHolder ends the sessions that hold the advisory lock with this key and objsubid.
func (db *DB) TerminateHolder(t testing.TB, key int64, objSubID int16) {
	t.Helper()
	for _, lock := range db.AdvisoryLocks(t) {
		if lock.Granted && lock.Key == key && lock.ObjSubID == objSubID {
			if _, err := db.Connect(t).Exec(t.Context(), "select pg_terminate_backend($1)", lock.PID); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func (db *DB) advisoryLocks(ctx context.Context, conn *pgx.Conn) ([]Lock, error) {
	rows, err := conn.Query(ctx, selectLocks, db.name)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[Lock])
}

// WaitForWaiters polls until there are exactly n waits for advisory locks in the database, and fails the test if
// that takes more than a minute.
func (db *DB) WaitForWaiters(t testing.TB, n int) {
	t.Helper()
	var locks []Lock
	err := db.asAdmin(func(ctx context.Context, conn *pgx.Conn) (err error) {
		poll(patience, func() bool {
			locks, err = db.advisoryLocks(ctx, conn)
			return err != nil || waiters(locks) == n
		})
		return err
	})
	if err != nil {
		t.Fatalf("wait for %d waiters: %v; last seen: %v", n, err, locks)
	}
	if got := waiters(locks); got != n {
		t.Fatalf("after %s there are %d waiters, want %d: %v", patience, got, n, locks)
	}
}

// Queue runs a locking statement on conn, which waits behind the present waiters until the test ends. An earlier
// error of the statement fails the test.
func (db *DB) Queue(t testing.TB, conn *pgx.Conn, statement string) {
	t.Helper()
	ahead := waiters(db.AdvisoryLocks(t))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		_, err := conn.Exec(ctx, statement)
		done <- err
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil && ctx.Err() == nil {
			t.Errorf("%s: %v", statement, err)
		}
	})
	db.WaitForWaiters(t, ahead+1)
}

func waiters(locks []Lock) (n int) {
	for _, lock := range locks {
		if !lock.Granted {
			n++
		}
	}
	return n
}
