// Package monitor shows the advisory locks of a PostgreSQL server: holders, waiters, blockers, and since when.
//
// [Take] reads one [Snapshot]; a [Watcher] takes them again and again. A snapshot holds every advisory lock of the
// server, whether a program that uses package pglock, another library or a user of psql took it. Keys have names if the
// name registry of schema pglock has them. Nothing else has to be installed or granted: columns that the server hides
// from the role are marked as hidden, and no lock is left out.
//
// [Snapshot.Action] says what to do first. [Snapshot.Target] shows everything that ends with a session; [Terminate]
// ends the session, [Cancel] its statement, and both report what happened to its locks.
//
// The types are made to be printed as JSON; their field names are a stable format. Every text in them comes from others
// (names, application names, queries): escape control characters before you write them to a terminal.
//
// Package pglock takes locks, the command pglock shows tables and colours, and package migrations has the views
// pglock.locks and pglock.waits for use in psql. PostgreSQL does not record when a lock was granted, how often its
// session took it, or whether it ends with the session or the transaction. So a snapshot does not say so either.
//
// # Names
//
// A key is a hash, so its name must be known from elsewhere: from the name registry of the connected database
// (schema pglock), or from a comment or string in the query of a holder or waiter, if its hash is the key. Keys
// without a name are compared with those that well-known tools use ([Lock.Guesses]).
//
// # Trust
//
// Any role that may create a schema can create a schema pglock, and its code could run with the rights of the monitor's
// role. So nothing in it is executed unless its owners are trusted. [WithTrustedOwner] says which owners are, and what
// happens to the names otherwise. No function, operator or type from the search_path is used either.
//
// # What it costs
//
// A snapshot is one round trip of few statements: some set limits and look up the owner of schema pglock, one reads
// the lock table, and one calls pg_blocking_pids for the waiting sessions. A second round trip asks for names, if
// any key can have one. A [Watcher] asks only for keys that are new, have no name yet, or were asked for 15 seconds
// ago. With 500 sessions, 10,000 advisory locks with registered names and 200 waiters, a snapshot of a Watcher took
// 50 ms of the server's processor time (make bench-monitor measures yours). Reading pg_locks blocks, for an instant,
// every session that wants to lock something, so do not take snapshots more often than you look at them.
package monitor

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pglock-toolkit/pglock/internal/sqlstate"
	"github.com/pglock-toolkit/pglock/pglock"
)

// Take reads the server's advisory locks as they are now. It works with every role, in every query execution mode of
// pgx, and behind a transaction pooler. A hot standby has locks of its own.
//
// It takes one round trip, one more for the names of keys, and one for locks in rows if schema pglock has them. In
// pgx's caching modes the first Take of a connection also prepares its statements; only ctx bounds that. Take
// cancels a statement after two seconds, or after half a second of waiting for a table's lock. Tighter limits of the
// connection apply instead, and none of these outlasts Take. If the name registry cannot be read, or the blockers
// take too long, the rest is returned.
//
// db must not be in a transaction, since the settings of Take end with one. A connection that is in one is refused; a
// wrapper that hides its connection is not. pgx closes a connection if ctx ends in the middle of a statement.
//
// The lock table changes while it is read. Locks, sessions and blockers are read one after another and can
// contradict each other: A waiter without blockers was granted its lock in between, or gave up. A blocker may be
// missing from the snapshot. A lock's session may have ended, or be new: [Session.Hidden] then names what is
// unknown. Nothing is left out to make the snapshot consistent.
//
// Take may be called from many goroutines at once where db allows that, as a pool does. Only ctx bounds how long the
// network may take.
func Take(ctx context.Context, db pglock.DB, opts ...Option) (*Snapshot, error) {
	if db == nil {
		return nil, errors.New("monitor: cannot read advisory locks: no connection (db is nil)")
	}
	snapshot, err := take(ctx, db, opts...)
	if err != nil {
		return nil, fmt.Errorf("monitor: cannot read advisory locks%s: %w%s", serverText(db), err, advice(err))
	}
	return snapshot, nil
}

func take(ctx context.Context, db pglock.DB, opts ...Option) (*Snapshot, error) {
	o, err := newConfig(opts)
	if err != nil {
		return nil, err
	}
	if inTransaction(db) {
		return nil, errInTransaction
	}
	t, err := reader{db}.readTables(ctx, o)
	if err != nil {
		return nil, err
	}
	return newSnapshot(t, o)
}

// advice explains errors that the monitor's own limits cause, and errors of statements that were prepared under a
// search_path with other objects of the same names.
func advice(err error) string {
	switch code := sqlstate.Of(err); {
	case errors.As(err, new(*pgconn.ConnectError)):
		return ""
	case code == sqlstate.QueryCanceled || code == sqlstate.LockNotAvailable:
		return fmt.Sprintf(" (so as not to burden a server in trouble, a statement has %s, and %s to wait for a table, or less if statement_timeout or "+
			"lock_timeout say so: try again, or have the connection string set these to 0)", statementTimeout, lockTimeout)
	case code == "0A000" || // feature_not_supported: "cached plan must not change result type"
		code != sqlstate.InsufficientPrivilege && sqlstate.In(err, sqlstate.ClassDataException, sqlstate.ClassSyntaxOrAccess):
		return " (if the search_path leads to operators and functions of another role, have the connection string set " +
			"search_path=pg_catalog,public, or use pgx.QueryExecModeExec)"
	}
	return ""
}
