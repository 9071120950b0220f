package monitor

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/internal/monitordb"
	"github.com/pglock-toolkit/pglock/internal/trust"
)

// maxRowLocks bounds how many holders of locks in rows are read for a snapshot, and how many waiters.
const maxRowLocks int64 = 1000

// maxRowsHeld bounds how many locks of a process that was asked for are read.
const maxRowsHeld int64 = 10_000

// readRows reads the locks in rows, if the schema has them and the role may. A role that takes such locks can make as many
// as it likes, so that the statement takes too long: then there are none, and the reason.
func (r reader) readRows(ctx context.Context, t *tables, o options) error {
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
	var found monitordb.RowLocksRow
	err := r.send(ctx, func(batch *pgx.Batch) {
		t.looked.QueueSame(batch)
		batch.Queue(monitordb.RowLocks, maxRowLocks, o.holder, maxRowsHeld).Query(readOne(&found))
	})
	if err == nil && len(found.Locks) > 0 {
		err = json.Unmarshal(found.Locks, &t.rowLocks)
	}
	switch {
	case err == nil:
		if left := found.Held + found.Waiting - int64(len(t.rowLocks)); left > 0 {
			t.noRows = fmt.Sprintf("%d of %d holders and waiters of locks in rows are left out", left, found.Held+found.Waiting)
		}
		return nil
	case ctx.Err() != nil:
		return err
	}
	if broke := connectionBroke(trust.Explain(err)); broke != nil {
		return broke
	}
	t.noRows = "the locks in rows could not be read: " + trust.Explain(err).Error()
	return nil
}
