package rowlock

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/pglock-toolkit/pglock/internal/lockdb"
	"github.com/pglock-toolkit/pglock/internal/sqlstate"
	"github.com/pglock-toolkit/pglock/internal/trust"
	"github.com/pglock-toolkit/pglock/pglock/internal/records"
	"github.com/pglock-toolkit/pglock/pglock/schedule"
)

// RecordRun implements [schedule.Store]. It has a connection of its own, since the record of a job may be locked by a
// transaction that has recorded a run (RecordRunIn) and is still open.
func (b *backend) RecordRun(ctx context.Context, r schedule.RunRequest) (state schedule.RunState, err error) {
	ctx, cancel := context.WithTimeout(ctx, b.callWithin())
	defer cancel()
	err = b.runs.do(ctx, func(ctx context.Context, q *lockdb.Queries) error {
		row, err := q.TickDurably(ctx, lockdb.TickDurablyParams(tick(r)))
		state = runState(lockdb.TickRow(row))
		return err
	})
	return state, err
}

// RecordRunIn implements [schedule.TxStore].
func (b *backend) RecordRunIn(ctx context.Context, tx pgx.Tx, r schedule.RunRequest) (schedule.RunState, error) {
	guarded := records.Guarded{DB: tx, Trust: &b.dialer.trust, Owners: b.dialer.owners}
	row, err := guarded.Queries().Tick(ctx, tick(r))
	if err != nil {
		return schedule.RunState{}, sqlstate.ExplainSchema(sqlstate.EndedBy(ctx, trust.Explain(err)))
	}
	return runState(row), nil
}

func tick(r schedule.RunRequest) lockdb.TickParams {
	return lockdb.TickParams{
		Job: r.Job, Due: pgtype.Timestamptz{Time: r.Due, Valid: true}, Step: string(r.Step), Newest: int32(r.Newest),
		Keep: pgtype.Interval{Microseconds: r.Keep.Microseconds(), Valid: r.Keep > 0},
	}
}

func runState(row lockdb.TickRow) schedule.RunState {
	state := schedule.RunState{At: row.At.Time, Done: row.Done, Pruned: row.Pruned.Time}
	for _, due := range row.Dues {
		state.Dues = append(state.Dues, due.Time)
	}
	return state
}

var _ schedule.TxStore = (*backend)(nil)
