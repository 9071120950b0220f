package schedule

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/pglock-toolkit/pglock/internal/lockdb"
	"github.com/pglock-toolkit/pglock/internal/sqlstate"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/internal/recorder"
	"github.com/pglock-toolkit/pglock/pglock/internal/records"
)

// postgres records runs in schema pglock, on a connection that is not a lock session, so that a commit that hangs costs
// no lock.
type postgres struct{ *recorder.Runs }

// record takes a step.
//
// A step whose answer was lost is sent again on a new connection. For all steps but one that is harmless, although a
// second StepAttempt may count twice. A StepStart that was recorded looks the second time as if another process had been
// first. Whichever it was, the run must not begin, so the record wins, and the error says what is not known.
func (p postgres) record(ctx context.Context, r RunRequest) (state RunState, err error) {
	unanswered := false
	err = p.Do(ctx, func(ctx context.Context, conn *pgx.Conn) (err error) {
		state, err = p.step(ctx, conn, r)
		if err == nil && state.Done && unanswered && r.Step == StepStart {
			return errUnanswered
		}
		unanswered = unanswered || err != nil && conn.IsClosed() && !pgconn.SafeToRetry(err)
		return err
	})
	return state, err
}

var errUnanswered = fmt.Errorf("%w: the connection ended while the start of the run was being recorded; it was recorded, "+
	"so the run is not repeated", pglock.ErrUnavailable)

// recordIn takes a step in a transaction of the caller's, on the database of the Locker.
func (p postgres) recordIn(ctx context.Context, tx pgx.Tx, r RunRequest) (RunState, error) {
	state, err := p.step(ctx, tx, r)
	return state, sqlstate.ExplainSchema(sqlstate.EndedBy(ctx, err))
}

func (p postgres) step(ctx context.Context, db records.Sender, r RunRequest) (RunState, error) {
	return scanState(p.In(db).QueryRow(ctx, lockdb.Tick, stepArgs(r)...))
}

// stepArgs returns the arguments of the statement. The interval has microseconds only, since the length of months and days
// depends on the calendar.
func stepArgs(r RunRequest) []any {
	keep := pgtype.Interval{Microseconds: r.Keep.Microseconds(), Valid: r.Keep > 0}
	return []any{r.Job, r.Due, string(r.Step), keep, int32(r.Newest)}
}

func scanState(row pgx.Row) (state RunState, err error) {
	var pruned *time.Time
	if err := row.Scan(&state.At, &state.Done, &pruned, &state.Dues); err != nil {
		return RunState{}, err
	}
	if pruned != nil {
		state.Pruned = *pruned
	}
	return state, nil
}
