package recorder

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/pglock-toolkit/pglock/internal/lockdb"
	"github.com/pglock-toolkit/pglock/internal/runstore"
	"github.com/pglock-toolkit/pglock/internal/sqlstate"
	"github.com/pglock-toolkit/pglock/pglock/driver"
	"github.com/pglock-toolkit/pglock/pglock/internal/link"
	"github.com/pglock-toolkit/pglock/pglock/internal/records"
)

// RecordRun implements [runstore.Store].
//
// A step whose answer was lost is sent again on a new connection. For all steps but one that is harmless, although a
// second StepAttempt may count twice. A StepStart that was recorded looks the second time as if another process had been
// first. Whichever it was, the run must not begin, so the record wins, and the error says what is not known.
func (r *Recorder) RecordRun(ctx context.Context, q runstore.Request) (state runstore.State, err error) {
	if q.Tx != nil {
		state, err = step(ctx, records.Guarded{DB: q.Tx, Owners: r.owners}.Queries(), q)
		return state, sqlstate.ExplainSchema(sqlstate.EndedBy(ctx, err))
	}
	record := func(ctx context.Context, queries *lockdb.Queries) (err error) {
		state, err = step(ctx, queries, q)
		return err
	}
	err = r.link.Do(ctx, record)
	if link.IsUnknown(err) && ctx.Err() == nil {
		err = r.link.Do(ctx, record)
		if err == nil && state.Done && q.Step == runstore.StepStart {
			err = errUnanswered
		}
	}
	return state, err
}

var errUnanswered = fmt.Errorf("%w: the connection ended while the start of the run was being recorded; it was recorded, "+
	"so the run is not repeated", driver.ErrUnavailable)

// step has an interval with microseconds only, since the length of months and days depends on the calendar.
func step(ctx context.Context, queries *lockdb.Queries, q runstore.Request) (state runstore.State, err error) {
	row, err := queries.Tick(ctx, lockdb.TickParams{
		Job: q.Job, Due: pgtype.Timestamptz{Time: q.Due, Valid: true}, Step: string(q.Step), Newest: int32(q.Newest),
		Keep: pgtype.Interval{Microseconds: q.Keep.Microseconds(), Valid: q.Keep > 0},
	})
	if err != nil {
		return state, err
	}
	state = runstore.State{At: row.At.Time, Done: row.Done}
	for _, due := range row.Dues {
		state.Dues = append(state.Dues, due.Time)
	}
	return state, nil
}
