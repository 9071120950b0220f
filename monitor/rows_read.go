package monitor

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/internal/lockkeys"
	"github.com/pglock-toolkit/pglock/internal/monitordb"
	"github.com/pglock-toolkit/pglock/internal/sqlstate"
	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// maxRowLocks bounds how many holders of locks in rows are read for a snapshot, and how many waiters.
const maxRowLocks int64 = 1000

// maxRowsHeld bounds how many locks of a process that was asked for are read.
const maxRowsHeld int64 = 10_000

// readRows reads the locks in rows, if the schema has them and the role may. A role that takes such locks can make as many
// as it likes, so that a statement takes too long: then there are none, or only those for which processes wait, and the reason.
func (r reader) readRows(ctx context.Context, t *tables, o config) error {
	row := t.rows[0]
	switch {
	case !row.SchemaExists || !row.Ours || !row.RowLocks:
		return nil
	case !row.RowLocksReadable:
		t.noRows = fmt.Sprintf("role %[1]s may not read the locks in rows: GRANT USAGE ON SCHEMA pglock TO %[1]s; "+
			"GRANT SELECT ON pglock.row_locks, pglock.fence TO %[1]s", quote(t.server.Role))
		return nil
	}
	if !t.trusted() {
		t.noRows = "the locks in rows were not read: " + cmp.Or(t.unchecked, t.looked.Err()).Error()
		return nil
	}
	most := maxRowLocks
	if o.holder != "" {
		most = maxRowsHeld
	}
	var waits, holders *rowList
	err := r.send(ctx, func(batch *pgx.Batch) {
		t.looked.QueueSame(batch)
		batch.Queue(monitordb.RowLocks, false, maxRowLocks, o.holder).Query(readRowList(&waits, false))
		batch.Queue(monitordb.RowLocks, true, most, o.holder).Query(readRowList(&holders, true))
	})
	if err = sqlstate.ExplainSchema(err); err != nil && (ctx.Err() != nil || connectionBroke(err) != nil) {
		return err
	}
	if waits == nil {
		t.noRows = "the locks in rows could not be read: " + err.Error()
		return nil
	}
	known := map[driver.KeyID]bool{}
	for _, row := range waits.locks {
		known[row.key()] = !lockkeys.IsMark(row.key())
	}
	if t.rowLocks = waits.locks; waits.left > 0 {
		t.noRows = fmt.Sprintf("%d of %d waits for locks in rows are left out", waits.left, waits.total)
	}
	if holders == nil {
		t.noHolders = "the locks in rows for which nothing waits could not be read: " + err.Error()
		return nil
	}
	for _, row := range holders.locks { // read a moment later than the waits
		if !known[row.key()] {
			t.rowLocks = append(t.rowLocks, row)
		}
	}
	if holders.left > 0 {
		t.noHolders = fmt.Sprintf("%d of %d holders of locks in rows are left out: nothing waits for them", holders.left, holders.total)
	}
	return nil
}

// rowList is what the statement RowLocks found: some of all waits, with those in their way, or of all holders.
type rowList struct {
	locks       []rowLock
	left, total int64
}

func readRowList(into **rowList, granted bool) func(pgx.Rows) error {
	return func(rows pgx.Rows) error {
		found, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[monitordb.RowLocksRow])
		if err != nil {
			return err
		}
		list := &rowList{left: found.Total, total: found.Total}
		if len(found.Locks) > 0 {
			err = json.Unmarshal(found.Locks, &list.locks)
		}
		for _, row := range list.locks {
			if row.Granted == granted {
				list.left--
			}
		}
		*into = list
		return err
	}
}
