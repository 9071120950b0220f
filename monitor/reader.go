package monitor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pglock-toolkit/pglock/internal/monitordb"
)

const (
	// statementTimeout is what one statement may cost a server that is in trouble.
	statementTimeout = "2s"
	// lockTimeout is how long a statement may queue behind somebody who changes what it reads.
	lockTimeout = "500ms"
	// undoTimeout is how long the caller's transaction is cared for after the caller's context has ended.
	undoTimeout = 5 * time.Second

	// https://www.postgresql.org/docs/current/errcodes-appendix.html
	queryCanceled    = "57014"
	lockNotAvailable = "55P03"
)

// reader sends statements over a connection that is somebody else's, and leaves it as it was.
type reader struct {
	db            DBTX
	inTransaction bool
}

// tables is what the server tells about its locks, as it tells it.
type tables struct {
	server   monitordb.ServerRow
	locks    []monitordb.LocksRow
	blockers []monitordb.BlockersRow
	// noBlockers says why blockers could not be read.
	noBlockers string
}

// readTables reads the lock table. Only the cost of the last statement grows faster than the number of locks, so a server
// with thousands of waiters may cancel that one alone; the locks are then worth having all the same.
func (r reader) readTables(ctx context.Context) (tables, error) {
	var t tables
	err := r.send(ctx, func(batch *pgx.Batch) {
		batch.Queue(monitordb.Server).Query(readOne(&t.server))
		batch.Queue(monitordb.Locks).Query(readAll(&t.locks))
		batch.Queue(monitordb.Blockers).Query(readAll(&t.blockers))
	})
	if refusal := refused(err); t.locks != nil && refusal != nil && refusal.Code == queryCanceled && ctx.Err() == nil {
		t.blockers, t.noBlockers = nil, fmt.Sprintf("pg_blocking_pids: %s", refusal.Message)
		return t, nil
	}
	return t, err
}

// readNames looks up the keys of t. That is a second round trip, so that what it looks up is what was found.
func (r reader) readNames(ctx context.Context, t tables) (names, error) {
	if why := noRegistry(t.server); why != "" {
		return names{missing: why}, nil
	}
	keys := nameableKeys(t)
	if len(keys) == 0 {
		return names{}, nil
	}
	var rows []registered
	err := r.send(ctx, func(batch *pgx.Batch) {
		batch.Queue(monitordb.Names, keys).QueryRow(func(row pgx.Row) error { return row.Scan(&rows) })
	})
	if refusal := refused(err); refusal != nil && ctx.Err() == nil {
		return names{missing: fmt.Sprintf("cannot read pglock.names: %s", refusal.Message)}, nil
	}
	return newNames(rows), err
}

// send carries out a batch under the monitor's limits.
func (r reader) send(ctx context.Context, queue func(*pgx.Batch)) error {
	batch := &pgx.Batch{}
	batch.Queue(monitordb.Limit, statementTimeout, lockTimeout)
	queue(batch)
	if r.inTransaction {
		return r.sendUnderSavepoint(ctx, batch)
	}
	// Without a transaction block the batch is a transaction of its own, and the limits, being local, end with it
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

// undo revives a transaction that has failed. It is no batch, since until the first statement has been carried out the
// server would not prepare the second.
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

// refused returns the server's own words when it was the server that failed the statement.
func refused(err error) *pgconn.PgError {
	var refusal *pgconn.PgError
	errors.As(err, &refusal)
	return refusal
}
