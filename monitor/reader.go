package monitor

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/internal/monitordb"
	"github.com/pglock-toolkit/pglock/internal/shorttext"
	"github.com/pglock-toolkit/pglock/internal/sqlstate"
	"github.com/pglock-toolkit/pglock/internal/trust"
	"github.com/pglock-toolkit/pglock/pglock"
)

const (
	// statementTimeout bounds a statement, so that the monitor does not burden a slow server.
	statementTimeout = "2s"
	// lockTimeout bounds the wait for a session that alters a table that the statement reads.
	lockTimeout = "500ms"
)

// reader sends statements over the caller's connection.
type reader struct{ db pglock.DB }

// tables is what the server reports about its locks, unchanged.
type tables struct {
	server   monitordb.LimitRow
	rows     []monitordb.LocksRow // never empty
	blockers []monitordb.BlockersRow
	// looked says whether schema pglock may be used, and unchecked why that is not known, so that nothing must be used.
	// names is the content of its registry.
	looked    trust.Looked
	unchecked error
	names     registered
	rowLocks  []rowLock
	// noBlockers, noNames, noRows and noHolders are why the blockers, the name registry, the locks in rows and those of them for
	// which nothing waits could not be read.
	noBlockers, noNames, noRows, noHolders string
}

// readTables reads the lock table, then the locks in rows, and then the names of both.
func (r reader) readTables(ctx context.Context, o config) (tables, error) {
	t, err := r.read(ctx, o)
	if err != nil {
		return t, err
	}
	if err := r.readRows(ctx, &t, o); err != nil {
		return t, err
	}
	return t, r.readNames(ctx, &t, o)
}

// read leaves out the blockers if they alone take too long. Their cost grows faster than the number of locks, so a
// server with thousands of waiters may be too slow for them. The owners come after the locks, since the owner of the
// database can make that statement fail: it can have any number of objects, and keep a catalog locked.
func (r reader) read(ctx context.Context, o config) (tables, error) {
	var t tables
	err := r.sendTo(ctx, readOne(&t.server), func(batch *pgx.Batch) {
		batch.Queue(monitordb.Locks, o.wanted, topSessions, o.advisory).Query(readAll(&t.rows))
		batch.Queue(monitordb.Blockers, o.advisory).Query(readAll(&t.blockers))
		trust.QueueLook(batch, o.trusted, &t.looked)
	})
	if gaveUp(ctx, err) && t.rows != nil && t.blockers == nil {
		t.noBlockers = fmt.Sprintf("pg_blocking_pids: %s", sqlstate.Refusal(err).Message)
		err = r.send(ctx, func(batch *pgx.Batch) { trust.QueueLook(batch, o.trusted, &t.looked) })
	}
	t.server.Database, t.server.Role = shorttext.Clean(t.server.Database), shorttext.Clean(t.server.Role)
	for i := range t.rows {
		cleanTexts(&t.rows[i])
	}
	if gaveUp(ctx, err) && t.rows != nil && t.looked.Schema == 0 && t.rows[0].SchemaExists {
		t.unchecked = fmt.Errorf("look up the owners in schema pglock: %s", sqlstate.Refusal(err).Message)
		return t, nil
	}
	return t, err
}

// gaveUp reports whether a statement ended since it took too long, or waited for a lock.
func gaveUp(ctx context.Context, err error) bool {
	code := sqlstate.Of(err)
	return ctx.Err() == nil && (code == sqlstate.QueryCanceled || code == sqlstate.LockNotAvailable)
}

// send executes a batch under the monitor's limits.
func (r reader) send(ctx context.Context, queue func(*pgx.Batch)) error {
	var server monitordb.LimitRow
	return r.sendTo(ctx, readOne(&server), queue)
}

// sendTo is like send, but also reports which server answered. If a text cannot be converted, it asks once more, for texts as
// the server has them.
func (r reader) sendTo(ctx context.Context, server func(pgx.Rows) error, queue func(*pgx.Batch)) error {
	err := r.sendOnce(ctx, false, server, queue)
	if code := sqlstate.Of(err); ctx.Err() == nil && (code == characterNotInRepertoire || code == untranslatableCharacter) {
		return r.sendOnce(ctx, true, server, queue)
	}
	return err
}

// The codes of texts that cannot be converted (https://www.postgresql.org/docs/current/errcodes-appendix.html).
const (
	characterNotInRepertoire = "22021"
	untranslatableCharacter  = "22P05"
)

func (r reader) sendOnce(ctx context.Context, raw bool, server func(pgx.Rows) error, queue func(*pgx.Batch)) error {
	batch := &pgx.Batch{}
	batch.Queue(monitordb.PinSearchPath)
	if raw {
		batch.Queue(monitordb.SendRawTexts)
	}
	batch.Queue(monitordb.Limit, statementTimeout, lockTimeout).Query(server)
	queue(batch)
	// Without a transaction block the batch is its own transaction, and the limits, being local, end with it
	// (https://www.postgresql.org/docs/current/protocol-flow.html#PROTOCOL-FLOW-PIPELINING).
	return r.db.SendBatch(ctx, batch).Close()
}

func readOne[T any](into *T) func(pgx.Rows) error {
	return func(rows pgx.Rows) (err error) {
		*into, err = pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[T])
		return err
	}
}

func readAll[T any](into *[]T) func(pgx.Rows) error {
	return func(rows pgx.Rows) error {
		all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[T])
		if err == nil {
			*into = all
		}
		return err
	}
}
