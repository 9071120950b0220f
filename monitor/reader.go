package monitor

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/internal/monitordb"
	"github.com/pglock-toolkit/pglock/internal/sqlstate"
	"github.com/pglock-toolkit/pglock/internal/trust"
)

const (
	// statementTimeout is what one statement may cost a server that is in trouble.
	statementTimeout = "2s"
	// lockTimeout is how long a statement may wait for a session that alters a table which it reads.
	lockTimeout = "500ms"
	// undoTimeout is how long restoring the caller's transaction may take after the caller's context has ended.
	undoTimeout = 5 * time.Second
)

// reader sends statements over a caller's connection, and leaves it as it was.
type reader struct {
	db            DBTX
	inTransaction bool
}

// tables is what the server reports about its locks, unchanged.
type tables struct {
	server   monitordb.LimitRow
	rows     []monitordb.LocksRow // never empty
	blockers []monitordb.BlockersRow
	// untrusted is the part of schema pglock that must not be used, and names is what its registry says.
	untrusted []trust.Finding
	names     registered
	// noBlockers says why blockers could not be read, and noNames why the name registry could not.
	noBlockers, noNames string
}

// readTables reads the lock table, and then the names of its locks.
func (r reader) readTables(ctx context.Context, o options) (tables, error) {
	t, err := r.read(ctx, o)
	if err != nil {
		return t, err
	}
	return t, r.readNames(ctx, &t, o)
}

// read does without the blockers when those alone take too long. Only their cost grows faster than the number of locks,
// so a server with thousands of waiters may report everything but them.
func (r reader) read(ctx context.Context, o options) (tables, error) {
	var t tables
	var findings []trust.Row
	err := r.sendTo(ctx, readOne(&t.server), func(batch *pgx.Batch) {
		trusted := append([]string{}, o.trusted...)
		batch.Queue(trust.Untrusted, trusted, []string{"names"}).Query(readAll(&findings))
		batch.Queue(monitordb.Locks, o.wanted, topSessions).Query(readAll(&t.rows))
		batch.Queue(monitordb.Blockers, o.wanted).Query(readAll(&t.blockers))
	})
	if t.rows != nil && sqlstate.Of(err) == sqlstate.QueryCanceled && ctx.Err() == nil {
		t.blockers, t.noBlockers = nil, fmt.Sprintf("pg_blocking_pids: %s", sqlstate.Refusal(err).Message)
		err = nil
	}
	if err != nil {
		return t, err
	}
	t.untrusted, err = trust.Findings(findings)
	return t, err
}

// send carries out a batch under the monitor's limits.
func (r reader) send(ctx context.Context, queue func(*pgx.Batch)) error {
	var server monitordb.LimitRow
	return r.sendTo(ctx, readOne(&server), queue)
}

// sendTo is send, and also reports which server answered.
func (r reader) sendTo(ctx context.Context, server func(pgx.Rows) error, queue func(*pgx.Batch)) error {
	batch := &pgx.Batch{}
	batch.Queue(monitordb.PinSearchPath)
	batch.Queue(monitordb.Limit, statementTimeout, lockTimeout).Query(server)
	queue(batch)
	if r.inTransaction {
		return r.sendUnderSavepoint(ctx, batch)
	}
	// Without a transaction block the batch is its own transaction, and the limits, being local, end with it
	// (https://www.postgresql.org/docs/current/protocol-flow.html#PROTOCOL-FLOW-PIPELINING).
	return r.db.SendBatch(ctx, batch).Close()
}

// sendUnderSavepoint undoes whatever the batch did to the caller's transaction: its limits, and its failure. The
// savepoint goes ahead of the batch, because pgx prepares all statements of a batch before it carries out the first.
func (r reader) sendUnderSavepoint(ctx context.Context, batch *pgx.Batch) error {
	if err := monitordb.New(r.db).Savepoint(ctx); err != nil {
		return err
	}
	batch.Queue(monitordb.RollbackToSavepoint)
	batch.Queue(monitordb.ReleaseSavepoint)
	err := r.db.SendBatch(ctx, batch).Close()
	if err == nil {
		return nil
	}
	if undoErr := r.undo(context.WithoutCancel(ctx)); undoErr != nil {
		return fmt.Errorf("the transaction could not be restored: %w (after: %v)", undoErr, err)
	}
	return err
}

// undo revives a transaction that has failed. It is not a batch, since the server would not prepare the second
// statement until the first has been executed.
func (r reader) undo(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, undoTimeout)
	defer cancel()
	queries := monitordb.New(r.db)
	if err := queries.RollbackToSavepoint(ctx); err != nil {
		return err
	}
	return queries.ReleaseSavepoint(ctx)
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
