package records

import (
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/pglock-toolkit/pglock/internal/lockdb"
	"github.com/pglock-toolkit/pglock/internal/runstore"
)

// TickParams returns the arguments of pglock.tick. The interval has microseconds only, since the length of months and days
// depends on the calendar.
func TickParams(r runstore.Request) lockdb.TickParams {
	return lockdb.TickParams{
		Job: r.Job, Due: pgtype.Timestamptz{Time: r.Due, Valid: true}, Step: string(r.Step), Newest: int32(r.Newest),
		Keep: pgtype.Interval{Microseconds: r.Keep.Microseconds(), Valid: r.Keep > 0},
	}
}

// TickState returns the answer of pglock.tick.
func TickState(row lockdb.TickRow) runstore.State {
	state := runstore.State{At: row.At.Time, Done: row.Done, Pruned: row.Pruned.Time}
	for _, due := range row.Dues {
		state.Dues = append(state.Dues, due.Time)
	}
	return state
}
