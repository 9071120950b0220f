package rowlock

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/internal/lockdb"
	"github.com/pglock-toolkit/pglock/internal/runstore"
	"github.com/pglock-toolkit/pglock/internal/sqlstate"
	"github.com/pglock-toolkit/pglock/internal/trust"
	"github.com/pglock-toolkit/pglock/pglock/internal/records"
)

// RecordRun implements [runstore.Store]. It has a connection of its own, since the record of a job may be locked by a
// transaction that has recorded a run (RecordRunIn) and is still open.
func (b *backend) RecordRun(ctx context.Context, r runstore.Request) (state runstore.State, err error) {
	ctx, cancel := context.WithTimeout(ctx, b.callWithin())
	defer cancel()
	err = b.runs.do(ctx, func(ctx context.Context, q *lockdb.Queries) error {
		row, err := q.TickDurably(ctx, lockdb.TickDurablyParams(records.TickParams(r)))
		state = records.TickState(lockdb.TickRow(row))
		return err
	})
	return state, err
}

// RecordRunIn implements [runstore.TxStore].
func (b *backend) RecordRunIn(ctx context.Context, tx pgx.Tx, r runstore.Request) (runstore.State, error) {
	guarded := records.Guarded{DB: tx, Owners: b.dialer.owners}
	row, err := guarded.Queries().Tick(ctx, records.TickParams(r))
	if err != nil {
		return runstore.State{}, sqlstate.ExplainSchema(sqlstate.EndedBy(ctx, trust.Explain(err)))
	}
	return records.TickState(row), nil
}

var _ runstore.TxStore = (*backend)(nil)
