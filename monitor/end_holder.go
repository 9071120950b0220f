package monitor

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/internal/monitordb"
	"github.com/pglock-toolkit/pglock/internal/sqlstate"
	"github.com/pglock-toolkit/pglock/internal/trust"
)

// RowTarget is a process that holds locks in rows, with all that is free when it is ended.
type RowTarget struct {
	RowProcess
	// Locks are the locks that it holds, sorted by space and number. At most 10,000 are read; More says that there are
	// others.
	Locks []RowHeld
	More  bool
}

// RowHeld is a lock in a row that a process holds.
type RowHeld struct {
	// Key, Mode, Generation and HeldSince are as in [RowLock] and [RowHolder].
	Key        string
	Mode       Mode
	Generation int64
	HeldSince  time.Time
}

const maxRowsHeld = 10_000

var isHolder = regexp.MustCompile(`^[0-9a-f]{16}$`)

// InspectHolder returns what a process ([RowProcess.Holder]) holds. The error matches [ErrNoSession] if it holds nothing.
func InspectHolder(ctx context.Context, db DBTX, holder string, opts ...Option) (t RowTarget, err error) {
	var rows []monitordb.HolderLocksRow
	err = onHolder(ctx, db, holder, opts, []string{"row_locks"}, func(batch *pgx.Batch) {
		batch.Queue(monitordb.HolderLocks, holder, int64(maxRowsHeld+1)).Query(readAll(&rows))
	})
	if err == nil && len(rows) == 0 {
		err = fmt.Errorf("%w: process %s holds no locks in rows", ErrNoSession, holder)
	}
	if sqlstate.Of(err) == sqlstate.InsufficientPrivilege {
		err = fmt.Errorf("%w: the role needs SELECT on pglock.row_locks and pglock.fence: %w", ErrNotPermitted, err)
	}
	if err != nil {
		return t, fmt.Errorf("monitor: cannot look up process %s%s: %w", holder, serverText(db), err)
	}
	first := rows[0]
	t.RowProcess = RowProcess{
		Holder: holder, User: first.Role, Application: first.Application, Host: first.Host, PID: first.Pid,
		Since: instant(first.ProcessSince), LeaseExpires: instant(first.Expires), Hidden: []string{},
	}
	if !first.Known {
		t.Hidden = slices.Clone(rowProcessFields)
	} else if !first.Visible {
		t.Hidden = slices.Clone(rowHostFields)
	}
	t.More = len(rows) > maxRowsHeld
	for _, row := range rows[:min(len(rows), maxRowsHeld)] {
		t.Locks = append(t.Locks, RowHeld{Key: row.Key, Mode: Mode(row.Mode), Generation: row.Generation, HeldSince: row.Since.Time.UTC()})
	}
	return t, nil
}

// EndHolder ends a process ([RowProcess.Holder]) in the connected database: all its locks in rows are free at once, except
// those that guard a transaction, which are when that has ended. It needs EXECUTE on pglock.lease_terminate, and SELECT on
// pglock.fence. db must not be a transaction.
//
// The process itself goes on. It is told that its locks are lost by its next call or renewal, a third of its lease later at
// most; until then it believes that it has them. [pglock.Lock.GuardTx] and fencing tokens keep what it writes meanwhile in
// order. It may take locks again, as another holder.
//
// The error matches [ErrNoSession] if there is no such process, or it is over, and [ErrNotPermitted].
func EndHolder(ctx context.Context, db DBTX, holder string, opts ...Option) error {
	var ended bool
	err := onHolder(ctx, db, holder, opts, []string{"lease_terminate"}, func(batch *pgx.Batch) {
		batch.Queue(monitordb.EndHolder, holder).Query(func(rows pgx.Rows) (err error) {
			ended, err = pgx.CollectExactlyOneRow(rows, pgx.RowTo[bool])
			return err
		})
	})
	switch {
	case err == nil && !ended:
		err = fmt.Errorf("%w: no process %s lives", ErrNoSession, holder)
	case err != nil && sqlstate.Of(err) == sqlstate.InsufficientPrivilege:
		err = fmt.Errorf("%w: the role needs EXECUTE on function pglock.lease_terminate(text): %w", ErrNotPermitted, err)
	}
	if err != nil {
		return fmt.Errorf("monitor: cannot end process %s%s: %w", holder, serverText(db), err)
	}
	return nil
}

// onHolder executes what queue adds, if the owner of these objects of the schema is trusted.
func onHolder(ctx context.Context, db DBTX, holder string, opts []Option, objects []string, queue func(*pgx.Batch)) error {
	switch {
	case db == nil:
		return errors.New("no connection (db is nil)")
	case !isHolder.MatchString(holder):
		return fmt.Errorf("%w: a process has 16 hexadecimal digits, as in pglock.row_locks", ErrNoSession)
	}
	o, err := newOptions(opts)
	if err != nil {
		return err
	}
	r := reader{db: db}
	if r.inTransaction, err = inTransaction(ctx, db); err != nil {
		return err
	}
	if r.inTransaction && slices.Contains(objects, "lease_terminate") {
		return errors.New("it is not possible in a transaction of the caller")
	}
	var looked trust.Looked
	if err := r.send(ctx, func(batch *pgx.Batch) { trust.QueueLook(batch, o.trusted, &looked) }); err != nil {
		return err
	}
	if err := looked.Err(); err != nil {
		return err
	}
	err = r.send(ctx, func(batch *pgx.Batch) {
		looked.QueueSame(batch)
		queue(batch)
	})
	return trust.Explain(err)
}
